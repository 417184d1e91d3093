"""The audit of packages: findings fail, a service that is away does not, and silence is no all-clear."""

import importlib.util
import json
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / ".ci" / "audit.py"
SPEC = importlib.util.spec_from_file_location("audit", SOURCE)
audit = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(audit)

SOUND = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}]}
OPEN = {"name": "c", "version": "4", "vulns": [{"id": "PYSEC-2", "fix_versions": []}]}
SKIPPED = {"name": "d", "skip_reason": "not found"}


def report(*packages):
    return json.dumps({"dependencies": packages, "fixes": []})


@pytest.mark.parametrize(
    ("code", "output", "errors", "expected"),
    [
        (0, report(SOUND, SKIPPED), "No known", (0, "1 packages without a known vulnerability")),
        (
            1,
            report(SOUND, BAD, OPEN),
            "Found 2",
            (1, "vulnerable: b 2 has PYSEC-1, mended in 3; c 4 has PYSEC-2"),
        ),
        (
            0,
            report(SKIPPED),
            "",
            (0, "note: nothing was audited, the service knows none of the packages"),
        ),
        (
            1,
            "",
            "Traceback\nrequests.exceptions.ConnectionError: no\n",
            (0, "note: nothing was audited, osv.dev cannot be reached"),
        ),
        (2, "", "usage\nerror: no such option\n", (1, "pip-audit failed: error: no such option")),
        (1, "", "", (1, "pip-audit failed: exit code 1")),
    ],
)
def test_the_verdict_is_a_line_and_an_exit_code(code, output, errors, expected):
    assert audit.verdict(code, output, errors) == expected
