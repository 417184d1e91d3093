"""Which runs each chapter, and each table of the thesis, needs."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from itertools import product
from typing import Any

from whenpool.base.errors import InputError, check
from whenpool.corpora.published import PUBLICATIONS, THESIS_CORPORA
from whenpool.corpora.settings import SETTINGS
from whenpool.corpora.tagged import GENERATED, PUBLISHED, find_tagged, is_tagged
from whenpool.models.registry import COMPARED, LISTED_CELLS, THESIS_POOLINGS
from whenpool.runs.kinds import probe as probes
from whenpool.runs.kinds.few_shot import SYSTEMS, FewShot
from whenpool.runs.kinds.tagging import Tagging
from whenpool.runs.kinds.training import TRICKS, Training, grammar_of, test_texts
from whenpool.runs.plans import (
    FEWER_SEEDS,
    SEEDS,
    SEEDS_FROM,
    base_run,
    each,
    seeds_of,
    sizes_of,
    standard_runs,
)
from whenpool.runs.plans.few_shot import few_shots
from whenpool.runs.plans.last_state import last_state
from whenpool.runs.plans.networks import architectures, recurrent_networks, regularised
from whenpool.runs.request import Request
from whenpool.runs.run import VECTORS, Place, Run, find_vectors

Options = dict[str, Any]


def plan(chapter: str, request: Request, place: Place) -> list[Run]:
    """The runs of a chapter, none twice. Raises `InputError` for an unknown one, or a request without any."""
    check(chapter in PLANS, f"chapter {chapter!r} has no runs; choose one of {', '.join(PLANS)}")
    runs = list(dict.fromkeys(PLANS[chapter](request, place)))
    if not runs:
        asked = ", ".join(map(str, request.sizes or ()))
        every = PLANS[chapter](replace(request, sizes=None), place)
        have = ", ".join({str(run.training.size): None for run in every if run.training})
        none = f"the profile {request.profile!r} has no runs with {asked} training texts"
        raise InputError(f"{none}; {' '.join(request.corpus_names)} has {have or 'none'}")
    return runs


def _as_quick(
    chapter: Callable[[Request, Place], Iterable[Run]], *corpora: str
) -> Callable[[Request, Place], Iterable[Run]]:
    """A chapter whose runs on published corpora are compact in the profile "quick" already."""

    def runs(request: Request, place: Place) -> Iterable[Run]:
        if request.profile == "compact":
            request = replace(request, profile="quick", corpora=request.corpora or corpora)
        return chapter(request, place)

    return runs


def _training_to_skip(request: Request, place: Place) -> Iterable[Training]:
    """Tables 1.3 to 1.6 and 1.8, or their likeness in small (§1.8)."""
    settings, poolings = request.settings or SETTINGS, request.poolings or COMPARED
    for corpus in request.corpus_names:
        for length, sizes in sizes_of(corpus, request, place).items():
            for size in sizes:
                base = replace(base_run(corpus, length, size, request, place), masked=request.masked)
                for run in each(base, setting=settings, pooling=poolings):
                    seeds = request.seeds or seeds_of(corpus, size, run.setting, request)
                    yield from each(run, seed=range(seeds))
    compact_imdb = request.profile == "compact" and "imdb" in request.corpus_names
    if compact_imdb and 1_000 in (request.sizes or (1_000,)):
        # how much the word vectors matter: others than GloVe's, and random ones
        base = base_run("imdb", "long", 1_000, request, place)
        both = [setting for setting in ("standard", "mid") if setting in settings]
        others, several = (VECTORS[1], None), range(request.seeds or FEWER_SEEDS)
        yield from each(base, vectors=others, setting=both, pooling=poolings, seed=several)


def _synthetic_effects(request: Request, place: Place) -> Iterable[Training]:
    """What the parameters of the embedded corpus do, in any profile but "smoke" the same."""
    smoke, long = request.profile == "smoke", "longest=140,shortest=101"
    small = replace(request, profile="smoke" if smoke else "quick")
    few = ",train=60,validation=20,test=40" if smoke else ""
    lengths, densities = ("longest=30,shortest=20", long), (0.02, 0.05, 0.2)
    options = [f"density={density},{length}" for length in lengths for density in densities]
    others = ("agreement=0.6", "agreement=1.0", "classes=10")
    options += [f"{other},density=0.05,{long}" for other in others]
    for option in options:
        base = base_run(f"synthetic:{option}{few}", "any", 40 if smoke else 500, small, place)
        yield from each(base, pooling=COMPARED)


def _gradient_propagation(request: Request, place: Place) -> Iterable[Run]:
    """Figures 1.2 and 1.3 and Table 1.2 (§1.5)."""
    few: Options = {"texts": 8} if request.profile == "smoke" else {}
    poolings = request.poolings or COMPARED
    starts = [(pooling, "thesis") for pooling in poolings]
    whole = request.profile in ("compact", "paper")
    if "last" in poolings and LISTED_CELLS[request.cell or Training.cell].forgets:
        starts += [("last", "low"), ("last", "chrono")] if whole else [("last", "low")]
    for corpus in request.corpora or request.corpus_names[:1]:
        sizes = (1_000, 10_000, 20_000) if request.profile == "compact" else (1_000, 5_000, 20_000)
        for base in standard_runs(corpus, sizes, request, place):  # as in Table 1.2
            first = replace(base, size=min(500, base.size), epochs=1, test=_some_tests(base))
            for pooling, forget_bias in starts:
                early = replace(first, pooling=pooling, forget_bias=forget_bias)
                yield probes.GradientProfile(early, **few)
                if whole and base.size == 1_000:
                    yield probes.FirstSteps(early)
            if whole and base.size == 1_000 and base.masked and LISTED_CELLS[base.cell].recurrent:
                later = replace(first, pooling="last", masked=False, seed=SEEDS_FROM + base.seed)
                yield probes.GradientProfile(later)
            brief = request.profile != "paper" and base.size > 10_000
            for training in each(base, pooling=("last",) if brief else poolings):
                yield probes.GradientTrace(training, **few, **({"sample": 16} if few else {}))
                yield probes.GradientProfile(training, **few)


def _some_tests(run: Training) -> int | None:
    """At most 1,000 test texts, which say enough of a first epoch; all of a reader's own, however many."""
    if run.test is None and run.corpus not in PUBLICATIONS and not grammar_of(run.corpus):
        return None
    return min(run.test or test_texts(run.corpus, run.length), 1_000)


