"""Runs per hour of a cell of the grid, against one training after another in one process.

The cell is that of the quick profile: 1,000 texts, 64 units, all poolings; of IMDb where it and
word vectors are in WHENPOOL_DATA, else of the embedded corpus. The one process has as many threads
as there are processors.
"""

import multiprocessing
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch

from paper.chapters import plan
from paper.runs.engine import Workforce, run_all
from paper.runs.kinds.training import Training
from paper.runs.request import Request
from paper.runs.run import Place
from paper.runs.store import Store
from whenpool.base.devices import processors
from whenpool.base.errors import InputError


def main() -> None:
    runs, place = cell()
    print(
        f"{len(runs)} trainings of {runs[0].corpus}, {runs[0].size} texts, {processors()} "
        "processors"
    )
    with tempfile.TemporaryDirectory() as folder:
        replace(runs[0], epochs=1).execute(fresh(place, folder, "warm"))  # what is cached is there
        ways = {"one after another": lambda where: one_after_another(runs, where)}
        for workers, together in ((processors(), 1), (processors(), 5)):
            workforce = Workforce(workers=workers, models_per_batch=together)
            name = f"{workers} workers" + (
                f", up to {together} models at once" if together > 1 else ""
            )
            ways[name] = lambda where, workforce=workforce: run_all(runs, where, workforce)
        print(f"{'':>36}{'s':>8}{'runs/h':>9}{'ratio':>8}")
        first = None
        for name, way in ways.items():
            started = time.perf_counter()
            way(fresh(place, folder, name))
            seconds = time.perf_counter() - started
            first = first or seconds
            print(
                f"{name:>36}{seconds:8.1f}{3600 * len(runs) / seconds:9.0f}{first / seconds:8.2f}"
            )


def cell() -> tuple[list[Training], Place]:
    place = Place.default()
    for corpus in ("imdb", "synthetic"):
        runs = plan("training_to_skip", Request("quick", (corpus,), settings=("standard",)), place)
        try:
            place.source(runs[0]).fingerprint(runs[0].length)
        except InputError:
            continue
        return [run for run in runs if isinstance(run, Training)], place
    raise AssertionError("the embedded corpus is always there")


def fresh(place: Place, folder: str, name: str) -> Place:
    return Place(Store(Path(folder) / name.replace(" ", "-")), place.data, place.cache)


def one_after_another(runs: list[Training], place: Place) -> None:
    process = multiprocessing.get_context("spawn").Process(target=_each, args=(runs, place))
    process.start()
    process.join()
    assert process.exitcode == 0


def _each(runs: list[Training], place: Place) -> None:
    torch.set_num_threads(processors())
    for run in runs:
        run.execute(place)
