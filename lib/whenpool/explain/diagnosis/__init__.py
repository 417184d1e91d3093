"""Which pooling for one's own texts: a small training of each, what probes find, and a page on it."""

import math
import shlex
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import torch

from whenpool.base.files import write_atomically
from whenpool.base.memory import usable_megabytes
from whenpool.base.paths import cache_directory, data_directory
from whenpool.base.version import __version__
from whenpool.explain.checkpoint import FACTS_FILE, save_checkpoint
from whenpool.explain.diagnosis.data import Wish, survey
from whenpool.explain.diagnosis.findings import HIDDEN, find, make_plan
from whenpool.explain.diagnosis.page import Page
from whenpool.explain.diagnosis.verdict import advice_on, verdict_on
from whenpool.models.pooling import POOLINGS
from whenpool.models.text_classifier import TextClassifier
from whenpool.probes import step_megabytes
from whenpool.runs.compute import compute
from whenpool.runs.engine import Workforce, processors
from whenpool.runs.kinds.training import Training
from whenpool.runs.run import Place, find_vectors
from whenpool.runs.store import Store

__all__ = ["Wish", "diagnose"]


def diagnose(wish: Wish, workforce: Workforce, say: Callable[[str], None]) -> Page:
    """Train each pooling on the user's texts, probe it, and write the page and the models. Runs are
    stored the moment they end: the same wish goes on where it was stopped. Raises `InputError` for texts that
    cannot be used."""
    started, folder = time.monotonic(), wish.output
    store = Store(folder / "runs")
    place = Place(store, wish.data or data_directory(), cache_directory())
    workers = workforce.workers or processors()
    texts = survey(wish, wish.words or _words_that_fit(workers))
    store.check_writable()
    named = Path(wish.vectors or "")  # of a file or of vectors in the data folder
    given = str(named.resolve()) if named.is_file() else wish.vectors
    vectors = None if given == "random" else given or find_vectors(place)
    plan = make_plan(texts, place, wish, vectors)
    counts = f"{texts.texts:,} texts of {len(texts.classes)} classes, {len(plan.runs)} runs"
    say(f"{wish.path.name}: {counts}, written into {folder}")
    for note in texts.notes:
        say(note)
    say(f"Word vectors: {vectors or 'random'}. Models read up to {texts.words:,} words of a text.")
    compute(
        plan.runs, place, workforce, keep_weights=lambda run: run.kind == "training",
        label="diagnosis", say=say,
    )  # fmt: skip
    found = find(plan, place, texts.tokenizer)
    for pooling, best in found.models.items():
        about = {"run": f"{pooling}, {wish.path.name}", **best.about}
        save_checkpoint(
            folder / "models" / pooling, best.model, best.vocabulary, best.classes, best.max_words,
            best.tokenizer, **about,
        )  # fmt: skip
    for pooling in POOLINGS.keys() - found.models.keys():
        facts = folder / "models" / pooling / FACTS_FILE
        if facts.exists() and facts.stat().st_mtime < texts.file.stat().st_mtime:
            facts.unlink()  # of the texts that were here before
    verdict = verdict_on(found)
    shown = folder / "models" / (verdict.pooling or found.scores[0].pooling)
    page = Page(
        texts, plan, found, verdict,
        advice_on(texts.middle, found.train, "unknown" if texts.much_cut else found.where),
        folder / "report.html",
        f'{shlex.join(["whenpool", "explain", "--model", str(shown)])} --text "..."',
        replace(wish, words=wish.words or (texts.words if texts.cut else None)).command,
        time.monotonic() - started, f"Made by whenpool {__version__} on {datetime.now(UTC):%d %B %Y}.",
    )  # fmt: skip
    write_atomically(page.report, page.html)
    return page


def _words_that_fit(workers: int) -> int:
    """The longest texts, a power of two, with which all trainings take a quarter of the memory here."""
    model, size = TextClassifier(10, 2, embedding_size=100, hidden_size=HIDDEN), Training.batch_size
    batch = torch.ones(size, 64).long(), torch.full((size,), 64), torch.zeros(size).long()
    each = step_megabytes(model, *batch) / 64
    return max(64, 2 ** int(math.log2(usable_megabytes() / 4 / workers / each)))