def _natural_bias(request: Request, place: Place) -> Iterable[Run]:
    """Figures 1.4, 1.6 and 1.7, and what padding has to do with them (§1.6, §1.7)."""
    few = {"texts": 10} if request.profile == "smoke" else {}
    whole = request.profile in ("compact", "paper")
    for corpus in request.corpora or (("imdb", "amazon") if whole else request.corpus_names):
        sizes = (1_000, 5_000, 10_000, 20_000) if corpus == "imdb" else (10_000,)
        for base in standard_runs(corpus, sizes, request, place):
            # Figure 1.7 has the BiLSTM alone; the blog post has 5K reviews with every pooling
            brief = whole and base.size == 20_000
            for run in each(base, pooling=request.poolings or (("last",) if brief else COMPARED)):
                yield probes.PaddingSweep(run, **few)
            if base.masked and LISTED_CELLS[base.cell].recurrent:
                masked, unmasked = each(base, pooling=["last"], masked=(True, False))
                yield probes.PaddingSweep(unmasked, **few)
                if "last" in (request.poolings or COMPARED):
                    yield probes.DirectionUse(masked, **few)
                    yield probes.DirectionUse(unmasked, **few)
                    if whole and base.size == 1_000 and LISTED_CELLS[base.cell].forgets:
                        yield probes.PaddingSweep(replace(masked, forget_bias="chrono"))
                    if whole and base.size in (1_000, 10_000):
                        yield probes.PaddingSweep(replace(unmasked, seed=SEEDS_FROM + base.seed))
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
                yield run
                if compact:
                    yield replace(run, forget_bias="chrono", masked=True)


