"""The kinds of runs, one file each; see `paper.runs.run.Run`."""

from paper.runs.kinds.few_shot import FewShot
from paper.runs.kinds.frozen import Frozen
from paper.runs.kinds.probe import Probe
from paper.runs.kinds.tagging import Tagging
from paper.runs.kinds.training import Training
from paper.runs.run import Run

KINDS: dict[str, type[Run]] = {
    "training": Training,
    "probe": Probe,
    "few-shot": FewShot,
    "frozen": Frozen,
    "tagging": Tagging,
}
"""Every kind of run by its name."""

__all__ = ["KINDS", "FewShot", "Frozen", "Probe", "Tagging", "Training"]
