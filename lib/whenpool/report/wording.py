"""Names in a row, as a sentence has them."""

from collections.abc import Sequence


def together(names: Sequence[str]) -> str:
    """One name, or several with commas and an "and"; of none, nothing."""
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)
