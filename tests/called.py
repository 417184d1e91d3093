"""Calls of the command line in this process, and how others are called."""

from click.testing import CliRunner

from whenpool.cli import cli

CAPTURED = {"capture_output": True, "text": True, "check": False}  # for `subprocess.run`


def told(*words, code=0):
    """What a command prints that is called in this process, which is faster, and its errors."""
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.output
