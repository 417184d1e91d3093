"""The command line: `whenpool.cli.program`."""

from whenpool.cli.program import cli, main

__all__ = ["cli", "main"]
