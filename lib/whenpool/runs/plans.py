"""Which runs each chapter, and each table of the thesis, needs: `PLANS`, a function for each chapter.

Most plans take a training of the profile, see `bases`, and vary its fields: `each` gives every combination
of some values, `varied` takes a set of options at a time.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from whenpool.base.errors import InputError, check, check_known
from whenpool.corpora import find
from whenpool.corpora.published import PUBLICATIONS, THESIS_CORPORA
from whenpool.corpora.settings import SETTINGS
from whenpool.corpora.sources import statistics_of
from whenpool.corpora.tagged import GENERATED, PUBLISHED, find_tagged, is_tagged
from whenpool.fewshot.pretrained import DEFAULT_ENCODER, MINILM
from whenpool.models.registry import COMPARED, LISTED_CELLS, THESIS_POOLINGS
from whenpool.runs.kinds import FewShot, Probe, Tagging, Training, probe
from whenpool.runs.kinds.few_shot import CONTRAST, SYSTEMS
from whenpool.runs.kinds.training import TRICKS, grammar_of, test_texts
from whenpool.runs.request import Request
from whenpool.runs.run import VECTORS, Place, Run, find_vectors

Options = dict[str, Any]  # Values of some fields of a run

SEEDS = 5
SEEDS_FROM = 20  # Seeds of what claims of 2026-11-27 decide: runs with lower ones began before
FEWER_SEEDS = 3  # With more texts than a thousand or two: accuracies differ less, and it takes longer
COMPACT: Options = {"max_words": 140, "hidden_size": 64, "epochs": 8}
"""The compact replication: what is reduced of the thesis. "quick" trains fewer such models."""
COMPACT_TEST = {"imdb": 2_000}  # Test texts of the compact replication; of other corpora all
COMPACT_SIZES = {"imdb": (1_000, 2_000, 5_000, 10_000)}  # Its training texts; for others see `sizes_of`

# what all plans start from: corpora, sizes, seeds and models


def base_run(corpus: str, length: str, size: int, request: Request, place: Place) -> Training:
    """A run of the profile, with its setting, pooling and seed still to be filled in."""
    run = Training(corpus, "standard", size, "max_attention", length=length, masked=request.masked)
    if grammar := grammar_of(corpus):
        run = replace(run, embedding_size=50, hidden_size=48, epochs=6, learning_rate=5e-3)
        run = replace(run, validation=min(250, grammar.validation))
    elif request.profile == "paper":
        run = replace(run, vectors=find_vectors(place) or VECTORS[0])
    else:
        run = replace(run, vectors=find_vectors(place), test=COMPACT_TEST.get(corpus), **COMPACT)
    return with_cell(run, request.cell or run.cell, request.layers or run.layers)


def with_cell(run: Training, cell: str, layers: int = 1) -> Training:
    """A run with another cell: where a cell adds words to its state, with as many units as they have."""
    hidden_size = run.embedding_size if LISTED_CELLS[cell].adds else run.hidden_size
    return replace(run, cell=cell, layers=layers, hidden_size=hidden_size)


def each(run: Training, **values: Iterable[Any]) -> Iterator[Training]:
    """A training with each combination of some values of its fields, of which the last changes first."""
    for chosen in product(*values.values()):
        yield replace(run, **dict(zip(values, chosen, strict=True)))


def varied(run: Training, *options: Options) -> Iterator[Training]:
    """A training with some options at a time."""
    return (replace(run, **values) for values in options)


def corpora_of(request: Request, *usual: str) -> tuple[str, ...]:
    """The corpora that are asked for, else the usual ones of the whole paper, or the embedded one."""
    return request.corpora or (usual if request.is_whole else request.corpus_names)


def sizes_of(corpus: str, request: Request, place: Place) -> dict[str, Sequence[int]]:
    """Training sizes by length of text."""
    if corpus not in PUBLICATIONS:
        source, grammar = find(corpus, place.data), grammar_of(corpus)
        texts = grammar.train if grammar else statistics_of(source, "any")["train_size"]
        return {"any": request.sizes or (min(500, texts),)}
    published = PUBLICATIONS[corpus].sizes
    if request.profile == "compact":
        usual = {"long": COMPACT_SIZES.get(corpus, (1_000, 2_000)), "short": (1_000, 2_000, 5_000)}
        return {length: request.sizes or usual[length] for length in published}
    if request.profile != "paper":
        return {"long": request.sizes or (1_000,)}
    sizes: dict[str, Sequence[int]] = {}
    for length, split in published.items():
        every = [min(size, split.train) for size in (1_000, 2_000, 5_000, 10_000, 25_000)]
        sizes[length] = [size for size in every if size in (request.sizes or every)]
    return sizes


def bases(
    corpora: Iterable[str],
    request: Request,
    place: Place,
    sizes: Sequence[int] = (),
    first: bool = False,
) -> Iterator[Training]:
    """The run of the profile on each corpus, length of text and size. With ``sizes``, which are those of IMDb
    at both scales, or the ``first`` size alone, short texts are left out."""
    for corpus in corpora:
        for length, usual in sizes_of(corpus, request, place).items():
            if length == "short" and (sizes or first):
                continue
            if sizes and request.is_whole and corpus in PUBLICATIONS:
                few = request.profile == "compact" and corpus not in COMPACT_SIZES
                usual = request.sizes or ((1_000,) if few else sizes)
            for size in usual[:1] if first else usual:
                yield base_run(corpus, length, size, request, place)


def seeds_of(run: Training, request: Request) -> range:
    """The seeds of a run in its setting, as many as its profile has unless the reader says it."""
    count = 2 if run.setting in ("standard", "mid") and request.profile == "quick" else 1
    if request.profile == "paper":
        count = SEEDS
    elif request.profile == "compact":
        count = SEEDS if run.size <= (2_000 if run.corpus == "imdb" else 1_000) else FEWER_SEEDS
    return range(request.seeds or count)


def seeded_plain(run: Training, request: Request) -> Iterator[Training]:
    """A training on plain texts that probes look at: with one seed, but in the compact replication."""
    compact = request.profile == "compact"
    return each(run, seed=seeds_of(run, request) if compact else range(request.seeds or 1))


# Training to skip: tables 1.3 to 1.6 and 1.8 (§1.8); what the parameters of the embedded corpus do


def _training_to_skip(request: Request, place: Place) -> Iterable[Training]:
    settings, poolings = request.settings or SETTINGS, request.poolings or COMPARED
    for base in bases(request.corpus_names, request, place):
        for run in each(base, setting=settings, pooling=poolings):
            yield from each(run, seed=seeds_of(run, request))
    compact_imdb = request.profile == "compact" and "imdb" in request.corpus_names
    if compact_imdb and 1_000 in (request.sizes or (1_000,)):
        # how much the word vectors matter: others than GloVe's, and random ones
        base = replace(base_run("imdb", "long", 1_000, request, place), masked=True)
        both = [setting for setting in ("standard", "mid") if setting in settings]
        others, several = (VECTORS[1], None), range(request.seeds or FEWER_SEEDS)
        yield from each(base, vectors=others, setting=both, pooling=poolings, seed=several)


def _gradient_propagation(request: Request, place: Place) -> Iterable[Run]:
    poolings, whole = request.poolings or COMPARED, request.is_whole
    starts = [(pooling, "thesis") for pooling in poolings]
    if "last" in poolings and LISTED_CELLS[request.cell or Training.cell].forgets:
        starts += [("last", "low"), ("last", "chrono")] if whole else [("last", "low")]
    sizes = (1_000, 10_000, 20_000) if request.profile == "compact" else (1_000, 5_000, 20_000)
    for plain in bases(corpora_of(request, "imdb"), request, place, sizes):  # as in Table 1.2
        for base in seeded_plain(plain, request):
            first = replace(base, size=min(500, base.size), epochs=1, test=_some_tests(base))
            for pooling, forget_bias in starts:
                early = replace(first, pooling=pooling, forget_bias=forget_bias)
                yield probe.GradientProfile(early)
                if whole and base.size == 1_000:
                    yield probe.FirstSteps(early)
            if whole and base.size == 1_000 and base.masked and LISTED_CELLS[base.cell].recurrent:
                later = replace(first, pooling="last", masked=False, seed=SEEDS_FROM + base.seed)
                yield probe.GradientProfile(later)
            brief = request.profile != "paper" and base.size > 10_000
            for training in each(base, pooling=("last",) if brief else poolings):
                yield probe.GradientTrace(training)
                yield probe.GradientProfile(training)


def _some_tests(run: Training) -> int | None:
    """At most 1,000 test texts, which say enough of a first epoch; all of a reader's own, however many."""
    if run.test is None and run.corpus not in PUBLICATIONS and not grammar_of(run.corpus):
        return None
    return min(run.test or test_texts(run.corpus, run.length), 1_000)


