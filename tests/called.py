"""Calls that are refused, calls of the command line in this process, and how others are called."""

import subprocess
import sys
from pathlib import Path

import pytest

CAPTURED = {"capture_output": True, "text": True, "check": False}  # for `subprocess.run`


def refused(message, call, *arguments, **options):
    """What a call says that cannot be done: one line of an `InputError`, with these words."""
    from whenpool import InputError

    with pytest.raises(InputError, match=message) as error:
        call(*arguments, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def told(*words, code=0, **options):
    """What a command prints that is called in this process, which is faster, and its errors."""
    from click.testing import CliRunner

    from whenpool.cli import cli

    done = CliRunner().invoke(cli, words, catch_exceptions=False, **options)
    assert done.exit_code == code, done.output
    return done.output


def python(code, *words, **options):
    """A new process that runs some code, with the words as its arguments."""
    return subprocess.run([sys.executable, "-c", code, *words], **CAPTURED | options)


def elsewhere(file, tests):
    """Run the tests of a file in a process of their own, all of which pass: torch counts its
    devices once, in the first backward pass. Nothing where this torch has no stand-in for one."""
    options = ["-p", "no:xdist", "-p", "no:cacheprovider", "-rA", file]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options], cwd=Path(__file__).parent, **CAPTURED
    )
    no_stand_in = 5
    assert done.returncode in (0, no_stand_in), done.stdout
    assert done.returncode == no_stand_in or done.stdout.count("\nPASSED") == tests
