"""The command line: `whenpool.cli.main`."""

from whenpool.cli.main import cli, main

__all__ = ["cli", "main"]