# Natural bias: figures 1.4, 1.6 and 1.7, and what padding has to do with them (§1.6, §1.7)


def _natural_bias(request: Request, place: Place) -> Iterable[Run]:
    whole, asked = request.is_whole, request.poolings or COMPARED
    for corpus in corpora_of(request, "imdb", "amazon"):
        sizes = (1_000, 5_000, 10_000, 20_000) if corpus == "imdb" else (10_000,)
        for plain in bases([corpus], request, place, sizes):
            for base in seeded_plain(plain, request):
                # Figure 1.7 has the BiLSTM alone; the blog post has 5K reviews with every pooling
                usual = ("last",) if whole and base.size == 20_000 else COMPARED
                yield from map(probe.PaddingSweep, each(base, pooling=request.poolings or usual))
                if not (base.masked and LISTED_CELLS[base.cell].recurrent):
                    continue
                masked, unmasked = each(base, pooling=["last"], masked=(True, False))
                yield probe.PaddingSweep(unmasked)
                if "last" in asked:
                    yield probe.DirectionUse(masked)
                    yield probe.DirectionUse(unmasked)
                    if whole and base.size == 1_000 and LISTED_CELLS[base.cell].forgets:
                        yield probe.PaddingSweep(replace(masked, forget_bias="chrono"))
                    if whole and base.size in (1_000, 10_000):
                        yield probe.PaddingSweep(replace(unmasked, seed=SEEDS_FROM + base.seed))
        if corpus == "imdb" and whole and request.masked and request.poolings is None:
            yield from _padding_and_gates(request, place)


