"""What the text of "Learnability tricks" says of runs (thesis §2.2)."""

from itertools import product
from typing import TYPE_CHECKING

from whenpool.book.report.paper import published
from whenpool.book.report.tables import size_text
from whenpool.book.report.trick_epochs import mass_left
from whenpool.book.report.tricks import SETTINGS, STARTS, VARIANTS, finished, is_guessing
from whenpool.runs.training_run import TRICKS

if TYPE_CHECKING:
    from pandas import DataFrame


def facts(runs: "DataFrame") -> dict[str, str]:
    """What the text says of some runs, for each setting: mean accuracies of the plain model, of the best
    trick and other start, with their names, of max-pooling and of max-attention; how many seeds diverged
    with gradient-directed training, and how many were guessing with it and plainly.

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
            "teacher": ["max"],
            "best": ["max_attention"],
        }
        for what, names in groups.items():
            known = {name: float(means[name]) for name in names if name in means}
            name = max(known, key=known.__getitem__) if known else ""
            found[f"{setting}_{what}"] = f"{known[name]:.1f}" if known else "not run"
            found[f"{setting}_{what}_name"] = VARIANTS.get(name, "none")
        for what, name in {"plain": "last", "directed": "gradient_directed"}.items():
            seeds = own[own["variant"] == name] if len(own) else own
            good = finished(seeds) if len(seeds) else seeds
            guessing = int(is_guessing(good).sum()) if len(good) else 0
            found[f"{setting}_{what}_diverged"] = f"{len(seeds) - len(good)} of {len(seeds)}"
            found[f"{setting}_{what}_guessing"] = f"{guessing} of {len(seeds)}"
    return found


def attention_left(runs: "DataFrame", histories: "DataFrame") -> dict[str, str]:
    """The mean attention on other states in the last epoch of both attending tricks, by setting."""
    found = {}
    for setting in SETTINGS:
        for variant in ("penalty_attention", "dropout_attention"):
            keys = runs[(runs["variant"] == variant) & (runs["setting"] == setting)]["key"]
            epochs = histories[histories["key"].isin(keys)]
            known = "mass_left" in epochs and len(epochs)
            left = f"{mass_left(epochs).mean():.2f}" if known else "not run"
            found[f"{setting}_{variant.split('_')[0]}_left"] = left
    return found


def apart() -> dict[str, str]:
    """Accuracies that the thesis's Tables 1.3 and 2.1 give the same model, trained on 10K texts."""
    accuracy, tricks = published("accuracy"), published("learnability")
    accuracy = accuracy[(accuracy["table"] == "1.3") & (accuracy["corpus"] == "imdb")]
    accuracy = accuracy[accuracy["size"] == 10_000].set_index(["pooling", "setting"])["mean"]
    tricks = tricks.set_index(["method", "setting"])["accuracy"]
    found = {}
    for pooling, setting in product(("last", "max"), SETTINGS):
        found[f"first_{pooling}_{setting}"] = f"{accuracy[pooling, setting]:.1f}"
        found[f"second_{pooling}_{setting}"] = f"{tricks[pooling, setting]:.1f}"
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
