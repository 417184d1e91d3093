"""Names in a row, as a sentence has them."""

from collections.abc import Sequence


def together(names: Sequence[str]) -> str:
    """One name, or several with commas and an "and"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
