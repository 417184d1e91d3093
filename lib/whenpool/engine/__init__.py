"""Engines run many runs: so far on the processors of this machine."""

from whenpool.engine.local import Report, run_all

__all__ = ["Report", "run_all"]
