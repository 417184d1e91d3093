"""How long the command line takes to answer."""

import subprocess
import sys

from bench.timing import compare


def main() -> None:
    def call(*words: str):
        command = [sys.executable, *words]
        return lambda: subprocess.run(command, capture_output=True, check=True)

    times = compare(
        {
            "python -c pass": call("-c", "pass"),
            "whenpool --help": call("-m", "whenpool", "--help"),
            "import torch": call("-c", "import torch"),
        },
        rounds=5,
    )
    for name, seconds in times.items():
        print(f"{name:>16} {seconds:6.2f} s")
