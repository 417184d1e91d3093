"""Runs: what they are, which a chapter needs, how they are executed, and where results are kept."""

from paper.runs import kinds as kinds  # whichever module comes first, every kind is known
