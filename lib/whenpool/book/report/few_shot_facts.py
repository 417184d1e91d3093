"""What the text of "Learning under limited data" says of runs, and of Table 1.9 (thesis §1.10)."""

from typing import TYPE_CHECKING

from whenpool.runs.few_shot_run import SYSTEMS
from whenpool.book.report.few_shot import NAMES, what_it_is
from whenpool.book.report.few_shot_rules import PER_CLASS
from whenpool.book.report.paper import published

if TYPE_CHECKING:
    from pandas import DataFrame, Series

RIVALS = ("vampire", "bert", "tmix")
"""What the thesis counts, beside MaxAtt, among those without unlabelled data."""
SEMI_SUPERVISED = ("uda", "mixtext")


def facts(runs: "DataFrame", per_class: int = PER_CLASS) -> dict[str, str]:
    """What the text says of some runs: their texts and encoder, mean accuracies with so many labels, the
    points between MaxAtt and the best of the others, and how often MaxAtt is ahead.

    Args:
        runs: one corpus and encoder, of each system one configuration, as `on_record` of
            `whenpool.book.report.few_shot_rules` gives them.
    """
    own = runs[runs["per_class"] == per_class]
    means = own.groupby("system")["test_accuracy"].mean()
    found = {f"few_{system}": _percent(means.get(system)) for system in NAMES}
    for what, systems in {"rival": RIVALS, "semi": SEMI_SUPERVISED, "all": SYSTEMS}.items():
        known = means[means.index.isin(systems)]
        name = str(known.idxmax()) if len(known) else ""
        found[f"few_{what}_name"] = NAMES.get(name, "none")
        found[f"few_{what}"] = _percent(means.get(name))
        found[f"few_above_{what}"] = _points(means.get("max_attention"), means.get(name))
    found["few_above_words"] = _points(means.get("max_attention"), means.get("max_attention_words"))
    found["few_order"] = _order(means[means.index.isin(SYSTEMS)])
    found["few_title"] = what_it_is(own) or "not run yet."
    found["few_seeds"] = str(own["seed"].nunique())
    found["few_spread"] = _spread(own)
    found["few_ahead"] = _ahead(runs)
    return found


def thesis_facts() -> dict[str, str]:
    """Points between MaxAtt and the best of the others in Table 1.9, and the order of all, by corpus."""
    numbers = published("few_shot").set_index(["corpus", "model"])["accuracy"]
    found = {}
    for corpus in ("imdb", "yahoo"):
        own: Series = numbers[corpus]
        for what, systems in {"rival": RIVALS, "semi": SEMI_SUPERVISED}.items():
            found[f"thesis_{corpus}_{what}"] = _points(own["max_attention"], own[list(systems)].max())
        found[f"thesis_{corpus}_order"] = _order(own)
    return found


def _order(accuracies: "Series") -> str:
    """Systems from the highest to the lowest accuracy, with it."""
    ordered = accuracies.sort_values(ascending=False, kind="stable")
    return ", ".join(f"{NAMES[name]} {value:.1f}" for name, value in ordered.items()) or "none"


def _ahead(runs: "DataFrame") -> str:
    """With how many numbers of labels the mean of MaxAtt is above those of its rivals."""
    means = runs.pivot_table(index="per_class", columns="system", values="test_accuracy")
    rivals = [name for name in RIVALS if name in means]
    if "max_attention" not in means or not rivals:
        return "none of none"
    both = means[["max_attention", *rivals]].dropna()
    ahead = both["max_attention"] > both[rivals].max(axis=1)
    return f"{int(ahead.sum())} of {len(both)}"


def _spread(runs: "DataFrame") -> str:
    """The smallest and largest standard deviation of any system over its seeds."""
    deviations = runs.groupby("system")["test_accuracy"].std(ddof=1).dropna()
    return f"{deviations.min():.1f} to {deviations.max():.1f}" if len(deviations) else "unknown"


def _percent(value: float | None) -> str:
    return "not run" if value is None else f"{value:.1f}"


def _points(value: float | None, other: float | None) -> str:
    return "not run" if value is None or other is None else f"{value - other:+.1f}".replace("-", "−")
