"""Which runs each chapter needs: `PLANS`, a function for each.

Most plans take a training of the profile, see `bases`, and vary its fields, see `each`.
"""

import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from paper.corpora.tagged import GENERATED, PUBLISHED, find_tagged, is_tagged
from paper.fewshot.pretrained import DEFAULT_ENCODER, MINILM
from paper.runs.kinds import FewShot, Probe, Tagging, Training, probe
from paper.runs.kinds.few_shot import CONTRAST, SYSTEMS
from paper.runs.kinds.training import TRICKS, grammar_of
from paper.runs.request import Request
from paper.runs.run import Place, Run
from whenpool.base.errors import check, check_known
from whenpool.corpora import find
from whenpool.corpora.published import PUBLICATIONS, THESIS_CORPORA
from whenpool.corpora.settings import SETTINGS
from whenpool.corpora.sources import statistics_of
from whenpool.corpora.tokens import VECTORS, find_vectors
from whenpool.models.registry import COMPARED, LISTED_CELLS, THESIS_POOLINGS

Options = dict[str, Any]  # Values of some fields of a run
_BOTH = ("last", "max_attention")  # Without pooling, and with

SEEDS = 5
SEEDS_FROM = 20  # Seeds of what claims of 2026-11-27 decide: runs with lower ones began before
FEWER_SEEDS = (
    3  # With more texts than a thousand or two: accuracies differ less, and it takes longer
)
_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_NAMES = "compact compact_test compact_sizes other_starts tried paper small_taggers".split()
COMPACT, COMPACT_TEST, COMPACT_SIZES, OTHER_STARTS, TRIED, PAPER, SMALL_TAGGERS = (
    _TABLES[name] for name in _NAMES
)
"""Options by which runs differ; plans.toml explains them, and has those of each plan."""

# what all plans start from: corpora, sizes, seeds and models


def base_run(corpus: str, length: str, size: int, request: Request, place: Place) -> Training:
    """A run of the profile, with its setting, pooling and seed still to be filled in."""
    split = PUBLICATIONS[corpus].sizes.get(length) if corpus in PUBLICATIONS else None
    if split and not request.sizes:  # an added corpus may be smaller than the thesis's
        size = min(size, split.train)
    run = Training(corpus, "standard", size, "max_attention", length=length, masked=request.masked)
    if grammar := grammar_of(corpus):
        run = replace(run, validation=min(250, grammar.validation), **_TABLES["embedded"])
    elif request.profile == "paper":
        run = replace(run, vectors=find_vectors(place.data) or VECTORS[0])
    else:
        run = replace(
            run, vectors=find_vectors(place.data), test=COMPACT_TEST.get(corpus), **COMPACT
        )
    cell = request.cell or run.cell  # some add words to their state, and have as many units
    hidden_size = run.embedding_size if LISTED_CELLS[cell].adds else run.hidden_size
    return replace(run, cell=cell, hidden_size=hidden_size, layers=request.layers or run.layers)


def each(run: Training, *options: Options, **values: Iterable[Any]) -> Iterator[Training]:
    """A training with each combination of some values of its fields, of which the last changes
    first; or with some ``options`` at a time."""
    for chosen in product(*values.values()):
        for option in options or ({},):
            yield replace(run, **dict(zip(values, chosen, strict=True)), **option)


def sizes_of(corpus: str, request: Request, place: Place) -> dict[str, Sequence[int]]:
    """Training sizes by length of text."""
    if corpus not in PUBLICATIONS:
        source, grammar = find(corpus, place.data), grammar_of(corpus)
        texts = grammar.train if grammar else statistics_of(source, "any")["train_size"]
        return {"any": request.sizes or (min(500, texts),)}
    if request.profile == "quick":
        return {"long": request.sizes or (1_000,)}
    sizes: dict[str, Sequence[int]] = {}
    for length, split in PUBLICATIONS[corpus].sizes.items():
        usual = (
            (1_000, 2_000, 5_000)
            if length == "short"
            else COMPACT_SIZES.get(corpus, (1_000, 2_000))
        )
        every = [min(size, split.train) for size in (1_000, 2_000, 5_000, 10_000, 25_000)]
        paper = [size for size in every if size in (request.sizes or every)]
        sizes[length] = paper if request.profile == "paper" else request.sizes or usual
    return sizes


