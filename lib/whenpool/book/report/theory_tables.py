"""The table of the chapter "What theory says": how a gradient shrinks, expected and measured (§2.1.3)."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pandas import DataFrame


def factor_table(rows: "DataFrame", hidden_size: int) -> "DataFrame":
    """Expected and measured factor per step of each model at one size, a row each.

    Args:
        rows: of `whenpool.theory.comparison.factors_by_size`.
        hidden_size: H, one of those in ``rows``.
    """
    import pandas as pd

    found = []
    for model, part in rows[rows["hidden_size"] == hidden_size].groupby("model", sort=False):
        factors = {kind: own["factor"] for kind, own in part.groupby("kind")}
        measured = factors["measured"]
        found.append(
            {
                "model": model,
                "independent steps": f"{factors['independent'].item():.3f}",
                "expected": f"{factors['expected'].item():.3f}",
                "measured": f"{measured.mean():.3f} ± {measured.std():.3f} ({len(measured)})",
            }
        )
    return pd.DataFrame(found)
