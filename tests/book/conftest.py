"""Shared by the tests of the paper: folders of runs, workers in this process, the runs of record,
the pages and a browser."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from called import told  # noqa: F401 (tests import it from here)

from paper.runs.run import Place
from paper.runs.store import Store


def empty_place(folder):
    """Empty folders for data, store and cache."""
    (folder / "data").mkdir(parents=True)
    return Place(Store(folder / "store"), folder / "data", folder / "cache")


@pytest.fixture
def place(tmp_path):
    """Of one test."""
    return empty_place(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Of a module, for what its tests only read."""
    return empty_place(tmp_path_factory.mktemp("shared"))


class Crews(list):
    """In the place of processes and clusters: a worker in this process, so that a test can follow
    and disturb it. A list of the tasks that each call of `run_all` has begun."""

    def __init__(self):
        super().__init__()
        self.before = lambda task: None  # called with each task

    def __call__(self, place, workforce):
        from paper.runs.engine import do

        tasks = []
        self.append(tasks)

        def receive():
            self.before(tasks[-1])
            return do(tasks[-1], place, workforce.device, workforce.precision)

        worker = SimpleNamespace(send=tasks.append, receive=receive, stop=lambda: None)
        return SimpleNamespace(room=lambda: 1, begin=lambda: worker, close=lambda: None)

    @property
    def runs(self):
        """In the order in which they were executed."""
        return [job.run for tasks in self for task in tasks for job in task]

    @classmethod
    def put(cls, monkeypatch):
        crews = cls()
        monkeypatch.setattr("paper.runs.engine.crew_of", crews)
        return crews


@pytest.fixture
def here(monkeypatch):
    """Runs are executed in this process: another one takes five seconds to load torch."""
    return Crews.put(monkeypatch)


@pytest.fixture(scope="module")
def all_here():
    """The same for all tests of a module, and what they share."""
    with pytest.MonkeyPatch.context() as patch:
        yield Crews.put(patch)


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """The folder ``WHENPOOL_PAGES`` with built pages, else the whole book from smoke-sized runs."""
    from clones import builder, clone

    if given := os.environ.get("WHENPOOL_PAGES"):
        return Path(given).resolve()
    return builder(clone(tmp_path_factory.mktemp("clone")), []).build().parent


@pytest.fixture(scope="session")
def on_record(tmp_path_factory):
    """The runs of record alone."""
    folder = tmp_path_factory.mktemp("record")
    return Place(Store(folder, Path(__file__).parents[2] / "data" / "results"), folder, folder)


@pytest.fixture(scope="session")
def recorded(on_record):
    """The same as claims read them."""
    from paper.verdicts.results import Runs

    return Runs(on_record)


@pytest.fixture(scope="session")
def decided(recorded):
    """What the runs of record say of every claim."""
    from paper.verdicts.claims import decisions

    return decisions(recorded)


@pytest.fixture(scope="session")
def chromium():
    """The one browser of a worker: Playwright opens no second one in a process."""
    from browsing import needs_browser

    from paper.pages.print_book import opened_browser

    needs_browser()
    with opened_browser() as browser:
        yield browser