def bases(
    request: Request,
    place: Place,
    sizes: Sequence[int] = (1_000,),
    usual: tuple[str, ...] = ("imdb",),
) -> Iterator[Training]:
    """The run of the profile on each corpus, length of text and size. With ``sizes``, which are
    those of IMDb at both scales, short texts are left out."""
    for corpus in request.corpora_or(*usual):
        for length, those in sizes_of(corpus, request, place).items():
            if sizes and length == "short":
                continue
            if sizes and request.is_whole and corpus in PUBLICATIONS:
                few = request.profile == "compact" and corpus not in COMPACT_SIZES
                those = request.sizes or ((1_000,) if few else sizes)
            for size in those:
                yield base_run(corpus, length, size, request, place)


def seeds_of(request: Request, compact: int = FEWER_SEEDS, paper: int = SEEDS) -> range:
    """The seeds that a reader asks for, else those of the profile; "quick" has one."""
    return range(request.seeds or {"compact": compact, "paper": paper}.get(request.profile, 1))


def seeded(run: Training, request: Request, paper: int = 1) -> Iterator[Training]:
    """A training with its seeds, by its size in the compact replication."""
    few_texts = run.size <= (2_000 if run.corpus == "imdb" else 1_000)
    return each(run, seed=seeds_of(request, SEEDS if few_texts else FEWER_SEEDS, paper))


def _training_to_skip(request: Request, place: Place) -> Iterable[Training]:
    """Tables 1.3 to 1.6 and 1.8 (§1.8), and how much the word vectors matter."""
    poolings = request.poolings or COMPARED
    for base in bases(request, place, (), THESIS_CORPORA):
        for run in each(base, setting=SETTINGS, pooling=poolings):
            yield from seeded(run, request, paper=SEEDS)
            if request.profile == "compact" and (run.corpus, run.size) == ("imdb", 1_000):
                some = run.setting in ("standard", "mid")
                yield from each(
                    run, vectors=(VECTORS[1], None) if some else (), seed=seeds_of(request)
                )


def _gradient_propagation(request: Request, place: Place) -> Iterable[Run]:
    poolings, paper = request.poolings or COMPARED, request.profile == "paper"
    starts = [*((pooling, "thesis") for pooling in poolings), ("last", "low"), ("last", "chrono")]
    sizes = (1_000, 5_000 if paper else 10_000, 20_000)  # as in Table 1.2
    for plain in bases(request, place, sizes):
        for base in seeded(plain, request):
            # 1,000 test texts say enough of a first epoch
            test = 1_000 if base.corpus in PUBLICATIONS else None
            first = replace(base, size=min(500, base.size), epochs=1, test=test)
            for pooling, forget_bias in starts:
                early = replace(first, pooling=pooling, forget_bias=forget_bias)
                yield probe.GradientProfile(early)
                if base.size == 1_000:
                    yield probe.FirstSteps(early)
            if base.size == 1_000:
                later = replace(first, pooling="last", masked=False, seed=SEEDS_FROM + base.seed)
                yield probe.GradientProfile(later)
            brief = not paper and base.size > 10_000
            for training in each(base, pooling=("last",) if brief else poolings):
                yield probe.GradientTrace(training)
                yield probe.GradientProfile(training)


def _natural_bias(request: Request, place: Place) -> Iterable[Run]:
    """Figures 1.4, 1.6 and 1.7, and what padding and the forget gate (of the thesis, of the public
    code, and chrono) have to do with them (§1.6, §1.7)."""
    for corpus in request.corpora_or("imdb", "amazon"):
        sizes = (1_000, 5_000, 10_000, 20_000) if corpus == "imdb" else (10_000,)
        for plain in bases(replace(request, corpora=(corpus,)), place, sizes):
            for base in seeded(plain, request):
                # Figure 1.7 has the BiLSTM alone; the blog post has 5K reviews with every pooling
                usual = ("last",) if base.size == 20_000 else COMPARED
                yield from map(probe.PaddingSweep, each(base, pooling=request.poolings or usual))
                if not LISTED_CELLS[base.cell].recurrent:
                    continue
                masked, unmasked = each(base, pooling=["last"], masked=(True, False))
                yield probe.PaddingSweep(unmasked)
                yield from map(probe.DirectionUse, (masked, unmasked))
                if base.size == 1_000:
                    yield probe.PaddingSweep(replace(masked, forget_bias="chrono"))
                if base.size in (1_000, 10_000):
                    yield probe.PaddingSweep(replace(unmasked, seed=SEEDS_FROM + base.seed))
        if corpus == "imdb" and request.is_whole and 1_000 in (request.sizes or (1_000,)):
            base = base_run("imdb", "long", 1_000, request, place)
            base = replace(base, masked=False, pooling="last")
            compact, both = request.profile == "compact", ("standard", "mid")
            seeds, poolings = seeds_of(request, SEEDS), COMPARED if compact else _BOTH
            yield from each(base, seed=seeds, setting=SETTINGS)
            yield from each(base, seed=seeds, setting=both, forget_bias=[2.0], masked=(True, False))
            for run in each(base, seed=seeds, setting=both, pooling=poolings):
                yield run
                if compact or run.pooling == "last":
                    yield replace(run, forget_bias="chrono", masked=True)


