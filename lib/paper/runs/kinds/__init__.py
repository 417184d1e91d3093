"""The kinds of runs, one file each; see `paper.runs.run.Run`."""

from paper.runs.kinds.few_shot import FewShot
from paper.runs.kinds.probe import Probe
from paper.runs.kinds.tagging import Tagging
from paper.runs.kinds.training import Training
from paper.runs.store import KINDS

KINDS.update({kind.kind: kind for kind in (Training, Probe, FewShot, Tagging)})

__all__ = ["KINDS", "FewShot", "Probe", "Tagging", "Training"]
