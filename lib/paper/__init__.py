"""The paper: its corpora, runs, claims and pages. This file needs no torch."""

from collections.abc import Collection
from pathlib import Path

from whenpool.base.errors import check, check_known

OPEN, CLOSE = '<metadata id="phone">', "</metadata></svg>"
"""Around the layout of a figure for a phone, which the rendering takes out again."""


def chapter_named(name: str, names: Collection[str]) -> str:
    """The one of some chapters that is meant by its name, or a part that no other has."""
    name = Path(name).stem.replace("-", "_")
    matching = (
        [name] if name in names else [chapter for chapter in names if name and name in chapter]
    )
    check(len(matching) < 2, f"chapter {name!r} is ambiguous; choose one of {', '.join(matching)}")
    check_known("chapter", matching[0] if matching else name, names)
    return matching[0]
