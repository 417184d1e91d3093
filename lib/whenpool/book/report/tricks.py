"""What the figures, tables and text of "Learnability tricks" show (thesis §2.2)."""

from typing import TYPE_CHECKING
from whenpool.book.report.figures import CHANCE_COLOUR, COLOURS, TRICK_COLOURS
from whenpool.book.report.verdicts import column
from itertools import product
from whenpool.book.report.verdicts import published
from whenpool.book.report.tables import size_text
from whenpool.runs.kinds.training import TRICKS
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
import numpy as np
from whenpool.book.report.provenance import provenance_line
from whenpool.book.report.skip import MAJORITY
from whenpool.book.report.tables import LEGEND, CaptionedTable, beside, cell_text, grid, mean_text
from whenpool.book.report.verdicts import (
    Cell,
    as_plain,
    column,
    judge,
    of_learnability,
    of_one_kind,
    of_record,
)
from whenpool.runs.kinds.training import TRICKS, Training, variant_of

if TYPE_CHECKING:
    from pandas import DataFrame, Series
    from pandas import DataFrame
    from whenpool.runs.store import Store



VARIANTS = {
    "last": "BiLSTM",
    "max": "MaxPool",
    "teacher_forcing": "Teacher forcing",
    "penalty_attention": "Penalty attention",
    "dropout_attention": "Dropout attention",
    "gradient_directed": "Gradient-directed",
    "max_attention": "MaxAtt",
    "forget 2": "BiLSTM, forget bias 2",
    "chrono": "BiLSTM, chrono start",
    "orthogonal": "BiLSTM, orthogonal start",
}
"""What this chapter compares, in the order of Table 2.1, and how it calls it."""
STARTS = ("forget 2", "chrono", "orthogonal")
SETTINGS = ("standard", "mid")


def mean_squared_error(epochs: "DataFrame") -> "Series":
    """Of teacher forcing, the lowest of all epochs, by run."""
    return epochs.groupby("key")["train_loss"].min()


def mass_left(epochs: "DataFrame") -> "Series":
    """The attention on states other than the last in the last epoch, nothing dropped, by run."""
    return epochs.sort_values("epoch").groupby("key")["mass_left"].last()


def mass_before_the_end(epochs: "DataFrame") -> "Series":
    """The same in the last epoch before the factor reaches 1: while it was still of use, by run."""
    before = epochs[epochs["factor"] < 1].sort_values("epoch")
    return before.groupby("key")["mass_left"].last()


def cost_of_ending(epochs: "DataFrame") -> "Series":
    """Validation accuracy with attention in the last epoch before the factor reaches 1, minus that
    without attention in the first epoch at 1: points lost when attention goes, by run."""
    ordered = epochs.sort_values("epoch")
    before = ordered[ordered["factor"] < 1].groupby("key")["attention_accuracy"].last()
    after = ordered[ordered["factor"] == 1].groupby("key")["validation_accuracy"].first()
    return (before - after).dropna()


BEFORE = "before training"
ATTENDING = ("penalty_attention", "dropout_attention")
_STARTS = {"forget 2": "#000000", "chrono": "#767676", "orthogonal": "#767676"}
_DASHES = {"forget 2": (1, 1.5), "chrono": (1, 1.5), "orthogonal": (4, 1.5, 1, 1.5)}
PALETTE = {BEFORE: CHANCE_COLOUR} | {
    title: (COLOURS | TRICK_COLOURS | _STARTS)[name] for name, title in VARIANTS.items()
}
"""A colour for each variant, by what figures call it."""
DASHES = {BEFORE: (4, 1.5)} | {title: _DASHES.get(name, "") for name, title in VARIANTS.items()}
"""Other starts are dotted or dashed."""


