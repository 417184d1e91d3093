"""The kinds of runs, one file each; see `whenpool.runs.run.Run`."""

from whenpool.runs.kinds.few_shot import FewShot
from whenpool.runs.kinds.probe import Probe
from whenpool.runs.kinds.tagging import Tagging
from whenpool.runs.kinds.training import Training
from whenpool.runs.store import KINDS

KINDS.update({kind.kind: kind for kind in (Training, Probe, FewShot, Tagging)})

__all__ = ["KINDS", "FewShot", "Probe", "Tagging", "Training"]
