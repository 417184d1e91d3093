"""Where a result comes from: code, versions, machine, time. No part of a run's key."""

import platform
import subprocess
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import torch

from whenpool.base.paths import project_root
from whenpool.models.precision import precision_used


@dataclass(frozen=True)
class Company:
    """With how many models one was trained at once, itself included, and by what their group goes."""

    together: int
    group: str


ALONE = Company(1, "")
_engine = "local"


def engine_is(name: str) -> None:
    """Say which engine this process works for, see `whenpool.runs.engine`."""
    global _engine
    _engine = name


def provenance(device: str, company: Company = ALONE) -> dict[str, Any]:
    """What is stored beside a result that was computed now on a device."""
    name = torch.cuda.get_device_name(device) if device.startswith("cuda") else processor()
    return {
        "commit": commit(),
        "device": f"{device.split(':')[0]}: {name}",
        "threads": torch.get_num_threads(),
        "precision": precision_used(),
        **asdict(company),
        "engine": _engine,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }


@cache
def commit() -> str:
    """The commit of the clone, with "+" where files differ from it; "" outside a clone."""
    root = project_root()
    if root is None:
        return ""

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    head = git("rev-parse", "--short=12", "HEAD")
    return head + ("+" if head and git("status", "--porcelain", "--", "lib") else "")


@cache
def processor() -> str:
    """The name of this machine's processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
