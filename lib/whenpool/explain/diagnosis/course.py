"""Which runs a diagnosis is made of: a small training of each pooling, and probes on them."""

import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

from whenpool.base.errors import InputError
from whenpool.base.files import write_atomically
from whenpool.base.paths import cache_directory, data_directory
from whenpool.base.version import __version__
from whenpool.explain.checkpoint import save_checkpoint
from whenpool.explain.diagnosis.data import survey
from whenpool.explain.diagnosis.findings import find, make_plan
from whenpool.explain.diagnosis.page import Page
from whenpool.explain.diagnosis.verdict import advice_on, verdict_on
from whenpool.models.pooling import POOLINGS
from whenpool.models.registry import COMPARED
from whenpool.runs.compute import compute
from whenpool.runs.engine import Workforce
from whenpool.runs.kinds.training import Training
from whenpool.runs.run import Place
from whenpool.runs.store import Store

REPORT, MODELS, RUNS = "report.html", "models", "runs"


@dataclass(frozen=True)
class Wish:
    """What to diagnose, and how thoroughly.

    Attributes:
        path: a .csv, .tsv or .jsonl file.
        limit: about so many texts, at most.
        words: so many of each text's first words are read.
        vectors: the name of a file of word vectors in the data folder; None: random ones.
        folder: for the report, the models and the runs; None: beside nothing else, named after the file.
        data: where filler sentences and vectors lie; None: as `whenpool.base.paths` says.
    """

    path: Path
    text_column: str
    label_column: str
    poolings: tuple[str, ...] = COMPARED
    seeds: int = 1
    epochs: int = 6
    limit: int = 2_000
    words: int = 200
    vectors: str | None = None
    folder: Path | None = None
    data: Path | None = None

    def __post_init__(self) -> None:
        for pooling in self.poolings:
            if pooling not in POOLINGS:
                raise InputError(f"pooling {pooling!r} is unknown; choose from {', '.join(POOLINGS)}")
        if len(set(self.poolings)) < len(self.poolings) or not self.poolings:
            raise InputError(f"poolings are some different ones of {', '.join(POOLINGS)}")
        for name in ("seeds", "epochs", "limit", "words"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, not {getattr(self, name)}")

    @property
    def output(self) -> Path:
        return self.folder or Path(f"{self.path.stem}-diagnosis")

    @property
    def command(self) -> str:
        """What makes the same again, with what is not left to its default."""
        parts = ["whenpool", "diagnose", str(self.path)]
        parts += ["--text-column", self.text_column, "--label-column", self.label_column]
        for field in fields(self)[3:]:  # behind the file and its columns
            value = getattr(self, field.name)
            if value != field.default:
                option = "output" if field.name == "folder" else field.name
                parts += [f"--{option}", ",".join(value) if option == "poolings" else str(value)]
        return shlex.join(parts)


def diagnose(wish: Wish, workforce: Workforce, say: Callable[[str], None]) -> Page:
    """Train each pooling on the user's texts, probe it, and write the page and the models.

    Runs are stored the moment they end: the same wish goes on where it was stopped.

    Raises:
        InputError: for texts that cannot be used, or a folder that cannot be written.
    """
    started, folder = time.monotonic(), wish.output
    store = Store(folder / RUNS)
    store.check_writable()
    place = Place(store, wish.data or data_directory(), cache_directory())
    texts = survey(wish.path, wish.text_column, wish.label_column, wish.limit, wish.words, folder)
    plan = make_plan(texts, place, wish.poolings, wish.seeds, wish.epochs, wish.words, wish.vectors)
    say(
        f"{wish.path.name}: {texts.texts:,} texts of {len(texts.classes)} classes, "
        f"{len(plan.runs)} runs into {folder}"
    )
    compute(
        plan.runs,
        place,
        workforce,
        keep_weights=lambda run: isinstance(run, Training),
        label="diagnosis",
        say=say,
    )
    found = find(plan, place)
    verdict = verdict_on(found)
    for pooling, best in found.models.items():
        about = best.about | {"run": f"{pooling}, {wish.path.name}"}
        target = folder / MODELS / pooling
        save_checkpoint(target, best.model, best.vocabulary, best.classes, best.max_words, **about)
    shown = verdict.pooling or found.scores[0].pooling
    page = Page(
        texts,
        plan,
        found,
        verdict,
        advice_on(texts.middle, found.train, "unknown" if texts.much_cut else found.where),
        folder / REPORT,
        f'{shlex.join(["whenpool", "explain", "--model", str(folder / MODELS / shown)])} --text "..."',
        wish.command,
        time.monotonic() - started,
        f"Made by whenpool {__version__} on {datetime.now(UTC):%d %B %Y}.",
    )
    write_atomically(page.report, page.html)
    return page
