"""The command line: `whenpool.cli.program`."""

import sys

try:
    from whenpool.cli.program import cli, main
except ModuleNotFoundError as error:
    sys.exit(f"whenpool: the command needs {error.name}: pip install 'whenpool[runs]'")

__all__ = ["cli", "main"]