def _padding_and_gates(request: Request, place: Place) -> Iterable[Training]:
    """Padding masked or not; the forget gate of the thesis, of the public code, and chrono."""
    base = replace(base_run("imdb", "long", 1_000, request, place), masked=False)
    compact = request.profile == "compact"
    if base.size not in (request.sizes or (base.size,)):
        return
    pooled = [name for name in COMPARED if name != "last"] if compact else ["max_attention"]
    for plain in each(base, seed=range(request.seeds or SEEDS), setting=request.settings or SETTINGS):
        last = replace(plain, pooling="last")
        yield last
        if plain.setting in ("standard", "mid"):
            yield from each(last, forget_bias=[2.0], masked=(True, False))
            yield replace(last, forget_bias="chrono", masked=True)
            for run in each(plain, pooling=pooled):
                yield from (run, replace(run, forget_bias="chrono", masked=True)) if compact else (run,)


# Word importance: figures 1.9, 1.10 and 1.11 (§1.9)

IMPORTANCE_FIGURES = (
    ("imdb", "long", 1_000, SETTINGS),
    ("yahoo", "long", 25_000, ("standard", "left", "mid")),  # Figure 1.9
    ("yahoo", "short", 25_000, ("standard",)),
    *((corpus, "long", 10_000, SETTINGS) for corpus in ("imdb", "yahoo", "amazon")),  # 1.10
    *((corpus, "short", 10_000, ("standard", "left", "mid")) for corpus in ("yahoo", "amazon")),  # 1.11
)
"""Corpus, length of text, training texts and settings of the figures, and the size we run besides."""


def _word_importance(request: Request, place: Place) -> Iterable[Run]:
    paper, compact = request.profile == "paper", request.profile == "compact"
    for corpus in request.corpus_names:
        figures = [figure for figure in IMPORTANCE_FIGURES if paper and figure[0] == corpus]
        figures = [figure for figure in figures if not request.sizes or figure[2] in request.sizes]
        if not figures and paper and not (request.corpora or request.sizes):
            continue  # nobody asked for it
        for _, length, size, settings in figures or _unpictured(corpus, request, place):
            base = base_run(corpus, length, size, request, place)
            words: Options = {}
            if length == "short" and (figures or compact):
                words = {"k": 3, "shortest": 50, "longest": 60} if figures else {"k": 3}
            elif figures:
                words = {"k": 5, "shortest": 400, "longest": 500}
            wanted = [setting for setting in settings if setting in (request.settings or SETTINGS)]
            for run in each(base, setting=wanted, pooling=request.poolings or COMPARED):
                yield from (
                    probe.WordImportance(seeded, **words) for seeded in seeded_plain(run, request)
                )


def _unpictured(corpus: str, request: Request, place: Place) -> Iterable[tuple[str, str, int, Any]]:
    """Where the thesis has no figures: all settings, the first size, in the compact replication the last."""
    for length, sizes in sizes_of(corpus, request, place).items():
        wanted = sizes[:1]
        if request.profile == "compact":
            wanted = sizes if length == "short" else sizes[:: len(sizes) - 1 or 1]
        yield from ((corpus, length, size, SETTINGS) for size in wanted)


# Few labels: Table 1.9, or its likeness in small, and accuracy over the number of labels (§1.10)