def _word_importance(request: Request, place: Place) -> Iterable[Run]:
    """Figures 1.9, 1.10 and 1.11 (§1.9)."""
    few = {"texts": 4} if request.profile == "smoke" else {}
    paper, compact = request.profile == "paper", request.profile == "compact"
    for corpus in request.corpus_names:
        figures = [figure for figure in IMPORTANCE_FIGURES if paper and figure[0] == corpus]
        figures = [figure for figure in figures if not request.sizes or figure[2] in request.sizes]
        if not figures and paper and not (request.corpora or request.sizes):
            continue  # nobody asked for it
        for _, length, size, settings in figures or _unpictured(corpus, request, place):
            base = replace(base_run(corpus, length, size, request, place), masked=request.masked)
            words = few
            if length == "short" and (figures or compact):
                words = {"k": 3, "shortest": 50, "longest": 60} if figures else {"k": 3}
            elif figures:
                words = {"k": 5, "shortest": 400, "longest": 500}
            wanted = [setting for setting in settings if setting in (request.settings or SETTINGS)]
            for run in each(base, setting=wanted, pooling=request.poolings or COMPARED):
                fewest = seeds_of(corpus, size, run.setting, request) if compact else 1
                for seeded in each(run, seed=range(request.seeds or fewest)):
                    yield probes.WordImportance(seeded, **words)


def _unpictured(corpus: str, request: Request, place: Place) -> Iterable[tuple[str, str, int, Any]]:
    """Where the thesis has no figures: all settings, the first size, in the compact replication the last."""
    for length, sizes in sizes_of(corpus, request, place).items():
        wanted = sizes[:1]
        if request.profile == "compact":
            wanted = sizes if length == "short" else sizes[:: len(sizes) - 1 or 1]
        for size in wanted:
            yield corpus, length, size, SETTINGS


def _learnability(request: Request, place: Place) -> Iterable[Run]:
    """Table 2.1, and other starts of the model without pooling (§2.2)."""
    few: Options = {"texts": 8} if request.profile == "smoke" else {}
    whole = request.profile in ("compact", "paper")
    default = {"compact": FEWER_SEEDS, "paper": SEEDS}.get(request.profile, 1)
    cell = LISTED_CELLS[request.cell or Training.cell]
    for corpus in request.corpora or (("imdb",) if whole else request.corpus_names):
        tried = TRIED if corpus in PUBLICATIONS and request.profile == "quick" and cell.recurrent else ()
        for base in standard_runs(corpus, (10_000,), replace(request, seeds=1), place):
            settings, seeds = request.settings or ("standard", "mid"), range(request.seeds or default)
            for plain in each(replace(base, masked=True), setting=settings, seed=seeds):
                yield from each(plain, pooling=("max", "max_attention"))
                plain = replace(plain, pooling="last")
                yield probes.GradientProfile(plain, **few, untrained=True)
                for run in each(plain, trick=(None, *TRICKS) if cell.recurrent else (None,)):
                    yield run
                    yield probes.GradientProfile(run, **few)
                for start in OTHER_STARTS:
                    if cell.forgets or (cell.remembers and "forget_bias" not in start):
                        run = replace(plain, **start)
                        yield run
                        if corpus in PUBLICATIONS and run.forget_bias == "chrono":
                            yield probes.GradientProfile(run)
                for options in tried if plain.seed == 0 else ():
                    yield replace(plain, trick="gradient_directed", **options)


OTHER_STARTS: tuple[Options, ...] = (
    {"forget_bias": 2.0},
    {"forget_bias": "chrono"},
    {"orthogonal": True},
)
"""What related work changes about the start of an LSTM (§2.2.2), beside its forget bias of 1."""
TRIED: tuple[Options, ...] = (
    *({"strength": strength} for strength in (0.01, 0.1, 1.0, 10.0)),
    *({"strength": strength, "divergence": "reverse"} for strength in (0.1, 1.0)),
)
"""What the gradient-directed training in use was chosen from, beside itself (§2.2.7)."""
IMPORTANCE_FIGURES = (
    ("imdb", "long", 1_000, SETTINGS),
    ("yahoo", "long", 25_000, ("standard", "left", "mid")),  # Figure 1.9
    ("yahoo", "short", 25_000, ("standard",)),
    *((corpus, "long", 10_000, SETTINGS) for corpus in ("imdb", "yahoo", "amazon")),  # 1.10
    *((corpus, "short", 10_000, ("standard", "left", "mid")) for corpus in ("yahoo", "amazon")),  # 1.11
)
"""Corpus, length of text, training texts and settings of the figures, and the size we run besides."""
SMALL_TAGGERS: dict[str, Options] = {"ud_ewt": {"epochs": 8}, "wnut17": {"epochs": 16, "batch_size": 16}}
"""On published corpora: a minute or two a run on a processor."""
LARGE_TAGGERS: Options = {"hidden_size": 256, "layers": 2, "epochs": 20}  # The profile "paper"
LETTERS: Options = {"filters": 50}  # A tagger that reads the letters of each word as well