# Word importance: figures 1.9, 1.10 and 1.11 (§1.9)


def _word_importance(request: Request, place: Place) -> Iterable[Run]:
    paper = request.profile == "paper"
    for corpus in request.corpora_or(*(("imdb", "yahoo", "amazon") if paper else THESIS_CORPORA)):
        figures = [
            figure for figure in _TABLES["importance_figures"] if paper and figure[0] == corpus
        ]
        looks = [figure for figure in figures if figure[2] in (request.sizes or (figure[2],))]
        # where the thesis has no figure: the first size and the last
        others = {} if looks else sizes_of(corpus, request, place)
        for length, sizes in others.items():
            sizes = sizes if length == "short" else (*sizes[:1], *sizes[-1:])
            looks += [(corpus, length, size, SETTINGS) for size in sizes]
        for _, length, size, settings in looks:
            words: Options = {"k": 3} if length == "short" else {}
            if not others:
                shortest, longest = (50, 60) if length == "short" else (400, 500)
                words |= {"shortest": shortest, "longest": longest}
            base = base_run(corpus, length, size, request, place)
            for run in each(base, setting=settings, pooling=request.poolings or COMPARED):
                yield from (probe.WordImportance(one, **words) for one in seeded(run, request))
                small = request.profile == "compact" and corpus == "imdb" and size == 1_000
                if small and run.setting in ("standard", "mid"):
                    yield from map(probe.Faithfulness, seeded(run, request))


# Few labels: Table 1.9, or its likeness in small, and accuracy over the number of labels (§1.10)

LABELS = (1, 3, 10, 30, 100)  # Labelled texts of each class; the thesis has 10


