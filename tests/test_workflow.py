"""The workflow on GitHub: a valid one, and it calls only what there is."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from whenpool.cli import cli

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
BOOK = yaml.safe_load((ROOT / ".github" / "workflows" / "book.yml").read_text())
STARTS = BOOK[True]  # the key "on" is a truth value in YAML 1.1
JOBS = BOOK["jobs"]


def commands(job):
    for step in job["steps"]:
        for line in step.get("run", "").splitlines():
            yield line.split()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_follow_the_published_schema_and_call_what_there_is(path):
    schema = ["--builtin-schema", "vendor.github-workflows"]  # which the package brings along
    command = [sys.executable, "-m", "check_jsonschema", *schema, path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for job in yaml.safe_load(path.read_text())["jobs"].values():
        for program, *words in commands(job):
            if program == "make":
                assert {word for word in words if "=" not in word} <= targets, words
            elif program == "whenpool":
                assert words[0] in cli.commands, words
            else:
                assert os.access(ROOT / program, os.X_OK), program


def test_inputs_reach_the_runner_as_variables_that_it_reads():
    script = (ROOT / "scripts" / "gpu_runner.sh").read_text()
    variables = JOBS["paper"]["env"]
    for name in STARTS["workflow_dispatch"]["inputs"]:
        assert f"inputs.{name}" in variables[name.upper()]
    for name in variables:
        assert re.search(rf"\$\{{?{name}\b", script) or name == "WHENPOOL_CACHE"
    assert not [words for job in JOBS.values() for words in commands(job) if "inputs." in "".join(words)]


def test_only_publishing_may_write_and_one_job_a_machine_runs_at_a_time():
    assert BOOK["permissions"] == {"contents": "read"}
    for name, job in JOBS.items():
        granted = job.get("permissions", {})
        writes = {scope for scope, right in granted.items() if right == "write"}
        assert writes == ({"pages", "id-token"} if name == "publish" else set())
        assert job["concurrency"]["group"]
        assert job["timeout-minutes"] <= 720


def test_the_packed_results_and_the_pages_are_those_that_are_made():
    jobs = [JOBS["paper"], JOBS["pages"]]
    steps = {step["uses"].split("@")[0]: step for job in jobs for step in job["steps"] if "uses" in step}
    packed = steps["actions/upload-artifact"]["with"]["path"]
    assert packed == "_build/runner/whenpool-results.tar.gz"
    assert "$OUT/whenpool-results.tar.gz" in (ROOT / "scripts" / "gpu_runner.sh").read_text()
    assert steps["actions/upload-pages-artifact"]["with"]["path"] == "_build/html"