def named(rows: "DataFrame") -> "DataFrame":
    """Some rows with ``variant`` and ``setting`` as figures call and order them, those from before
    training as a variant of their own.

    Args:
        rows: of `Store.histories` or of the probe "gradients", with both columns.
    """
    import pandas as pd

    titles = rows["variant"].map(VARIANTS).mask(column(rows, "untrained").eq(True), BEFORE)
    orders = {"variant": list(PALETTE), "setting": list(SETTINGS)}
    values = {"variant": titles, "setting": rows["setting"]}
    return rows.assign(
        **{
            name: pd.Categorical(values[name], [one for one in order if one in set(values[name])])
            for name, order in orders.items()
        }
    )


def ending(epochs: "DataFrame") -> "DataFrame":
    """The epochs of what attends in training and tells how much attention is left, see `named`."""
    left = column(epochs, "mass_left").notna() & epochs["variant"].isin(ATTENDING)
    return named(epochs[left])


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


GUESSING = 2.0
"""Points above the largest class up to which a model counts as guessing."""
REACHED = (
    "Mean squared error: the lowest of all epochs. Attention left: on states other than the last, just "
    "before the factor reaches 1, and in the last epoch. Points lost: validation accuracy with "
    "attention just before, minus that without attention in the next epoch. Divergence: in the first "
    "and the last epoch with λ > 0."
)
"""What `reached_table` shows."""
_NAMES: dict[str, Callable[[Any], str]] = {"variant": lambda name: VARIANTS[str(name)]}


def with_variant(runs: "DataFrame") -> "DataFrame":
    """Some runs with a column ``variant``, see `whenpool.runs.kinds.training.variant_of`; only those of this
    chapter's settings and variants, with the λ that is in use, in the order of `VARIANTS`."""
    if runs.empty:
        return runs.assign(variant=[], setting=[])
    columns = (column(runs, name) for name in ("pooling", "forget_bias", "orthogonal", "trick"))
    runs = runs.assign(variant=[variant_of(*values) for values in zip(*columns, strict=True)])
    directed = column(runs, "trick").eq("gradient_directed")
    strength, divergence = column(runs, "strength"), column(runs, "divergence")
    as_chosen = strength.eq(Training.strength) & divergence.eq(Training.divergence)
    shown = runs["variant"].isin(list(VARIANTS)) & runs["setting"].isin(SETTINGS)
    orders = {"variant": list(VARIANTS), "setting": list(SETTINGS)}
    return runs[shown & (as_chosen | ~directed)].sort_values(
        ["variant", "setting", "seed"],
        key=lambda values: values.map(orders[values.name].index) if values.name in orders else values,
        kind="stable",
    )


def finished(runs: "DataFrame") -> "DataFrame":
    """The runs that did not diverge."""
    return runs[~column(runs, "diverged").eq(True)]


def small_runs(stored: "DataFrame", size: int) -> "DataFrame":
    """Runs of the quick profile's model on whole IMDb, one training size: they indicate, and decide
    nothing."""
    return with_variant(_small(stored, size) if len(stored) else stored)


def _small(stored: "DataFrame", size: int) -> "DataFrame":
    chosen = of_learnability(stored) & ~of_record(as_plain(stored)) & (stored["size"] == size)
    return of_one_kind(stored[chosen])


def small_profiles(store: "Store", probes: "DataFrame", size: int) -> "DataFrame":
    """What the probe "gradients" measured on such models, before training and after it.

    Args:
        probes: rows of `Store.probes`.
    """
    return with_variant(store.measured_on(small_runs(probes, size), "gradients"))


def thesis_cells(stored: "DataFrame") -> "DataFrame":
    """The cells of Table 2.1, and MaxAtt's of Table 1.3 beside them, with ours and verdicts.

    The thesis gives Table 2.1 one number a cell: our interval is held against that number alone.
    """
    import pandas as pd

    accuracy = published("accuracy")
    best = accuracy[
        (accuracy["table"] == "1.3") & (accuracy["corpus"] == "imdb") & (accuracy["size"] == 10_000)
        & (accuracy["pooling"] == "max_attention") & accuracy["setting"].isin(SETTINGS)
    ]  # fmt: skip
    table = published("learnability").rename(columns={"method": "pooling", "accuracy": "mean"})
    cells = pd.concat([table.assign(length="long", std=np.nan), best], ignore_index=True)
    cells = cells.rename(columns={"pooling": "variant"})
    ours = with_variant(stored[stored["corpus"] == "imdb"] if len(stored) else stored)
    return beside(cells, [_judged(ours, row) for _, row in cells.iterrows()])