PAPER_UNLABELLED = 5_000  # Unlabelled texts of each class, as in Chen et al. (2020)
LABELS = (1, 3, 10, 30, 100)  # Labelled texts of each class; the thesis has 10
_FINE_TUNED: Options = {"learning_rate": 5e-5, "head_learning_rate": 1e-3, "max_tokens": 128}
_PAIRED: Options = {"batch_size": 4, "unlabelled": 5_000, "replaced": 0.3}
_SMALL: Options = {"validation": 100, "test": 1_000, "steps": 100}
_TINY: Options = {"validation": 40, "test": 200, "max_tokens": 64, "steps": 20, "looks": 3}
_LONG: Options = {"learning_rate": 5e-6, "batch_size": 4, "steps": 20_000, "looks": 20}
_FROZEN = ("max_attention", *CONTRAST)  # Systems that read words, or frozen states of an encoder
PAPER: dict[str, Options] = {
    "vampire": {"learning_rate": 1e-3},
    "bert": {"learning_rate": 5e-6},
    "tmix": {"learning_rate": 5e-6},
    "uda": _LONG,
    "mixtext": _LONG | {"augmentations": 2},
    **{name: {"max_tokens": 512} for name in _FROZEN},
}
"""By the released commands of Chen et al. (2020), and the thesis's 512 tokens."""
SMALL: dict[str, Options] = {
    "vampire": _SMALL | {"learning_rate": 3e-3, "steps": 300, "unlabelled": 5_000},
    **dict.fromkeys(("bert", "tmix"), _SMALL | _FINE_TUNED),
    **dict.fromkeys(("uda", "mixtext"), _SMALL | _FINE_TUNED | _PAIRED),
    **dict.fromkeys(_FROZEN, _SMALL | {"max_tokens": 512, "steps": 200}),
}
"""On published corpora: minutes a run on a processor, with a small encoder."""
EMBEDDED: dict[str, Options] = {
    **{name: SMALL[name] | _TINY for name in SYSTEMS},
    "vampire": SMALL["vampire"] | _TINY | {"steps": 100, "pretraining": 400},
    **dict.fromkeys(_FROZEN, _TINY | {"steps": 60, "hidden_size": 48}),
}
"""On the embedded corpus, or a file of the reader's own: seconds a run."""