def _few_shot(request: Request, place: Place) -> Iterable[FewShot]:
    for name in request.systems or ():
        check_known("system", name, (*SYSTEMS, *CONTRAST))
    paper = request.profile == "paper"
    for corpus in request.corpora_or("imdb", *(["yahoo"] if paper else [])):
        # what depends on the corpus and the reader; a system takes what it has use for
        asked: Options = {"encoder": request.encoder or (DEFAULT_ENCODER if paper else MINILM)}
        asked["paraphrases"] = request.paraphrases
        labels = (FewShot.per_class,) if paper else LABELS
        if corpus in PUBLICATIONS:
            asked["vectors"] = find_vectors(place.data) or VECTORS[0]
            if paper:  # as in Chen et al. (2020): of each class
                asked["unlabelled"] = 5_000 * PUBLICATIONS[corpus].classes
        else:
            asked |= _TABLES["brief"]
            mine = statistics_of(find(corpus, place.data), "any")
            # half of the texts of a small file stay unlabelled
            labels = (max(1, min(FewShot.per_class, mine["train_size"] // mine["classes"] // 2)),)
        if request.unlabelled:
            asked["unlabelled"] = request.unlabelled
        options, systems = (
            PAPER if paper else _TABLES["small"],
            request.systems or (*SYSTEMS, *CONTRAST),
        )
        for seed, per_class, system in product(
            seeds_of(request), request.labels or labels, systems
        ):
            yield FewShot(corpus, system, per_class, seed, **(options[system] | asked))


# Learnability: Table 2.1, and other starts of the model without pooling (§2.2)


def _learnability(request: Request, place: Place) -> Iterable[Run]:
    settings = request.settings or ("standard", "mid")
    for base in bases(replace(request, masked=True), place, (10_000,)):
        for plain in each(base, setting=settings, seed=seeds_of(request)):
            yield from each(plain, pooling=("max", "max_attention"))
            plain = replace(plain, pooling="last")
            yield probe.GradientProfile(plain, untrained=True)
            for run in each(plain, trick=(None, *TRICKS)):
                yield from (run, probe.GradientProfile(run))
            yield from each(plain, *OTHER_STARTS)
            yield probe.GradientProfile(replace(plain, forget_bias="chrono"))
            if request.profile == "quick" and base.corpus in PUBLICATIONS:
                yield from each(
                    replace(plain, trick="gradient_directed"), *_TABLES["tried_strengths"]
                )


# What the last state holds: starts of a BiLSTM without pooling, and reading and learning exchanged

_STARTS = _TABLES["starts"]
START_OPTIONS: list[Options] = _STARTS["usual"]
"""What each start changes about a BiLSTM without pooling, whose forget bias sums to 1."""
_GATED = [start for start in START_OPTIONS if "input_bias" in start]
GATES = tuple(start["forget_bias"] for start in _GATED)
_CHRONO: Options = {"forget_bias": "chrono"}
[_BEST_GATED] = [
    start for start in _GATED if start["forget_bias"] == 6.5
]  # by validation, with 1,000
_POOLED: Options = {"pooling": "max_attention"}
SHARES = (0.0, 0.33, 0.8, 0.9, 0.95)  # Filler's part of a text, beside the usual
DRAWS = 5
LATER_SEEDS = range(SEEDS_FROM + 5, SEEDS_FROM + 8)  # They decide claims of 2026-11-29
UNUSED_SEEDS = range(
    SEEDS_FROM + 10, SEEDS_FROM + 15
)  # Of claims registered anew, and of later ones
OTHER_CELLS = ("gru", "elman", "mingru")


def _last_state(request: Request, place: Place) -> Iterable[Run]:
    """By what decides first: states of untrained models, trained ones of each start, then the
    rest."""
    for base in bases(replace(request, masked=True), place):
        plain = replace(base, pooling="last")
        if request.is_whole and base.corpus == "imdb":
            yield from _last_state_whole(plain, request)
            continue
        for middle in each(plain, setting=["mid"], seed=seeds_of(request)):
            for run in each(middle, *_STARTS["brief"]):
                yield from (probe.UntrainedStates(run), run)
    usual = request.profile == "compact" and not request.corpora and not request.cell
    if usual and 1_000 in (request.sizes or (1_000,)):
        other = replace(request, corpora=("yelp", "amazon"), sizes=(1_000,), masked=True)
        seeds = [SEEDS_FROM + seed for seed in seeds_of(request, SEEDS)]
        for base in bases(other, place):
            yield from each(
                base, *_STARTS["elsewhere"], _POOLED, setting=["mid"], epochs=[20], seed=seeds
            )


def _last_state_whole(plain: Training, request: Request) -> Iterator[Run]:
    """All that the claims of the chapter ask for, on IMDb, at either scale."""
    compact, sizes = request.profile == "compact", request.sizes or (1_000, 10_000)
    seeds = [SEEDS_FROM + seed for seed in seeds_of(request, SEEDS, paper=3)]
    middle, others = (
        replace(plain, setting="mid"),
        OTHER_CELLS if compact and not request.cell else (),
    )
    watch: Options = {"texts": 200, "until": 3_000}  # gradients of held-out texts
    watch |= {"shortest": 350, "longest": 412} if compact else {"shortest": 700, "longest": 900}
    yield from _untrained_states(plain, request, others)
    if 1_000 in sizes:
        for run in each(plain, seed=seeds):
            yield from each(run, *_GATED, _POOLED)
        yield from _starts_in_filler(each(middle, seed=seeds), watch)
        yield from each(middle, _CHRONO, _BEST_GATED, seed=() if request.seeds else LATER_SEEDS)
        if (
            not compact and not request.seeds
        ):  # two claims are younger than the runs of the first seeds
            for run in each(middle, seed=range(SEEDS_FROM + 3, SEEDS_FROM + 6), forget_bias=[5.0]):
                yield from (probe.GradientTrace(run, **watch), run)
        for run in each(middle, epochs=[20], seed=seeds):  # as many as the thesis's at either scale
            yield from each(run, *_STARTS["through"], *_STARTS["only_reading"])
            themselves = ("last", "max", "max_attention", "mean") if compact else ("max",)
            yield from each(run, pooling=themselves)
            yield from each(run, *_STARTS["alike"]) if compact else ()
            yield from each(run, *_STARTS["elsewhere"], cell=(run.cell, *others) if compact else ())
        yield from _exchanges_controlled(replace(plain, epochs=20), seeds, compact)
        for run in each(middle, draw=range(1, DRAWS + 1)):
            yield from each(run, {}, _CHRONO, _POOLED, _BEST_GATED)
        for run in each(middle, seed=seeds, fresh=[True]):
            yield from each(run, *_STARTS["fresh"])
        for run in each(middle, seed=seeds if compact else (), share=SHARES):
            yield from each(run, *_GATED)
        for run in each(middle, *_STARTS["seen_learning"], seed=seeds[:1] if compact else ()):
            yield probe.Valleys(run, **watch)
    if 10_000 in sizes:
        gated = _GATED if compact else [_BEST_GATED]
        for run in each(middle, size=[10_000], seed=seeds[:3]):
            yield from each(run, *gated, _POOLED, _CHRONO)
    if 1_000 in sizes and not request.seeds:
        yield from () if compact else _registered_anew(plain, watch)
        for run in each(
            middle, *START_OPTIONS, seed=UNUSED_SEEDS[: SEEDS if compact else FEWER_SEEDS]
        ):
            yield from (probe.UntrainedStates(_many(run)), probe.GradientTrace(run, **watch), run)


def _registered_anew(plain: Training, watch: Options) -> Iterator[Run]:
    """What was undecided at the thesis's scale, once more with seeds that nothing has used; and
    whether the poolings are level."""
    for run in each(plain, seed=UNUSED_SEEDS):
        middle = replace(run, setting="mid")
        yield from each(middle, {"held": "encoder"}, {"through": "last"}, pooling=["max_attention"])
        yield replace(middle, pooling="mean", held="encoder")
        yield from each(run, _BEST_GATED, _POOLED)
        yield probe.GradientTrace(replace(middle, **_CHRONO), **watch)
        yield from each(run, setting=("standard", "mid"), pooling=THESIS_POOLINGS[1:])


def _exchanges_controlled(plain: Training, seeds: Sequence[int], compact: bool) -> Iterator[Run]:
    """What else an exchange may do than to bring gradient: it is tried on plain reviews; a model
    gets its own gradient, but as much of it in the middle; the states are read while they learn;
    and steps are of other sizes."""
    yield from each(plain, *_STARTS["exchanged_on_plain"], seed=seeds)
    middle = replace(plain, setting="mid")
    for run in each(middle, seed=seeds):
        yield from each(run, *_STARTS["backward"])
        yield probe.StatesCourse(replace(run, through="max"), until=run.epochs * run.size)
    rates, clips = _STARTS["learning_rates"], (*_STARTS["clips"], None)
    yield from each(
        middle, learning_rate=rates, clip=clips, seed=LATER_SEEDS[: len(seeds)] if compact else ()
    )


def _untrained_states(plain: Training, request: Request, others: Sequence[str]) -> Iterator[Run]:
    """What the untrained states of each start hold, and those of other cells."""
    plain = _many(plain)
    seeds = [SEEDS_FROM + seed for seed in seeds_of(request, SEEDS)]
    for run in each(plain, setting=SETTINGS, seed=seeds):
        if run.setting == "mid" or run.seed == SEEDS_FROM:  # elsewhere they decide nothing
            yield from map(probe.UntrainedStates, each(run, *START_OPTIONS))
    later = () if request.seeds else LATER_SEEDS
    for run in each(plain, size=[1_000], setting=["mid"], seed=[*seeds, *later]):
        yield from map(probe.UntrainedStates, each(run, {}, _CHRONO, _BEST_GATED))
    of_cells = each(plain, {}, _CHRONO, setting=["mid"], seed=seeds, cell=others)
    yield from map(probe.UntrainedStates, of_cells)


def _many(run: Training) -> Training:
    """A training on as many texts as untrained states are read from."""
    return replace(run, size=4_000, validation=2_000, test=2_000 if run.max_words else 5_000)


def _starts_in_filler(runs: Iterable[Training], watch: Options) -> Iterator[Run]:
    """Each start, trained and watched; MaxPool and MaxAtt that start with chrono; and MaxAtt as
    usual."""
    for run in runs:
        for start in (*START_OPTIONS, *_STARTS["beside"]):
            until = None if start in START_OPTIONS[:2] else watch["until"]  # None: to the end
            watched = replace(run, **start)
            yield from (probe.GradientTrace(watched, **watch | {"until": until}), watched)
        yield from each(run, pooling=("max", "max_attention"), forget_bias=["chrono"])
        yield replace(run, **_POOLED)


def _recurrent_networks(request: Request, place: Place) -> Iterable[Run]:
    """Some cells without pooling, and a deep LSTM, whatever cell the reader asks for (§1.3.1)."""
    request = replace(request, cell=None, layers=None)
    for base in bases(request, place):
        plain, settings = replace(base, pooling="last"), request.settings or ("standard",)
        for run in each(plain, setting=settings, seed=seeds_of(request, paper=FEWER_SEEDS)):
            yield from each(run, cell=("elman", "prototype", "lstm", "gru"))
            yield replace(run, layers=2)


# Other architectures (thesis §1.3.3, §1.11.1)

ARCHITECTURES = ("lstm", "gru", "elman", "mingru", "transformer")  # The thesis's first
TRANSFORMER_RATE = 2e-3  # Chosen by validation accuracy, see `TRIED`: the thesis's own


def _other_architectures(request: Request, place: Place) -> Iterable[Run]:
    """Training to skip, natural bias and word importance of other cells and of the Transformer,
    each without pooling and with, whatever cell the reader asks for; and the memory that a step
    takes."""
    request = replace(request, cell=None, masked=True)
    compact, seeds = request.profile == "compact", seeds_of(request, paper=1)
    # these are run in all four settings, once
    in_all_settings = ("lstm last", "lstm max_attention", "transformer max_attention")
    # texts of a sweep, and of word importance
    swept, looked_at = (1_000, 200) if request.profile == "paper" else (100, 60)
    for base in bases(request, place):
        for run in each(base, seed=seeds, cell=ARCHITECTURES):
            poolings: tuple[str, ...] = _BOTH
            if run.cell == "transformer":
                run = replace(run, learning_rate=TRANSFORMER_RATE)
                poolings = ("last", "mean", "max", "max_attention")
            for pooled in each(run, pooling=request.poolings or poolings):
                settings: tuple[str, ...] = ("standard", "mid")  # which say most
                if compact and run.seed == 0 and f"{run.cell} {pooled.pooling}" in in_all_settings:
                    settings = SETTINGS
                elif compact and run.seed and pooled.pooling == "max":
                    settings = ("standard",)  # decides nothing in mid
                yield from each(pooled, setting=request.settings or settings)
                if run.seed == 0 and pooled.pooling in _BOTH:
                    yield probe.PaddingSweep(pooled, texts=swept)
                    yield probe.WordImportance(pooled, texts=looked_at)
        if compact:
            yield from each(
                replace(base, cell="transformer", learning_rate=TRANSFORMER_RATE), *TRIED
            )
        # the memory at the thesis's width, whatever the profile
        wide: Options = {
            "hidden_size": Training.hidden_size,
            "embedding_size": Training.embedding_size,
        }
        for run in each(replace(base, **wide), seed=seeds):
            yield probe.MemoryUse(run)
            for attention in ("plain", "fused"):
                yield probe.MemoryUse(replace(run, cell="transformer"), attention=attention)


# Regularisation and tuning (thesis §1.4.2)

TIMED_SEEDS = (5, 6, 7)  # Of trainings to be timed, all poolings in turn with nothing else running


def _regularisation(request: Request, place: Place) -> Iterable[Training]:
    """What decides claims: plain texts, and in the middle of filler models without pooling and
    with."""
    poolings, grid, sustained = request.poolings or COMPARED, _TABLES["grid"], _TABLES["sustained"]
    for base in bases(request, place):
        for plain in each(base, seed=seeds_of(request)):
            if not request.is_whole:  # what two processors do in minutes
                for run in each(plain, pooling=request.poolings or _BOTH):
                    yield from each(run, *_TABLES["brief_grid"])
                continue
            for run in each(plain, pooling=poolings):
                yield from each(run, *grid)
            for run in each(plain, pooling=_BOTH):
                yield from each(run, sustained | {"drop_connect": 0.0}, sustained)
            middle = replace(plain, setting="mid")
            yield from each(middle, pooling=_BOTH)
            yield replace(middle, pooling="last", **sustained)
        if request.profile == "compact" and not request.seeds:
            yield from each(base, seed=TIMED_SEEDS, pooling=poolings)


# Sequence labelling


def _sequence_labelling(request: Request, place: Place) -> Iterable[Tagging]:
    """Both directions against one, letters, and another encoding of entities. Beside corpora of
    labelled texts, which have no tags and are asked of other chapters, this one has its own."""
    usual = tuple(PUBLISHED) if request.is_whole and request.corpora is None else (GENERATED,)
    listed = LISTED_CELLS[request.cell or Tagging.cell]
    if listed.adds or not listed.recurrent:  # no tagger has such a cell
        return
    for corpus in tuple(filter(is_tagged, request.corpora or ())) or usual:
        name = corpus.partition(":")[0]
        variants: list[Options] = [{}, {"bidirectional": False}, {"filters": 50}]
        if name == "wnut17":
            variants.append({"encoding": "io"})
        options = _TABLES["brief_taggers"]
        if name in PUBLISHED:
            options = SMALL_TAGGERS[name] | {"vectors": find_vectors(place.data) or VECTORS[0]}
            if request.profile == "paper":
                options |= {"hidden_size": 256, "layers": 2, "epochs": 20}
        elif name != GENERATED:
            find_tagged(corpus, place.data)  # raises for what is no file
            options = {"vectors": find_vectors(place.data)}
        asked = {field: value for field in ("cell", "layers") if (value := getattr(request, field))}
        seeds = 2 if name == GENERATED else FEWER_SEEDS
        for seed, variant in product(seeds_of(request, seeds, seeds), variants):
            yield Tagging(corpus, seed=seed, **(options | asked | variant))


PLANS: dict[str, Callable[[Request, Place], Iterable[Run]]] = {
    function.__name__.removeprefix("_"): function
    for function in (
        _gradient_propagation,
        _natural_bias,
        _training_to_skip,
        _word_importance,
        _few_shot,
        _learnability,
        _last_state,
        _recurrent_networks,
        _sequence_labelling,
        _other_architectures,
        _regularisation,
    )
}
"""The runs of each chapter that needs some, in the order of the book."""


def plan(chapter: str, request: Request, place: Place) -> list[Run]:
    """The runs of a chapter, none twice: those with the settings and poolings that are asked for,
    and with models that can be made. There may be none: the book then shows what is recorded."""
    smoke = request.profile == "smoke"
    runs = PLANS[chapter](replace(request, profile="quick") if smoke else request, place)

    def is_asked_for(training: Training) -> bool:
        names = (request.settings, training.setting), (request.poolings, training.pooling)
        return all(name in (asked or [name]) for asked, name in names) and not training.fault

    runs = (run for run in dict.fromkeys(runs) if not run.training or is_asked_for(run.training))
    return list(dict.fromkeys(smoke_sized(run, request) for run in runs) if smoke else runs)


def smoke_sized(run: Any, request: Request) -> Any:
    """A run of the profile "quick" so small that it takes a second."""
    smoke = _TABLES["smoke"] | {"vectors": None}
    changes = {name: value for name, value in smoke.items() if getattr(run, name, None) is not None}
    if isinstance(run, Probe):
        changes["training"] = smoke_sized(run.training, request)
    elif isinstance(run, Training):
        changes["size"] = run.size if request.sizes else min(run.size, 40)
        changes["test"] = min(40, grammar.test) if (grammar := grammar_of(run.corpus)) else None
    elif isinstance(run, Tagging) and run.corpus == GENERATED:
        changes["corpus"] = f"{GENERATED}:train=40,validation=20,test=20"
    return replace(run, **changes)


def chapter_named(name: str, names: Collection[str]) -> str:
    """The one of some chapters that is meant by its name, or a part that no other has."""
    name = Path(name).stem.replace("-", "_")
    matching = (
        [name] if name in names else [chapter for chapter in names if name and name in chapter]
    )
    check(len(matching) < 2, f"chapter {name!r} is ambiguous; choose one of {', '.join(matching)}")
    check_known("chapter", matching[0] if matching else name, names)
    return matching[0]