def thesis_table(stored: "DataFrame") -> CaptionedTable:
    """Table 2.1 with ours beside."""
    cells = thesis_cells(stored)
    shown = {key for keys in cells["keys"] for key in keys}
    runs = stored[stored["key"].isin(shown)] if shown else stored.head(0)
    cells = cells.assign(text=[_cell(row) for _, row in cells.iterrows()])
    frame = grid(cells, ["variant"], ["setting"], lambda row: row["text"], _NAMES)
    return CaptionedTable(
        frame,
        "Table 2.1 of the thesis, IMDb, 10K training texts: test accuracy in %.",
        "tab-thesis-2-1",
        provenance_line(runs, "the thesis alone; none of it has been run here"),
        LEGEND,
    )


def accuracy_table(runs: "DataFrame") -> "DataFrame":
    """Test accuracy of each variant (rows) in each setting (columns), mean ± deviation (seeds), with
    how many seeds diverged or ended guessing.

    Args:
        runs: from `with_variant`, one corpus and training size.
    """
    import pandas as pd

    if runs.empty:
        return pd.DataFrame({"": ["no such runs yet"]})
    cells = []
    for (variant, setting), rows in runs.groupby(["variant", "setting"], sort=False):
        cells.append({"variant": variant, "setting": setting, "text": _mean_and_failures(rows)})
    for setting, rows in runs.groupby("setting", sort=False):
        guess = f"{rows['majority_accuracy'].mean():.1f}"
        cells.append({"variant": MAJORITY, "setting": setting, "text": guess})
    heads = {"variant": lambda name: VARIANTS.get(str(name), str(name))}
    table = grid(pd.DataFrame(cells), ["variant"], ["setting"], lambda row: row["text"], heads)
    return table[["variant", *(s for s in SETTINGS if s in table)]]


def reached_table(runs: "DataFrame", histories: "DataFrame") -> "DataFrame":
    """What each trick came to, by setting: what its curriculum left, and what ending it cost.

    Args:
        runs: from `with_variant`.
        histories: rows of `Store.histories`.
    """
    import pandas as pd

    rows = []
    for (variant, setting), own in runs[runs["variant"].isin(TRICKS)].groupby(
        ["variant", "setting"], sort=False
    ):
        epochs = histories[histories["key"].isin(own["key"])]
        told = _told(str(variant), epochs)
        name = VARIANTS[str(variant)]
        rows.append({"": name, "setting": setting, "came to": told, "seeds": len(own)})
    return pd.DataFrame(rows or [{"": "no such runs yet"}])


def tried(stored: "DataFrame", size: int) -> "DataFrame":
    """Small gradient-directed runs of the first seed, whatever their λ and divergence.

    Args:
        stored: rows of `Store.trainings`.
    """
    runs = _small(stored, size) if len(stored) else stored
    return runs[(column(runs, "trick") == "gradient_directed") & (column(runs, "seed") == 0)]


def strength_table(runs: "DataFrame") -> "DataFrame":
    """Validation accuracy in each setting by divergence and λ of the first epoch.

    Args:
        runs: from `tried`.
    """
    import pandas as pd

    if runs.empty:
        return pd.DataFrame({"": ["no such runs yet"]})
    runs = runs.sort_values("setting", key=lambda names: names.map(SETTINGS.index))
    runs = runs.sort_values(["divergence", "strength"], kind="stable")
    lost = column(runs, "diverged").eq(True)
    texts = runs["validation_accuracy"].map("{:.1f}".format).mask(lost, "diverged")
    heads = {"strength": lambda value: f"{value:g}"}
    rows = ["divergence", "strength"]
    table = grid(runs.assign(text=texts), rows, ["setting"], lambda row: row["text"], heads)
    table = table[[*rows, *(setting for setting in SETTINGS if setting in table)]]
    return table.rename(columns={"strength": "λ of the first epoch"})


