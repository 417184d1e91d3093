"""Engines run many runs: on the processors or the GPU of this machine, or on a cluster."""

from whenpool.engine.running import run_all
from whenpool.engine.tasks import Report
from whenpool.engine.workforce import Workforce

__all__ = ["Report", "Workforce", "run_all"]
