"""Timing things against each other on a machine that others may use as well."""

import time
from collections.abc import Callable

import torch


def compare(candidates: dict[str, Callable[[], object]], rounds: int = 7) -> dict[str, float]:
    """Seconds of each candidate: they take turns, and the best of all rounds counts.

    Taking turns lets a disturbance hit all alike; the best round is the least disturbed one.
    """
    for run in candidates.values():
        run()  # warm up
    best = dict.fromkeys(candidates, float("inf"))
    for _ in range(rounds):
        for name, run in candidates.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def machine() -> str:
    """What the figures were measured on."""
    from paper.runs.run import processor

    return f"{processor()}, {torch.get_num_threads()} threads, torch {torch.__version__}"
