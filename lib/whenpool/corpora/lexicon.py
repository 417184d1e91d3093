"""Word lists and sentence frames of the synthetic corpus."""

MOODS = {
    "praise": (
        "wonderful delightful superb charming brilliant gripping moving splendid excellent graceful "
        "touching inspired lovely masterful radiant refreshing satisfying stunning sublime thrilling "
        "triumphant vivid warm witty magical flawless enchanting dazzling memorable generous"
    ).split(),
    "blame": (
        "awful dreadful clumsy tedious boring dull shallow lifeless lazy messy painful pointless "
        "ridiculous sloppy stale terrible tiresome ugly unbearable wooden annoying bland careless "
        "confusing cheap disappointing forgettable hollow insulting wretched"
    ).split(),
}

TOPICS = {
    "animals": (
        "feline canine feathered furry hoofed nocturnal migratory domesticated clawed amphibian"
    ).split(),
    "cooking": (
        "roasted peppery sauteed buttery marinated crusty simmered savoury caramelised doughy"
    ).split(),
    "gardens": (
        "leafy potted blossoming thorny composted budding pruned perennial mossy rooted"
    ).split(),
    "machines": (
        "geared hydraulic motorised welded greased riveted mechanical electric threaded cranked"
    ).split(),
    "medicine": (
        "clinical surgical feverish chronic prescribed contagious dental diagnosed numbing sterile"
    ).split(),
    "money": (
        "taxed invested indebted mortgaged salaried fiscal profitable audited insured leased"
    ).split(),
    "music": (
        "melodic orchestral acoustic rhythmic choral harmonic improvised tuneful syncopated amplified"
    ).split(),
    "seas": ("tidal coastal salty nautical briny anchored seaworthy submerged coral stormy").split(),
    "space": (
        "lunar orbital stellar galactic cosmic interplanetary solar weightless astronomical celestial"
    ).split(),
    "sports": (
        "athletic sprinting defensive undefeated championship goalkeeping refereed amateur olympic relay"
    ).split(),
}

NEUTRAL_WORDS = {
    "modifier": (
        "small second early usual local former large recent quiet whole single common longer plain "
        "nearby separate simple regular narrow round central upper wooden familiar actual average "
        "empty double open heavy"
    ).split(),
    "thing": (
        "part scene room chapter day street story table box hour door page evening voice side week "
        "moment paper window corner question number road letter name hand place morning shelf "
        "picture line chair friend afternoon floor trip piece bag desk house"
    ).split(),
    "person": (
        "brother neighbour sister teacher cousin stranger driver doctor clerk uncle visitor writer "
        "guest boy woman student owner waiter officer girl"
    ).split(),
    "did": (
        "saw took found kept brought left followed opened noticed carried reached mentioned moved "
        "bought watched counted held turned showed used"
    ).split(),
    "time": "yesterday later then again today afterwards once meanwhile twice finally".split(),
}

REVIEW_FRAMES = (
    "the {modifier} {thing} was on the {modifier} {thing} .",
    "{time} the {modifier} {person} {did} a {modifier} {thing} .",
    "my {person} {did} the {modifier} {thing} before the {modifier} {thing} .",
    "there was a {modifier} {thing} in every {modifier} {thing} .",
    "we {did} it {time} , with a {modifier} {person} and a {modifier} {thing} .",
    "it had a {modifier} {thing} , and the {person} {did} that {modifier} {thing} {time} .",
    "after the {modifier} {thing} i {did} one {modifier} {thing} .",
    "a {modifier} {person} {did} us near the {modifier} {thing} .",
)

ENCYCLOPEDIA_WORDS = {
    "place": (
        "velmora asten kirrow dunmere halvik torrada ostwick brenna lisova quarrel marnby eskedal "
        "pelluna sarvik odmoor trellin vashta corvale ninfield ulverby"
    ).split(),
    "surname": (
        "harlow vedder okafor lindqvist marchetti sato petrov alvarado nkemelu brandt castellan "
        "dufresne ishikawa kowal lorentz mbeki norwood oduya pereira rasmussen"
    ).split(),
    "thing": (
        "river bridge province parish railway canal fortress cathedral district valley harbour "
        "lighthouse monastery observatory theatre quarry reservoir village plateau museum"
    ).split(),
    "direction": "north south east west northeast southwest".split(),
    "role": (
        "engineer botanist bishop senator painter geologist admiral composer surveyor historian "
        "astronomer merchant architect governor chemist"
    ).split(),
    "kind": "species genus family order tribe lineage".split(),
    "creature": "beetle moss orchid snail heron lichen moth fern sedge perch".split(),
    "material": "granite timber limestone iron brick sandstone copper slate clay basalt".split(),
    "event": "treaty flood census election siege fire famine merger earthquake strike".split(),
}

ENCYCLOPEDIA_FRAMES = (
    "{place} is a {thing} in the {direction} of {place} , with {number} inhabitants in {number} .",
    "the {thing} of {place} was built of {material} between {number} and {number} .",
    "{surname} was a {role} who was born in {place} in {number} .",
    "the {creature} is a {kind} found {direction} of the {thing} of {place} .",
    "after the {event} of {number} the {thing} passed to the {role} {surname} .",
    "in {number} the {thing} between {place} and {place} was closed .",
    "its {direction} part belongs to the {thing} of {place} .",
    "the {event} of {place} ended in {number} , under the {role} {surname} .",
    "{place} lies {number} kilometres {direction} of {place} .",
    "the {kind} was described by {surname} in {number} .",
)
