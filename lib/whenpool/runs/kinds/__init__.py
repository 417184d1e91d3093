"""The kinds of runs, one file each; see `whenpool.runs.kinds.base.Run`."""

from whenpool.runs.kinds.base import KINDS

from whenpool.runs.kinds.training import Training  # isort: skip (what the others build on)
from whenpool.runs.kinds.few_shot import FewShot
from whenpool.runs.kinds.probe import Probe
from whenpool.runs.kinds.tagging import Tagging

KINDS.update({kind.kind: kind for kind in (Training, Probe, FewShot, Tagging)})

__all__ = ["KINDS", "FewShot", "Probe", "Tagging", "Training"]