def _few_shot(request: Request, place: Place) -> Iterable[FewShot]:
    for name in request.systems or ():
        check_known("system", name, (*SYSTEMS, *CONTRAST))
    paper = request.profile == "paper"
    for corpus in corpora_of(request, "imdb", "yahoo"):
        published = corpus in PUBLICATIONS
        # what depends on the corpus and the reader; a system takes what it has use for
        asked: Options = {"encoder": request.encoder or (DEFAULT_ENCODER if paper else MINILM)}
        asked["paraphrases"] = request.paraphrases
        labels: tuple[int, ...] = (FewShot.per_class,)
        if published:
            asked["vectors"] = find_vectors(place) or VECTORS[0]
            labels = LABELS if request.profile == "quick" else labels
            if paper:
                asked["unlabelled"] = PAPER_UNLABELLED * PUBLICATIONS[corpus].classes
        elif not request.labels and (source := find(corpus, place.data)).path:
            mine = statistics_of(source, "any")  # half of the texts of a file stay unlabelled
            labels = (max(1, min(FewShot.per_class, mine["train_size"] // mine["classes"] // 2)),)
        if request.unlabelled:
            asked["unlabelled"] = request.unlabelled
        settings = PAPER if paper else SMALL if published else EMBEDDED
        seeds = range(request.seeds or (SEEDS if paper else FEWER_SEEDS if published else 1))
        systems = request.systems or (*SYSTEMS, *CONTRAST)
        for seed, per_class, system in product(seeds, request.labels or labels, systems):
            yield FewShot(corpus, system, per_class, seed, **settings[system] | asked)


# Learnability: Table 2.1, and other starts of the model without pooling (§2.2)

OTHER_STARTS: tuple[Options, ...] = (
    {"forget_bias": 2.0},
    {"forget_bias": "chrono"},
    {"orthogonal": True},
)
"""What related work changes about the start of an LSTM (§2.2.2), beside its forget bias of 1."""
TRIED_STRENGTHS: tuple[Options, ...] = (
    *({"strength": strength} for strength in (0.01, 0.1, 1.0, 10.0)),
    *({"strength": strength, "divergence": "reverse"} for strength in (0.1, 1.0)),
)
"""What the gradient-directed training in use was chosen from, beside itself (§2.2.7)."""


def _learnability(request: Request, place: Place) -> Iterable[Run]:
    default = {"compact": FEWER_SEEDS, "paper": SEEDS}.get(request.profile, 1)
    cell = LISTED_CELLS[request.cell or Training.cell]
    settings, seeds = request.settings or ("standard", "mid"), range(request.seeds or default)
    for base in bases(corpora_of(request, "imdb"), replace(request, masked=True), place, (10_000,)):
        published = base.corpus in PUBLICATIONS
        for plain in each(base, setting=settings, seed=seeds):
            yield from each(plain, pooling=("max", "max_attention"))
            plain = replace(plain, pooling="last")
            yield probe.GradientProfile(plain, untrained=True)
            for run in each(plain, trick=(None, *TRICKS) if cell.recurrent else (None,)):
                yield from (run, probe.GradientProfile(run))
            for start in OTHER_STARTS:
                if cell.forgets or (cell.remembers and "forget_bias" not in start):
                    run = replace(plain, **start)
                    yield run
                    if published and run.forget_bias == "chrono":
                        yield probe.GradientProfile(run)
            if published and request.profile == "quick" and cell.recurrent and plain.seed == 0:
                yield from varied(replace(plain, trick="gradient_directed"), *TRIED_STRENGTHS)


# What the last state holds: starts of a BiLSTM without pooling, what their untrained states hold, how their
# gradients change while they learn, and what they reach

GATES = (2.0, 3.5, 5.0, 6.5, 8.0)  # v of a start with forget bias v and input bias -v
_GATED: tuple[Options, ...] = tuple({"forget_bias": v, "input_bias": -v} for v in GATES)
_CHRONO: Options = {"forget_bias": "chrono"}
START_OPTIONS: tuple[Options, ...] = (
    {},
    *({"forget_bias": value} for value in (2.0, 3.0, 5.0, "low")),
    *(_CHRONO | {"chrono_words": words} for words in (100, 400, 1_000, 3_000)),
    *_GATED,
    *({"forget_bias": f"chrono {part}"} for part in ("forget", "input")),
)
"""What each start changes about a BiLSTM without pooling, whose forget bias sums to 1."""
_FRESH: tuple[Options, ...] = (
    *START_OPTIONS[1:4:2], {"forget_bias": 5.0, "held": "W_hh"}, _CHRONO, _GATED[2],
)  # fmt: skip
"""The starts that are also trained with other filler in every epoch, so that none can be learnt by heart."""
SHARES = (0.0, 0.33, 0.8, 0.9, 0.95)  # Filler's part of a text, beside the usual
DRAWS = 5


def _last_state(request: Request, place: Place) -> Iterable[Run]:
    """By what decides first: states of untrained models, trained ones of each start, then the rest."""
    whole = request.is_whole and request.cell in (None, Training.cell)
    corpora = corpora_of(request, "imdb")
    for base in bases(corpora, replace(request, masked=True), place, first=True):
        base = replace(base, pooling="last")
        if whole and base.corpus == "imdb":
            yield from _last_state_whole(base, request)
            continue
        # untrained states of some starts, each trained once, in the middle of filler
        few = [START_OPTIONS[number] for number in (1, 3, 6, 11)] if base.cell == Training.cell else [{}]
        for seeded in each(replace(base, setting="mid"), seed=range(request.seeds or 1)):
            for run in varied(seeded, *few):
                yield from (probe.UntrainedStates(run), run)


def _last_state_whole(base: Training, request: Request) -> Iterator[Run]:
    """All that the claims of the chapter ask for, on IMDb, at either scale."""
    compact = base.max_words is not None
    seeds = range(SEEDS_FROM, SEEDS_FROM + (request.seeds or (SEEDS if compact else 3)))
    settings = request.settings or ("mid", "standard", "left", "right")
    sizes = request.sizes or (1_000, 10_000)
    untrained = replace(base, size=4_000, validation=2_000, test=2_000 if compact else 5_000)
    for run in each(untrained, setting=settings, seed=seeds):
        if run.setting == "mid" or run.seed == SEEDS_FROM:  # elsewhere they decide nothing
            yield from map(probe.UntrainedStates, varied(run, *START_OPTIONS))
    pooled: Options = {"pooling": "max_attention"}
    middle = replace(base, setting="mid")
    if "standard" in settings and 1_000 in sizes:
        for run in each(base, seed=seeds):
            yield from varied(run, *_GATED, pooled)
    if "mid" in settings and 1_000 in sizes:
        yield from _last_state_watched(middle, seeds)
        for run in each(middle, draw=range(1, DRAWS + 1)):
            yield from varied(run, {}, _CHRONO, pooled)
        for run in each(middle, seed=seeds, fresh=[True]):
            yield from varied(run, *_FRESH, pooled)
        for run in each(middle, seed=seeds if compact else (), share=SHARES):
            yield from varied(run, *_GATED)
    if "mid" in settings and 10_000 in sizes:
        for run in each(middle, size=[10_000], seed=seeds[:3]):
            yield from varied(run, *_GATED, _CHRONO, pooled)


def _last_state_watched(middle: Training, seeds: Iterable[int]) -> Iterator[Run]:
    """Trainings on 1K reviews in the middle of filler, whose gradients are watched on held-out texts."""
    words = (350, 412) if middle.max_words is not None else (700, 900)
    for run in each(middle, seed=seeds):
        starts: list[tuple[Options, int | None]] = [(start, 3_000) for start in START_OPTIONS[2:]]
        starts += [(start, None) for start in START_OPTIONS[:2]]  # sums of 1 and 2 up to the end
        starts.append(({"forget_bias": 5.0, "held": "W_hh"}, 3_000))
        starts += [(start | {"shuffled": True}, 3_000) for start in (*START_OPTIONS[:2], _CHRONO)]
        for start, until in starts:
            watched = replace(run, **start)
            yield probe.GradientTrace(watched, 200, shortest=words[0], longest=words[1], until=until)
            yield watched  # which the trace has trained
        yield replace(run, pooling="max_attention")
        yield from each(run, pooling=("max", "max_attention"), forget_bias=["chrono"])


# Recurrent networks from scratch (the slides; thesis §1.3.1)

# in the order of the slides, and two later ones; those that are trained on published corpora
FAMILY = ("sum", "tanh_sum", "elman", "prototype", "lstm", "gru", "mingru", "minlstm")
COMPARED_CELLS = ("elman", "prototype", "lstm", "gru")


def _recurrent_networks(request: Request, place: Place) -> Iterable[Run]:
    """Every cell without pooling, whatever the reader asks for: from left to right, with the gradients of its
    states, on the embedded corpus or a file of the reader's; on published corpora what claims are about."""
    request = replace(request, cell=None, layers=None)
    texts = 500 if request.profile == "paper" else 100
    for base in bases(corpora_of(request, "imdb"), request, place, first=True):
        published = base.corpus in PUBLICATIONS
        base = replace(base, pooling="last")
        seeds = range(request.seeds or (FEWER_SEEDS if published else 1))
        for seeded in each(base, setting=request.settings or ("standard",), seed=seeds):
            deep = with_cell(seeded, "lstm", layers=2)
            if published:
                yield from (*(with_cell(seeded, cell) for cell in COMPARED_CELLS), deep)
                continue
            one_way = replace(seeded, bidirectional=False)
            family = [with_cell(one_way, cell) for cell in FAMILY]
            # an LSTM as torch starts it, one in both directions, and a deep one
            for run in (*family, replace(one_way, forget_bias=None), seeded, deep):
                yield run
                yield probe.GradientProfile(run, texts, untrained=True)
                yield probe.GradientProfile(run, texts)


# Other architectures (thesis §1.3.3, §1.11.1)

ARCHITECTURES = ("lstm", "gru", "elman", "mingru", "transformer")  # The thesis's first
TRANSFORMER_RATE = 2e-3  # Chosen by validation accuracy, see `TRIED`: the thesis's own
TRIED: tuple[Options, ...] = (
    {"learning_rate": 5e-4},
    {"learning_rate": 1e-3},
    {"layers": 2, "learning_rate": 1e-3},
    {"epochs": 20},
)
"""Other ways to train the Transformer, on the small models and IMDb."""
_BOTH = ("last", "max_attention")


def _architectures(request: Request, place: Place) -> Iterable[Run]:
    """Training to skip, natural bias and word importance of other cells and of the Transformer, each without
    pooling and with, whatever cell the reader asks for; and the memory that a step takes."""
    request = replace(request, cell=None, masked=True)
    # these are run in all four settings, once
    in_all_settings = ("lstm last", "lstm max_attention", "transformer max_attention")
    # texts of a sweep, and of word importance
    swept, looked_at = (1_000, 200) if request.profile == "paper" else (100, 60)
    for base in bases(corpora_of(request, "imdb"), request, place, first=True):
        recorded = base.corpus in PUBLICATIONS and request.profile == "quick"
        seeds = range(request.seeds or (FEWER_SEEDS if recorded else 1))
        transformer: Options = {"cell": "transformer", "learning_rate": TRANSFORMER_RATE}
        for run in each(base, seed=seeds, cell=ARCHITECTURES):
            poolings = request.poolings or _BOTH
            if run.cell == "transformer":
                run = replace(run, **transformer)
                poolings = request.poolings or ("last", "mean", "max", "max_attention")
            first = recorded and run.seed == 0
            for pooled in each(run, pooling=poolings):
                settings: tuple[str, ...] = ("standard", "mid")  # which say most
                if first and f"{run.cell} {pooled.pooling}" in in_all_settings:
                    settings = SETTINGS
                elif recorded and pooled.pooling == "max" and not first:
                    settings = ("standard",)  # decides nothing in mid
                yield from each(pooled, setting=request.settings or settings)
                if run.seed == 0 and pooled.pooling in _BOTH:
                    yield probe.PaddingSweep(pooled, texts=swept)
                    yield probe.WordImportance(pooled, texts=looked_at)
        if recorded:
            yield from varied(replace(base, **transformer), *TRIED)
        # the memory at the thesis's width, whatever the profile
        wide: Options = {"hidden_size": Training.hidden_size, "embedding_size": Training.embedding_size}
        for run in each(replace(base, pooling="max_attention", **wide), seed=seeds):
            yield probe.MemoryUse(run)
            for attention in ("plain", "fused"):
                yield probe.MemoryUse(replace(run, cell="transformer"), attention=attention)


# Regularisation and tuning (thesis §1.4.2)

LEARNING_RATES = (1e-3, 2e-3, 5e-3)
SUSTAINED: Options = {"epochs": 50, "drop_connect": 0.3}
"""The longest training that the thesis speaks of, with the middle one of its three rates of DropConnect."""
TIMED_SEEDS = (5, 6, 7)  # Of trainings to be timed, all poolings in turn with nothing else running
GRID: tuple[Options, ...] = (
    {},
    *({"drop_connect": rate} for rate in (0.1, 0.3, 0.5)),
    *({"weight_decay": decay} for decay in (1e-3, 1e-4, 1e-6, 1e-8)),
)
"""The two grids of the thesis's footnotes, and the plain training beside them."""


def _regularised(request: Request, place: Place) -> Iterable[Training]:
    """The grids, learning rates and sustained trainings, DropConnect where there are recurrent weights."""
    remembers = LISTED_CELLS[request.cell or Training.cell].remembers
    paper = request.profile == "paper"
    for base in bases(corpora_of(request, "imdb"), request, place, (1_000,)):
        published = base.corpus in PUBLICATIONS
        grid = _regularised_whole if published else _regularised_briefly
        seeds = range(request.seeds or (SEEDS if paper else FEWER_SEEDS if published else 1))
        for plain in each(base, seed=seeds):
            yield from (run for run in grid(plain, request) if remembers or not run.drop_connect)
        timed = published and not (paper or request.seeds)
        if timed and "standard" in (request.settings or SETTINGS):
            yield from each(base, seed=TIMED_SEEDS, pooling=request.poolings or COMPARED)


def _regularised_whole(plain: Training, request: Request) -> Iterable[Training]:
    """What decides claims: plain texts, and of other settings models without pooling."""
    settings, poolings = request.settings or ("standard", "mid"), request.poolings or COMPARED
    both = [name for name in _BOTH if name in poolings]
    if "standard" in settings:
        for pooled in each(plain, pooling=poolings):
            yield from varied(pooled, *GRID)
        yield from each(plain, pooling=poolings, learning_rate=LEARNING_RATES)
        for pooled in each(plain, pooling=both):
            yield from varied(pooled, SUSTAINED | {"drop_connect": 0.0}, SUSTAINED)
    for mixed in each(plain, setting=settings):
        yield from each(mixed, pooling=request.poolings or _BOTH)
        if mixed.setting == "mid" and "last" in both:
            yield replace(mixed, pooling="last", **SUSTAINED)


def _regularised_briefly(plain: Training, request: Request) -> Iterable[Training]:
    """What two processors do in a minute, on plain texts whatever settings are asked for."""
    for pooled in each(plain, pooling=request.poolings or _BOTH):
        yield from varied(pooled, {}, GRID[2], {"weight_decay": 1e-4}, SUSTAINED | {"epochs": 20})


# Sequence labelling

SMALL_TAGGERS: dict[str, Options] = {"ud_ewt": {"epochs": 8}, "wnut17": {"epochs": 16, "batch_size": 16}}
"""On published corpora: a minute or two a run on a processor."""
LARGE_TAGGERS: Options = {"hidden_size": 256, "layers": 2, "epochs": 20}  # The profile "paper"
GENERATED_TAGGERS: Options = {  # seconds a run
    "embedding_size": 32, "hidden_size": 32, "feature_size": 8, "dropout": 0.1, "epochs": 5,
    "learning_rate": 5e-3,
}  # fmt: skip
LETTERS: Options = {"filters": 50}  # A tagger that reads the letters of each word as well


def _taggings(request: Request, place: Place) -> Iterable[Tagging]:
    """Both directions against one, letters, and another encoding of entities. Beside corpora of labelled
    texts, which have no tags and are asked of other chapters, this one has its own."""
    paper = request.profile == "paper"
    asked = tuple(name for name in request.corpora or () if is_tagged(name))
    if not asked and paper and request.corpora is None:
        asked = tuple(PUBLISHED)
    seeds = range(request.seeds or (FEWER_SEEDS if asked else 2))
    for corpus in asked or (GENERATED,):
        name = corpus.partition(":")[0]
        variants: list[Options] = [{}, {"bidirectional": False}, LETTERS]
        if name == "wnut17":
            variants.append({"encoding": "io"})
        options = GENERATED_TAGGERS
        if name in PUBLISHED:
            options = SMALL_TAGGERS[name] | (LARGE_TAGGERS if paper else {})
            options |= {"vectors": find_vectors(place) or VECTORS[0]}
        elif name != GENERATED:
            find_tagged(corpus, place.data)  # raises for what is no file
            options = {"vectors": find_vectors(place)}
        for seed, variant in product(seeds, variants):
            yield Tagging(corpus, seed=seed, **(options | variant))


PLANS: dict[str, Callable[[Request, Place], Iterable[Run]]] = {
    "gradient_propagation": _gradient_propagation,
    "natural_bias": _natural_bias,
    "training_to_skip": _training_to_skip,
    "word_importance": _word_importance,
    "few_shot": _few_shot,
    "learnability": _learnability,
    "last_state": _last_state,
    "recurrent_networks": _recurrent_networks,
    "sequence_labelling": _taggings,
    "other_architectures": _architectures,
    "regularisation": _regularised,
}
"""The runs of each chapter that needs some, in the order of the book."""
COMPACT_AS_QUICK: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("few_shot", "recurrent_networks", "other_architectures", "regularisation"), ("imdb",)
    ),
    "sequence_labelling": ("ud_ewt", "wnut17"),
}
"""Chapters whose runs on published corpora are compact in the profile "quick" already, and those corpora."""
SMOKE: dict[Any, Options] = {
    Training: {"embedding_size": 8, "hidden_size": 8, "epochs": 1, "vectors": None, "test": None},
    FewShot: {
        "per_class": 2, "validation": 8, "test": 16, "max_tokens": 16, "steps": 2, "looks": 1,
        "unlabelled": 40, "hidden_size": 8, "topics": 4, "pretraining": 4,
    },
    Tagging: {
        "embedding_size": 8, "hidden_size": 8, "feature_size": 4, "profiled": 8, "epochs": 1, "vectors": None,
    },
    probe.GradientProfile: {"texts": 8},
    probe.GradientTrace: {"texts": 8, "sample": 16},
    probe.PaddingSweep: {"texts": 6},
    probe.DirectionUse: {"texts": 10},
    probe.WordImportance: {"texts": 3},
    probe.MemoryUse: {"longest": 64, "halvings": 2},
}  # fmt: skip
"""How tests make a run of the profile "quick" so small that it takes a second."""


def plan(chapter: str, request: Request, place: Place) -> list[Run]:
    """The runs of a chapter, none twice. Raises `InputError` for an unknown one, or a request without any."""
    check(chapter in PLANS, f"chapter {chapter!r} has no runs; choose one of {', '.join(PLANS)}")
    runs = _runs(chapter, request, place)
    if not runs:
        asked = ", ".join(map(str, request.sizes or ()))
        every = _runs(chapter, replace(request, sizes=None), place)
        have = ", ".join({str(run.training.size): None for run in every if run.training})
        none = f"the profile {request.profile!r} has no runs with {asked} training texts"
        raise InputError(f"{none}; {' '.join(request.corpus_names)} has {have or 'none'}")
    return runs


def _runs(chapter: str, request: Request, place: Place) -> list[Run]:
    if request.profile == "compact" and (corpora := COMPACT_AS_QUICK.get(chapter)):
        request = replace(request, profile="quick", corpora=request.corpora or corpora)
    if request.profile != "smoke":
        return list(dict.fromkeys(PLANS[chapter](request, place)))
    quick = replace(request, profile="quick", seeds=request.seeds or 1)
    return list(dict.fromkeys(_smoke(run, request) for run in PLANS[chapter](quick, place)))


def _smoke(run: Run, request: Request) -> Run:
    """A run of the profile "quick" as `SMOKE` says, with fewer texts."""
    changes = dict(SMOKE.get(type(run), {}))
    if isinstance(run, Probe):
        changes["training"] = _smoke(run.training, request)
    elif isinstance(run, Training):
        changes["size"] = run.size if request.sizes else min(run.size, 40)
        if grammar := grammar_of(run.corpus):
            changes |= {"validation": min(20, grammar.validation), "test": min(40, grammar.test)}
    elif isinstance(run, Tagging) and run.corpus == GENERATED:
        changes["corpus"] = f"{GENERATED}:train=40,validation=20,test=20"
    return replace(run, **changes)  # type: ignore[type-var]


def needed(request: Request, place: Place) -> set[Training]:
    """The trainings whose weights the probes or students of some chapter read."""
    runs = [run for chapter in PLANS for run in _runs(chapter, request, place)]
    teachers = {run.needs for run in runs if run.needs}
    return teachers | {run.training for run in runs if isinstance(run, Probe)}


def chapter_named(name: str, names: Collection[str]) -> str:
    """The one of some chapters that is meant by its name, or a part that no other has."""
    name = name.rpartition("/")[2].removesuffix(".md").replace("-", "_")
    matching = [name] if name in names else [chapter for chapter in names if name and name in chapter]
    if len(matching) != 1:
        which = "is ambiguous; choose" if matching else "must be"
        raise InputError(f"chapter {name!r} {which} one of {', '.join(matching or names)}")
    return matching[0]


def thesis_table(run: Run) -> tuple[str, ...]:
    """The tables of the thesis that have a run of the profile "paper"; none for what is not the thesis's."""
    if isinstance(run, FewShot):
        return ("1.9",) if run.system in SYSTEMS and run.corpus in ("yahoo", "imdb") else ()
    if not isinstance(run, Training) or run.corpus not in THESIS_CORPORA:
        return ()
    named = {"corpus", "length", "setting", "size", "pooling", "trick", "seed", "vectors"}
    if run.changed().keys() - named or run.pooling not in THESIS_POOLINGS or run.seed >= SEEDS:
        return ()
    if run.trick:
        brief = run.corpus == "imdb" and run.length == "long" and run.size == 10_000
        return ("2.1",) if brief and run.setting in ("standard", "mid") else ()
    if run.length == "short":
        brief = run.size in (1_000, 10_000) and run.setting in ("standard", "mid")
        return ("1.4", "1.8") if brief else ("1.8",)
    full = PUBLICATIONS[run.corpus].table
    brief = run.size in (1_000, 2_000, 10_000) and run.setting != "left"
    return ("1.3", full) if brief else (full,)
