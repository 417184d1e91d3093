"""Which runs each chapter, and each table of the thesis, needs.

A *profile* says how large the models and training sets are: "smoke" (tests: seconds), "quick" (two
processors: minutes) or "paper" (the thesis's protocol, §1.4.2).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from whenpool.corpora import find
from whenpool.corpora.published import PUBLICATIONS
from whenpool.corpora.statistics import statistics_of
from whenpool.corpora.synthetic import Grammar
from whenpool.errors import InputError
from whenpool.runs import VECTORS, Place, Training, find_vectors
from whenpool.settings import SETTINGS, check_setting

PROFILES = ("smoke", "quick", "paper")
THESIS_POOLINGS = ("last", "mean", "max", "attention", "max_attention")
SIZES = (1_000, 2_000, 5_000, 10_000, 25_000)
SEEDS = 5


@dataclass(frozen=True)
class Choice:
    """What a reader asks for; None leaves it to the profile.

    Attributes:
        corpora: names for `whenpool.corpora.load`; None: the embedded corpus, or in the profile
            "paper" the thesis's four.
        seeds: how many, counted from 0.
        masked: False lets padding in, as the authors' code does.
    """

    profile: str = "quick"
    corpora: tuple[str, ...] | None = None
    sizes: tuple[int, ...] | None = None
    settings: tuple[str, ...] | None = None
    poolings: tuple[str, ...] | None = None
    seeds: int | None = None
    masked: bool = True

    def __post_init__(self) -> None:
        if self.profile not in PROFILES:
            raise InputError(f"profile {self.profile!r} is unknown; choose one of {', '.join(PROFILES)}")
        for setting in self.settings or ():
            check_setting(setting)
        for pooling in self.poolings or ():
            from whenpool.pooling import POOLINGS  # torch is loaded only where a pooling is named

            if pooling not in POOLINGS:
                raise InputError(f"pooling {pooling!r} is unknown; choose one of {', '.join(POOLINGS)}")
        if self.seeds is not None and self.seeds < 1:
            raise InputError(f"seeds is how many, at least 1, not {self.seeds}")
        if any(size < 1 for size in self.sizes or ()):
            raise InputError(f"sizes are numbers of training texts, not {min(self.sizes or ())}")

    @property
    def corpus_names(self) -> tuple[str, ...]:
        if self.corpora is not None:
            return self.corpora
        return tuple(PUBLICATIONS) if self.profile == "paper" else ("synthetic",)

    @property
    def skips_absent(self) -> bool:
        """Whether corpora that are not here are left out: those that nobody asked for by name."""
        return self.corpora is None and self.profile == "paper"


def corpora_named(texts: str | Sequence[str] | None) -> tuple[str, ...] | None:
    """The names in some texts, which may hold several separated by spaces; the path of a file may
    hold spaces itself."""
    if not texts:
        return None
    names: list[str] = []
    for text in [texts] if isinstance(texts, str) else texts:
        names += [text] if Path(text.split(":")[0]).is_file() else text.split()
    return tuple(_with_folder(name) for name in names)


def _with_folder(name: str) -> str:
    """A name that does not depend on the working directory, which chapters have their own of."""
    file, colon, options = name.partition(":") if not Path(name).is_file() else (name, "", "")
    return f"{Path(file).resolve()}{colon}{options}" if Path(file).is_file() else name


def plan(chapter: str, choice: Choice, place: Place) -> list[Training]:
    """The runs that a chapter draws from, none twice.

    Raises:
        InputError: for an unknown chapter, or a choice that leaves no run.
    """
    if chapter not in PLANS:
        raise InputError(f"chapter {chapter!r} needs no runs; those that do are {', '.join(PLANS)}")
    runs = list(dict.fromkeys(PLANS[chapter](choice, place)))
    if not runs:
        asked = ", ".join(map(str, choice.sizes or ()))
        have = {run.size: None for run in PLANS[chapter](replace(choice, sizes=None), place)}
        raise InputError(
            f"the profile {choice.profile!r} has no runs with {asked} training texts; "
            f"{' '.join(choice.corpus_names)} has {', '.join(map(str, have))}"
        )
    return runs


def _training_to_skip(choice: Choice, place: Place) -> Iterable[Training]:
    """Tables 1.3 to 1.6 and 1.8, or their likeness in small (§1.8)."""
    for corpus in choice.corpus_names:
        for length, sizes in _sizes(corpus, choice, place).items():
            for size, setting, pooling in product(
                sizes, choice.settings or SETTINGS, choice.poolings or THESIS_POOLINGS
            ):
                base = replace(_base(corpus, length, size, choice, place), masked=choice.masked)
                for seed in range(choice.seeds or _seeds(setting, choice)):
                    yield replace(base, setting=setting, pooling=pooling, seed=seed)


def _synthetic_effects(choice: Choice, place: Place) -> Iterable[Training]:
    """What the parameters of the embedded corpus do, in any profile but "smoke" the same."""
    smoke = choice.profile == "smoke"
    small = replace(choice, profile="smoke" if smoke else "quick")
    few = ",train=60,validation=20,test=40" if smoke else ""
    for options in SYNTHETIC_OPTIONS:
        base = _base(f"synthetic:{options}{few}", "any", 40 if smoke else 500, small, place)
        for pooling in THESIS_POOLINGS:
            yield replace(base, pooling=pooling)


SYNTHETIC_OPTIONS = (
    *(
        f"density={density},longest={longest},shortest={shortest}"
        for shortest, longest in ((20, 30), (101, 140))
        for density in (0.02, 0.05, 0.2)
    ),
    *(f"agreement={agreement},density=0.05,longest=140,shortest=101" for agreement in (0.6, 1.0)),
    "classes=10,density=0.05,longest=140,shortest=101",
)

PLANS: dict[str, Callable[[Choice, Place], Iterable[Training]]] = {
    "corpora": _synthetic_effects,
    "training_to_skip": _training_to_skip,
}
"""The runs of each chapter that needs some, in the order of the book."""


def thesis_table(run: Training) -> tuple[str, ...]:
    """The tables of the thesis in which a run of the profile "paper" stands; none for other corpora
    and where padding is let in."""
    if run.corpus not in PUBLICATIONS or not run.masked:
        return ()
    if run.length == "short":
        brief = run.size in (1_000, 10_000) and run.setting in ("standard", "mid")
        return ("1.4", "1.8") if brief else ("1.8",)
    full = "1.5" if run.corpus in ("yahoo", "amazon") else "1.6"
    brief = run.size in (1_000, 2_000, 10_000) and run.setting != "left"
    return ("1.3", full) if brief else (full,)


def _base(corpus: str, length: str, size: int, choice: Choice, place: Place) -> Training:
    """A run of the profile, its setting, pooling and seed still to be filled in."""
    run = Training(corpus, "standard", size, "max_attention", length=length)
    source = find(corpus, place.data) if corpus not in PUBLICATIONS else None
    grammar = Grammar(**dict(source.options)) if source and source.path is None else None
    if choice.profile == "smoke":
        tiny = replace(run, embedding_size=8, hidden_size=8, epochs=1)
        if grammar is None:
            return tiny
        return replace(tiny, validation=min(20, grammar.validation), test=min(40, grammar.test))
    if grammar is not None:
        return replace(
            run,
            embedding_size=50,
            hidden_size=48,
            epochs=6,
            learning_rate=5e-3,
            validation=min(250, grammar.validation),
        )
    vectors = find_vectors(place)
    if choice.profile == "paper":
        return replace(run, vectors=vectors or VECTORS[0])
    test = 2_000 if corpus == "imdb" else None
    return replace(run, vectors=vectors, max_words=140, hidden_size=64, epochs=8, test=test)


def _sizes(corpus: str, choice: Choice, place: Place) -> dict[str, Sequence[int]]:
    """Training sizes by length of text."""
    if corpus not in PUBLICATIONS:
        if choice.sizes:
            return {"any": choice.sizes}
        default = 40 if choice.profile == "smoke" else 500
        return {"any": (min(default, _training_texts(corpus, place)),)}
    if choice.profile != "paper":
        return {"long": choice.sizes or (1_000,)}
    sizes: dict[str, Sequence[int]] = {}
    for length, split in PUBLICATIONS[corpus].sizes.items():
        largest = [min(size, split.train) for size in SIZES]
        sizes[length] = [size for size in largest if not choice.sizes or size in choice.sizes]
    return sizes


def _training_texts(corpus: str, place: Place) -> int:
    source = find(corpus, place.data)
    if source.path is None:
        return Grammar(**dict(source.options)).train
    return statistics_of(source, "any").train_size


def _seeds(setting: str, choice: Choice) -> int:
    if choice.profile == "paper":
        return SEEDS
    return 2 if setting in ("standard", "mid") and choice.profile == "quick" else 1
