"""Engines run many runs: on the processors or the GPU of this machine, or on a cluster."""

from whenpool.runs.engine.running import run_all
from whenpool.runs.engine.tasks import Report
from whenpool.runs.engine.workforce import Workforce

__all__ = ["Report", "Workforce", "run_all"]
