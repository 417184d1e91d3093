"""Shared by all tests: caches of their own, and where real corpora lie, if they do."""

import os
import re
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "any machine",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("any machine")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded: tests run side by side
REAL_DATA = Path(
    os.environ.get("WHENPOOL_TEST_DATA", Path(__file__).parents[2] / "shared" / "data")
)
SLOW = "book contributing faults fine_tuning pages printing ray scripts together".split()
"""Files that ``make test-all`` runs."""
SHARING = {own: own for own in "golden faults few_shot tagging try_it ray ledger diagnosis".split()}
SHARING |= {"book": "book", "prose": "ledger"}
"""Files whose tests share what takes long to make, and so one process."""
if "WHENPOOL_PAGES" not in os.environ:
    SHARING |= {"pages": "pages", "printing": "pages"}


def is_slow(file):
    return file.suffix == ".py" and file.stem.removeprefix("test_") in SLOW


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """The files in `SHARING` go to one process; marks of groups do not reach xdist 3.8 with pytest
    9."""
    from xdist.scheduler import LoadScopeScheduling

    class BySharing(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return SHARING.get(Path(nodeid.partition("::")[0]).stem.removeprefix("test_"), nodeid)

    return BySharing(config, log)


def pytest_ignore_collect(collection_path, config):
    """Slow files are not read for nothing: some load transformers."""
    left_out = config.option.markexpr == "not slow" and is_slow(collection_path)
    return True if left_out else None


def pytest_collection_modifyitems(items):
    for item in items:
        if is_slow(item.path):
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
