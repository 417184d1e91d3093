"""Shared by all tests: caches of their own, and where real corpora lie, if they do."""

import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import settings

settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded: tests run side by side
REAL_DATA = Path(
    os.environ.get("WHENPOOL_TEST_DATA", Path(__file__).parents[2] / "shared" / "data")
)
SLOW = "book contributing fine_tuning pages printing ray scripts together".split()
"""Files that ``make test-all`` runs, and the faults again with more kills."""
SHARING = {own: own for own in "golden faults few_shot tagging try_it ray ledger diagnosis".split()}
SHARING |= {"book": "book", "prose": "ledger"}
"""Files whose tests share what takes long to make, and so one process."""
if "WHENPOOL_PAGES" not in os.environ:
    SHARING |= {"pages": "pages", "printing": "pages"}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """The files in `SHARING` go to one process; marks of groups do not reach xdist 3.8 with pytest
    9."""
    from xdist.scheduler import LoadScopeScheduling

    class BySharing(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return SHARING.get(Path(nodeid.partition("::")[0]).stem.removeprefix("test_"), nodeid)

    return BySharing(config, log)


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.stem.removeprefix("test_") in SLOW:
            item.add_marker("slow")
        if item.path.stem == "test_faults":
            item.add_marker("faults")
            if "[3]" in item.name:  # several models trained as one batch are killed as one alone is
                item.add_marker("slow")


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    """No test reads or writes the clone's data, runs or cache."""
    for variable in ("DATA", "STORE", "CACHE"):
        monkeypatch.setenv(f"WHENPOOL_{variable}", str(tmp_path / variable.lower()))


@pytest.fixture
def real_data():
    """The folder of real corpora; skips where it is missing."""
    if not REAL_DATA.is_dir():
        pytest.skip("real corpora are not here; set WHENPOOL_TEST_DATA to their folder")
    return REAL_DATA


def empty_place(folder):
    """Empty folders for data, store and cache."""
    from paper.runs.run import Place
    from paper.runs.store import Store

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


def told(*words, code=0):
    """What a command prints that is called in this process, which is faster, and its errors."""
    from click.testing import CliRunner

    from whenpool.cli import cli

    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture
def mistake(monkeypatch, capsys):
    """Call the command line in this process, which is faster; gives the one line that a mistake is
    told in before it ends with the exit code 2."""
    from whenpool.cli import main

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["whenpool", *words])
        with pytest.raises(SystemExit) as end:
            main()
        out, said = capsys.readouterr()
        assert end.value.code == 2, said + out
        assert re.fullmatch(r"whenpool: [^\x00-\x1f\x7f\x85\u2028\u2029]{,2080}\n", said), said
        return said

    return call


class Crews(list):
    """In the place of processes and clusters: a worker in this process, so that a test can follow
    and disturb it. A list of the tasks that each call of `run_all` has begun."""

    def __init__(self):
        super().__init__()
        self.before = lambda task: None  # called with each task

    def __call__(self, place, workforce):
        from paper.runs.cluster import ThreadWorker
        from paper.runs.engine import do

        tasks, crews = [], self
        self.append(tasks)

        class Here(ThreadWorker):
            def execute(self, task):
                tasks.append(task)
                crews.before(task)
                return do(task, place, workforce.device, workforce.precision)

        return SimpleNamespace(room=lambda: 1, begin=lambda: Here(place), close=lambda: None)

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
    from paper.runs.run import Place
    from paper.runs.store import Store

    folder = tmp_path_factory.mktemp("record")
    return Place(Store(folder, Path(__file__).parents[1] / "data" / "results"), folder, folder)


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