def _taggings(request: Request, place: Place) -> Iterable[Tagging]:
    """Both directions against one, other cells, and encodings of entities. Corpora of labelled texts, which
    other chapters are asked for at the same time, have no tags: beside them this chapter has its own."""
    paper, smoke = request.profile == "paper", request.profile == "smoke"
    asked = tuple(name for name in request.corpora or () if is_tagged(name))
    if not asked and paper and request.corpora is None:
        asked = tuple(PUBLISHED)
    seeds = request.seeds or (1 if smoke else 3 if asked else 2)
    both: tuple[Options, ...] = ({}, {"bidirectional": False})
    generated: Options = {  # seconds a run
        "embedding_size": 32, "hidden_size": 32, "feature_size": 8, "dropout": 0.1, "epochs": 5,
        "learning_rate": 5e-3,
    }  # fmt: skip
    tiny: Options = {"embedding_size": 8, "hidden_size": 8, "feature_size": 4, "profiled": 8}
    tiny |= {"epochs": 1, "vectors": None}
    for corpus in asked or (GENERATED, f"{GENERATED}:task=pos"):
        name, _, options = corpus.partition(":")
        variants = (*both, LETTERS)
        if "task=pos" in options:
            variants = both
        elif name == GENERATED:
            elman = ({"cell": "elman"} | direction for direction in both)
            variants = (*both, *elman, {"encoding": "io"})
        elif name == "wnut17":
            variants = (*both, {"encoding": "io"}, LETTERS)
        given = generated
        if name in PUBLISHED:
            given = SMALL_TAGGERS[name] | (LARGE_TAGGERS if paper else {})
            given |= {"vectors": find_vectors(place) or VECTORS[0]}
        elif name != GENERATED:
            find_tagged(corpus, place.data)  # raises for what is no file
            given = {"vectors": find_vectors(place)}
        elif smoke and "train=" not in options:
            corpus += ("," if options else ":") + "train=40,validation=20,test=20"
        for seed, variant in product(range(seeds), variants):
            yield Tagging(corpus, seed=seed, **(given | variant | (tiny if smoke else {})))


PLANS: dict[str, Callable[[Request, Place], Iterable[Run]]] = {
    "corpora": _synthetic_effects,
    "gradient_propagation": _gradient_propagation,
    "natural_bias": _natural_bias,
    "training_to_skip": _training_to_skip,
    "word_importance": _word_importance,
    "few_shot": _as_quick(few_shots, "imdb"),
    "learnability": _learnability,
    "last_state": last_state,
    "recurrent_networks": _as_quick(recurrent_networks, "imdb"),
    "sequence_labelling": _as_quick(_taggings, "ud_ewt", "wnut17"),
    "other_architectures": _as_quick(architectures, "imdb"),
    "regularisation": _as_quick(regularised, "imdb"),
}
"""The runs of each chapter that needs some, in the order of the book."""
ALIASES = {"nwi": "word_importance", "tricks": "learnability", "gradients": "gradient_propagation"}
"""Short names of chapters, beside every part of a name that no other chapter has."""


def chapter_named(name: str, names: Collection[str]) -> str:
    """The one of some chapters that is meant by its name, an alias or a part of its name."""
    name = name.rpartition("/")[2].removesuffix(".md").replace("-", "_")
    name = ALIASES.get(name, name) if name not in names else name
    if name in names:
        return name
    found = [chapter for chapter in names if name and name in chapter]
    if len(found) != 1:
        which = "is ambiguous; choose" if found else "must be"
        raise InputError(f"chapter {name!r} {which} one of {', '.join(found or names)}")
    return found[0]


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


def needed(request: Request, place: Place) -> set[Training]:
    """The trainings whose weights the probes or students of some chapter read."""
    runs = [run for chapter in PLANS.values() for run in chapter(request, place)]
    teachers = {run.needs for run in runs if run.needs}
    return teachers | {run.training for run in runs if isinstance(run, probes.Probe)}
