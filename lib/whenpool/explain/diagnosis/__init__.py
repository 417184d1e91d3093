"""Which pooling for one's own texts: a small training of each, what probes find, and a page on it."""

from whenpool.explain.diagnosis.course import Wish, diagnose

__all__ = ["Wish", "diagnose"]
