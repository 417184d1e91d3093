"""Which pooling for one's own texts: a small training of each, what probes find, and a page on it."""

import math
import os
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from pathlib import Path

import torch

from whenpool.base.errors import InputError
from whenpool.base.files import write_atomically
from whenpool.base.paths import cache_directory, data_directory
from whenpool.base.version import __version__
from whenpool.corpora.own import SUFFIXES
from whenpool.explain.checkpoint import save_checkpoint
from whenpool.explain.diagnosis.data import survey
from whenpool.explain.diagnosis.findings import HIDDEN, Plan, find, make_plan
from whenpool.explain.diagnosis.page import Page
from whenpool.explain.diagnosis.verdict import advice_on, verdict_on
from whenpool.models.pooling import POOLINGS
from whenpool.models.registry import COMPARED
from whenpool.models.text_classifier import TextClassifier
from whenpool.probes import step_megabytes
from whenpool.runs.compute import compute, standing
from whenpool.runs.engine import Workforce
from whenpool.runs.kinds.training import Training, prepare
from whenpool.runs.run import Place, find_vectors
from whenpool.runs.store import Store

__all__ = ["Wish", "diagnose"]
REPORT, MODELS, RUNS = "report.html", "models", "runs"


@dataclass(frozen=True)
class Wish:
    """What to diagnose, and how thoroughly."""

    path: Path  # a .csv, .tsv or .jsonl file
    text_column: str
    label_column: str
    poolings: tuple[str, ...] = COMPARED
    seeds: int = 1
    epochs: int = 6
    limit: int = 2_000  # about so many texts, at most
    words: int | None = None  # so many first words of a text are read; None: as many as memory admits
    vectors: str | None = None  # a name in the data folder, or "random"; None: the first of `VECTORS`
    characters: bool = False  # whether each character is read as a word
    drop_classes_below: int = 0  # classes of fewer different texts are left out
    folder: Path | None = None  # for the report, the models and the runs; None: named after the file
    data: Path | None = None  # of filler sentences and vectors; None: as `whenpool.base.paths` says

    def __post_init__(self) -> None:
        for pooling in self.poolings:
            if pooling not in POOLINGS:
                raise InputError(f"pooling {pooling!r} is unknown; choose from {', '.join(POOLINGS)}")
        if len(set(self.poolings)) < len(self.poolings) or not self.poolings:
            raise InputError(f"poolings are some different ones of {', '.join(POOLINGS)}")
        for name in ("seeds", "epochs", "limit", "words"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1, not {value}")

    @property
    def output(self) -> Path:
        """The file's stem and "-diagnosis"; with its suffix where another input shares the stem."""
        others = (self.path.with_suffix(suffix) for suffix in SUFFIXES)
        shared = any(other != self.path and other.is_file() for other in others)
        return self.folder or Path(f"{self.path.name if shared else self.path.stem}-diagnosis")

    @property
    def command(self) -> str:
        """What makes the same again, with what is not left to its default."""
        parts = ["whenpool", "diagnose", str(self.path)]
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            if value != field.default:
                parts.append(f"--{'output' if field.name == 'folder' else field.name.replace('_', '-')}")
            if value != field.default and value is not True:
                parts.append(",".join(value) if isinstance(value, tuple) else str(value))
        return shlex.join(parts)


def diagnose(wish: Wish, workforce: Workforce, say: Callable[[str], None]) -> Page:
    """Train each pooling on the user's texts, probe it, and write the page and the models. Runs are
    stored the moment they end: the same wish goes on where it was stopped. Raises `InputError` for texts
    that cannot be used, or a folder that cannot be written."""
    started, folder = time.monotonic(), wish.output
    store = Store(folder / RUNS)
    store.check_writable()
    place = Place(store, wish.data or data_directory(), cache_directory())
    workers = workforce.workers or os.cpu_count() or 1
    words = wish.words or _words_that_fit(workers)
    columns = (wish.text_column, wish.label_column)
    more = (wish.characters, wish.drop_classes_below)
    texts = survey(wish.path, *columns, wish.limit, words, folder, *more)
    vectors = None if wish.vectors == "random" else wish.vectors or find_vectors(place)
    plan = make_plan(texts, place, wish.poolings, wish.seeds, wish.epochs, vectors)
    say(
        f"{wish.path.name}: {texts.texts:,} texts of {len(texts.classes)} classes, "
        f"{len(plan.runs)} runs into {folder}"
    )
    for note in texts.notes:
        say(note)
    say(f"Word vectors: {vectors or 'random'}. Up to {texts.words:,} words of a text are read.")
    if workforce.device == "cpu" and (seconds := _seconds(plan, place, workers)):
        say(
            f"It takes about {max(1, round(seconds / 60))} min on {workers} processors; --words, "
            "--limit, --epochs and --poolings make it shorter."
        )
    compute(
        plan.runs,
        place,
        workforce,
        keep_weights=lambda run: isinstance(run, Training),
        label="diagnosis",
        say=say,
    )
    found = find(plan, place, texts.tokenizer)
    verdict = verdict_on(found)
    for pooling, best in found.models.items():
        about = {"run": f"{pooling}, {wish.path.name}", **best.about}
        save_checkpoint(
            folder / MODELS / pooling, best.model, best.vocabulary, best.classes, best.max_words,
            best.tokenizer, **about,
        )  # fmt: skip
    shown = verdict.pooling or found.scores[0].pooling
    page = Page(
        texts,
        plan,
        found,
        verdict,
        advice_on(texts.middle, found.train, "unknown" if texts.much_cut else found.where),
        folder / REPORT,
        f'{shlex.join(["whenpool", "explain", "--model", str(folder / MODELS / shown)])} --text "..."',
        replace(wish, words=wish.words or (texts.words if texts.cut else None)).command,
        time.monotonic() - started,
        f"Made by whenpool {__version__} on {datetime.now(UTC):%d %B %Y}.",
    )
    write_atomically(page.report, page.html)
    return page


def _small_step() -> tuple[TextClassifier, tuple[torch.Tensor, ...]]:
    """A model as those that are trained, and a batch of texts of 64 words."""
    model, size = TextClassifier(10, 2, embedding_size=100, hidden_size=HIDDEN), Training.batch_size
    return model, (torch.ones(size, 64).long(), torch.full((size,), 64), torch.zeros(size).long())


def _words_that_fit(workers: int) -> int:
    """The longest texts that may be trained on, a power of two, so that all trainings at once take a
    quarter of this machine's memory; by its size, not by what is free, so that it stays the same."""
    model, batch = _small_step()
    each = step_megabytes(model, *batch) / 64
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e6
    except (AttributeError, ValueError, OSError):  # a system that does not say
        memory = 8_000.0
    return max(64, 2 ** int(math.log2(memory / 4 / workers / each)))


SHARE_OF_TRAINING = 0.4
"""Of the time of a diagnosis, measured: the steps of training; the rest is evaluation and probes."""


def _seconds(plan: Plan, place: Place, workers: int) -> float:
    """About how long the runs take that are not done yet, by a few steps of training on this machine."""
    done = standing(plan.runs, place).done
    missing = [run for run in plan.runs if isinstance(run, Training) and run not in done]
    if not missing:
        return 0.0
    model, (ids, lengths, labels) = _small_step()
    took = []
    for _ in range(3):
        started = time.perf_counter()
        torch.nn.functional.cross_entropy(model(ids, lengths), labels).backward()
        took.append(time.perf_counter() - started)
    words = int(prepare(plan.training, place).dataset.train.ids.lengths.sum())
    per_word = min(took) / ids.numel()
    passes = plan.training.epochs * len(missing)
    return words * passes * per_word / SHARE_OF_TRAINING / min(workers, len(missing))
