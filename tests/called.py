"""Calls that are refused, calls of the command line in this process, and how others are called."""

import pytest

CAPTURED = {"capture_output": True, "text": True, "check": False}  # for `subprocess.run`


def refused(message, call, *arguments, **options):
    """What a call says that cannot be done: one line of an `InputError`, with these words."""
    from whenpool import InputError

    with pytest.raises(InputError, match=message) as error:
        call(*arguments, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def told(*words, code=0):
    """What a command prints that is called in this process, which is faster, and its errors."""
    from click.testing import CliRunner

    from whenpool.cli import cli

    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.output
