"""Names in a row, and numbers, as a sentence has them."""

import math
from collections.abc import Sequence


def together(names: Sequence[str]) -> str:
    """One name, or several with commas and an "and"; of none, nothing."""
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def number_text(value: float) -> str:
    """A number as a reader sees it: 0.0003 -> 3·10⁻⁴, 12.34 -> 12.3, 100 -> 100."""
    if math.isinf(value):
        return "∞"
    if value != 0 and not 1e-3 <= abs(value) < 1e4:
        mantissa, exponent = f"{value:.1e}".split("e")
        raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        mantissa = mantissa.removesuffix(".0")
        return f"10{raised}" if mantissa == "1" else f"{mantissa}·10{raised}"
    if value == round(value):
        return f"{value:.0f}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:.1f}"