def cost_table(runs: "DataFrame", histories: "DataFrame") -> "DataFrame":
    """Seconds of an epoch relative to plain training's, the mean over epochs; by setting. Other starts
    are plain training as well. Of each epoch the least disturbed run counts, since other work on a
    machine makes times longer, never shorter.

    Args:
        runs: from `with_variant`, all computed on one machine.
        histories: rows of `Store.histories`.
    """
    import pandas as pd

    if runs.empty:
        return pd.DataFrame({"": ["no such runs yet"]})
    names = dict.fromkeys(("last", *STARTS), "Plain training, any start")
    names = {variant: names.get(variant, name) for variant, name in VARIANTS.items()}
    epochs = histories.merge(runs[["key", "variant", "setting"]], on="key")
    epochs = epochs.assign(variant=epochs["variant"].map(names))
    least = epochs.groupby(["setting", "variant", "epoch"])["seconds"].min()
    mean = least.groupby(["setting", "variant"]).mean()
    rows, plain = [], names["last"]
    for variant in dict.fromkeys(name for name in names.values() if name in set(epochs["variant"])):
        row = {"": variant}
        for setting in SETTINGS:
            both = (setting, variant) in mean and (setting, plain) in mean
            row[setting] = f"{mean[setting, variant] / mean[setting, plain]:.2f}" if both else ""
        rows.append(row)
    return pd.DataFrame(rows)


def is_guessing(runs: "DataFrame") -> "Series":
    """Which finished runs are no better than the largest class, within `GUESSING` points."""
    return runs["test_accuracy"] <= runs["majority_accuracy"] + GUESSING


def _judged(ours: "DataFrame", row: Any) -> Cell:
    keys = ("variant", "length", "setting", "size")
    own = ours
    for name in keys if len(ours) else ():
        own = own[own[name] == row[name]]
    return judge(as_plain(finished(own)) if len(own) else own, row.fillna({"std": 0.0}))


def _cell(row: Any) -> str:
    """A cell as `cell_text` writes it, but for the deviation that Table 2.1 does not give."""
    return cell_text(row).replace(f"{row['mean']:.1f} ± nan", f"{row['mean']:.1f}")


def _mean_and_failures(rows: "DataFrame") -> str:
    good = finished(rows)
    values = good["test_accuracy"]
    text = mean_text(Cell(values.mean(), values.std(ddof=1), len(good), "")) if len(good) else ""
    lost = len(rows) - len(good)
    notes = [f"{lost} diverged"] if lost else []
    guessing = int(is_guessing(good).sum())
    notes += [f"{guessing} guessing"] if guessing else []
    return "<br>".join(part for part in (text, ", ".join(notes)) if part)


def _told(variant: str, epochs: "DataFrame") -> str:
    if variant == "teacher_forcing":
        return _named("mean squared error", _spread(mean_squared_error(epochs)))
    if variant == "gradient_directed":
        known = epochs.dropna(subset=["divergence"]).sort_values("epoch").groupby("key")["divergence"]
        return f"divergence {known.first().mean():.2f} → {known.last().mean():.2f} nats"
    before, after = (_spread(f(epochs)) for f in (mass_before_the_end, mass_left))
    ended = cost_of_ending(epochs)
    lost = f"{ended.mean():+.1f}" if len(ended) else ""
    told = (_named("attention left", f"{before} → {after}"), _named("points lost", lost))
    return "<br>".join(part for part in told if part)


def _named(name: str, text: str) -> str:
    return f"{name} {text}" if text else ""


def _spread(found: "Series") -> str:
    values = found.dropna()
    if values.empty:
        return ""
    low, high = f"{values.min():.2g}", f"{values.max():.2g}"
    return low if low == high else f"{low} to {high}"
