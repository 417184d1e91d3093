"""What the text of "Learnability tricks" says of runs (thesis §2.2)."""

from typing import TYPE_CHECKING

from whenpool.report.tables import size_text
from whenpool.report.tricks import SETTINGS, STARTS, TRICKS, VARIANTS, finished, is_guessing

if TYPE_CHECKING:
    from pandas import DataFrame


def facts(runs: "DataFrame") -> dict[str, str]:
    """What the text says of some runs, for each setting: mean accuracies of the plain model, of the best
    trick and other start, with their names, and of max-attention; and how many seeds of how many were
    guessing or diverged with gradient-directed training.

    Args:
        runs: from `with_variant`.
    """
    found = {}
    for setting in SETTINGS:
        own = runs[runs["setting"] == setting] if len(runs) else runs
        means = finished(own).groupby("variant")["test_accuracy"].mean() if len(own) else {}
        groups = {
            "plain": ["last"],
            "trick": list(TRICKS),
            "start": list(STARTS),
            "best": ["max_attention"],
        }
        for what, names in groups.items():
            known = {name: float(means[name]) for name in names if name in means}
            name = max(known, key=known.__getitem__) if known else ""
            found[f"{setting}_{what}"] = f"{known[name]:.1f}" if known else "not run"
            found[f"{setting}_{what}_name"] = VARIANTS.get(name, "none")
        directed = own[own["variant"] == "gradient_directed"] if len(own) else own
        good = finished(directed) if len(directed) else directed
        lost = len(directed) - len(good) + (int(is_guessing(good).sum()) if len(good) else 0)
        found[f"{setting}_directed_lost"] = f"{lost} of {len(directed)}"
    return found


def small_title(runs: "DataFrame") -> str:
    """What the model of some small runs is, for a caption."""
    if runs.empty:
        return "not run yet"
    row = runs.iloc[0]
    return (
        f"{size_text(row['size'])} training texts of up to {int(row['max_words'])} words before filler "
        f"is added, {int(row['hidden_size'])} units a direction, {int(row['epochs'])} epochs"
    )
