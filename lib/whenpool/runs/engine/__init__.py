"""Engines run many runs: on the processors or the GPU of this machine, or on a cluster."""

from whenpool.runs.engine.crew import Report
from whenpool.runs.engine.running import Workforce, run_all

__all__ = ["Report", "Workforce", "run_all"]
