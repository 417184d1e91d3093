"""What the figures, tables and text of "Learnability tricks" show (thesis §2.2).

``stored`` are rows of `Store.rows`, ``probes`` of `Store.rows`, ``histories`` and ``epochs`` of
`Store.history`; ``runs`` come from `with_variant`, or from `tried`.
"""

import pandas as pd

from whenpool.book.report import accuracies
from whenpool.book.report.accuracies import (
    NOTHING_YET,
    Heads,
    beside_thesis,
    in_order,
    settings_of,
    spread,
)
from whenpool.book.report.figures import CHANCE_COLOUR, COLOURS, TRICK_COLOURS
from whenpool.book.report.tables import CaptionedTable, grid, judged
from whenpool.book.report.verdicts import (
    as_plain,
    column,
    of_learnability,
    of_one_kind,
    of_record,
    published,
)
from whenpool.runs.kinds.training import TRICKS, Training, variant_of
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
BEFORE = "before training"
_STARTS = {"forget 2": "#000000", "chrono": CHANCE_COLOUR, "orthogonal": CHANCE_COLOUR}
_DASHES = {"forget 2": (1, 1.5), "chrono": (1, 1.5), "orthogonal": (4, 1.5, 1, 1.5)}
PALETTE = {BEFORE: CHANCE_COLOUR} | {
    title: (COLOURS | TRICK_COLOURS | _STARTS)[name] for name, title in VARIANTS.items()
}
"""A colour for each variant, by what figures call it."""
DASHES = {BEFORE: (4, 1.5)} | {title: _DASHES.get(name, "") for name, title in VARIANTS.items()}
"""Other starts are dotted or dashed."""
GUESSING = 2.0
"""Points above the largest class up to which a model counts as guessing."""
REACHED = (
    "Mean squared error: the lowest of all epochs. Attention left: on states other than the last, just "
    "before the factor reaches 1, and in the last epoch. Points lost: validation accuracy with "
    "attention just before, minus that without attention in the next epoch. Divergence: in the first "
    "and the last epoch with λ > 0."
)
"""What `reached_table` shows."""
_HEADS: Heads = {"variant": lambda name: VARIANTS.get(name, name)}


def with_variant(runs: pd.DataFrame) -> pd.DataFrame:
    """Some runs with a column ``variant``, see `whenpool.runs.kinds.training.variant_of`; only those of this
    chapter's settings and variants, with the λ that is in use, in the order of `VARIANTS`."""
    if runs.empty:
        return runs.assign(variant=[], setting=[])
    columns = (column(runs, name) for name in ("pooling", "forget_bias", "orthogonal", "trick"))
    runs = runs.assign(variant=[variant_of(*values) for values in zip(*columns, strict=True)])
    as_chosen = column(runs, "strength").eq(Training.strength)
    as_chosen &= column(runs, "divergence").eq(Training.divergence)
    runs = runs[as_chosen | column(runs, "trick").ne("gradient_directed")]
    return in_order(runs.sort_values("seed", kind="stable"), variant=VARIANTS, setting=SETTINGS)


def finished(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs that did not diverge."""
    return runs[~column(runs, "diverged").eq(True)]


def is_guessing(runs: pd.DataFrame) -> pd.Series:
    """Which finished runs are no better than the largest class, within `GUESSING` points."""
    return runs["test_accuracy"] <= runs["majority_accuracy"] + GUESSING


def small_runs(stored: pd.DataFrame, size: int) -> pd.DataFrame:
    """Runs of the quick profile's model on whole IMDb, one training size: they indicate, and decide
    nothing."""
    return with_variant(_small(stored, size))


def tried(stored: pd.DataFrame, size: int) -> pd.DataFrame:
    """Such gradient-directed runs of the first seed, whatever their λ and divergence."""
    runs = _small(stored, size)
    return runs[(column(runs, "trick") == "gradient_directed") & (column(runs, "seed") == 0)]


def small_profiles(store: Store, probes: pd.DataFrame, size: int) -> pd.DataFrame:
    """What the probe "gradients" measured on such models, before training and after it."""
    return with_variant(store.measured_on(small_runs(probes, size), "gradients"))


def _small(stored: pd.DataFrame, size: int) -> pd.DataFrame:
    if stored.empty:
        return stored
    chosen = of_learnability(stored) & ~of_record(as_plain(stored)) & (stored["size"] == size)
    return of_one_kind(stored[chosen])


def named(rows: pd.DataFrame) -> pd.DataFrame:
    """Some rows with ``variant`` and ``setting`` as figures call and order them, those from before
    training as a variant of their own.

    Args:
        rows: of `Store.history` or of the probe "gradients", with both columns.
    """
    titles = rows["variant"].map(VARIANTS).mask(column(rows, "untrained").eq(True), BEFORE)
    drawn = rows.assign(
        variant=pd.Categorical(titles, list(PALETTE)),
        setting=pd.Categorical(rows["setting"], list(SETTINGS)),
    )
    for name in ("variant", "setting"):
        drawn[name] = drawn[name].cat.remove_unused_categories()
    return drawn


def ending(epochs: pd.DataFrame) -> pd.DataFrame:
    """The epochs of what attends in training and tells how much attention is left, see `named`."""
    attending = epochs["variant"].isin(["penalty_attention", "dropout_attention"])
    return named(epochs[column(epochs, "mass_left").notna() & attending])


def mean_squared_error(epochs: pd.DataFrame) -> pd.Series:
    """Of teacher forcing, the lowest of all epochs, by run."""
    return epochs.groupby("key")["train_loss"].min()


def mass_left(epochs: pd.DataFrame) -> pd.Series:
    """The attention on states other than the last in the last epoch, nothing dropped, by run."""
    return epochs.sort_values("epoch").groupby("key")["mass_left"].last()


def mass_before_the_end(epochs: pd.DataFrame) -> pd.Series:
    """The same in the last epoch before the factor reaches 1: while it was still of use, by run."""
    return mass_left(epochs[epochs["factor"] < 1])


def cost_of_ending(epochs: pd.DataFrame) -> pd.Series:
    """Validation accuracy with attention in the last epoch before the factor reaches 1, minus that
    without attention in the first epoch at 1: points lost when attention goes, by run."""
    ordered = epochs.sort_values("epoch")
    before = ordered[ordered["factor"] < 1].groupby("key")["attention_accuracy"].last()
    after = ordered[ordered["factor"] == 1].groupby("key")["validation_accuracy"].first()
    return (before - after).dropna()


def facts(runs: pd.DataFrame) -> dict[str, str]:
    """What the text says of some runs, for each setting: mean accuracies of the plain model, of the best
    trick and other start, with their names, of max-pooling and of max-attention; how many seeds diverged
    with gradient-directed training, and how many were guessing with it and plainly."""
    found = {}
    groups = {"plain": ["last"], "trick": TRICKS, "start": STARTS, "teacher": ["max"]}
    for setting in SETTINGS:
        own = runs[runs["setting"] == setting]
        means = finished(own).groupby("variant")["test_accuracy"].mean() if len(own) else pd.Series()
        for what, names in (groups | {"best": ["max_attention"]}).items():
            known = means[means.index.isin(list(names))]
            found[f"{setting}_{what}"] = f"{known.max():.1f}" if len(known) else "not run"
            found[f"{setting}_{what}_name"] = VARIANTS[known.idxmax()] if len(known) else "none"
        for what, name in {"plain": "last", "directed": "gradient_directed"}.items():
            seeds = own[own["variant"] == name]
            good = finished(seeds)
            guessing = int(is_guessing(good).sum()) if len(good) else 0
            found[f"{setting}_{what}_diverged"] = f"{len(seeds) - len(good)} of {len(seeds)}"
            found[f"{setting}_{what}_guessing"] = f"{guessing} of {len(seeds)}"
    return found


def thesis_cells(stored: pd.DataFrame) -> pd.DataFrame:
    """The cells of Table 2.1, and MaxAtt's of Table 1.3 beside them, with ours and verdicts.

    The thesis gives Table 2.1 one number a cell: our interval is held against that number alone.
    """
    best = published("accuracy").query(
        "table == '1.3' and corpus == 'imdb' and size == 10_000 and pooling == 'max_attention' "
        f"and setting in {SETTINGS}"
    )
    table = published("learnability").rename(columns={"method": "pooling", "accuracy": "mean"})
    cells = pd.concat([table.assign(length="long", std=float("nan")), best], ignore_index=True)
    if len(stored):
        stored = as_plain(finished(with_variant(stored)))
        stored = stored.assign(pooling=stored["variant"])
    found = judged(stored, cells.fillna({"std": 0.0}))
    return found.assign(std=cells["std"]).rename(columns={"pooling": "variant"})


def thesis_table(stored: pd.DataFrame) -> CaptionedTable:
    """Table 2.1 with ours beside."""
    return beside_thesis(
        thesis_cells(stored), stored, ["variant"], ["setting"],
        "Table 2.1 of the thesis, IMDb, 10K training texts: test accuracy in %.", "tab-thesis-2-1", _HEADS,
    )  # fmt: skip


def accuracy_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Test accuracy of each variant (rows) in each setting (columns), mean ± deviation (seeds), with
    how many seeds diverged or ended guessing."""
    return accuracies.accuracy_table(runs, ["variant"], heads=_HEADS, text=_mean_and_failures)


def _mean_and_failures(runs: pd.DataFrame) -> str:
    good = finished(runs)
    counts = {"diverged": len(runs) - len(good), "guessing": int(is_guessing(good).sum())}
    failed = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    mean = spread(good["test_accuracy"]) if len(good) else ""
    return "<br>".join(part for part in (mean, failed) if part)


def reached_table(runs: pd.DataFrame, histories: pd.DataFrame) -> pd.DataFrame:
    """What each trick came to, by setting: what its curriculum left, and what ending it cost."""
    tricks = runs[runs["variant"].isin(TRICKS)]
    if tricks.empty:
        return NOTHING_YET
    rows = []
    for (variant, setting), own in tricks.groupby(["variant", "setting"], sort=False):
        told = _reached(variant, histories[histories["key"].isin(own["key"])])
        rows.append({"": VARIANTS[variant], "setting": setting, "came to": told, "seeds": len(own)})
    return pd.DataFrame(rows)


def _reached(trick: str, epochs: pd.DataFrame) -> str:
    if trick == "gradient_directed":
        known = epochs.dropna(subset=["divergence"]).sort_values("epoch").groupby("key")["divergence"]
        return f"divergence {known.first().mean():.2f} → {known.last().mean():.2f} nats"
    if trick == "teacher_forcing":
        error = _range(mean_squared_error(epochs))
        return f"mean squared error {error}" if error else ""
    left = f"attention left {_range(mass_before_the_end(epochs))} → {_range(mass_left(epochs))}"
    lost = cost_of_ending(epochs)
    return f"{left}<br>points lost {lost.mean():+.1f}" if len(lost) else left


def _range(values: pd.Series) -> str:
    """The lowest to the highest of some numbers."""
    return " to ".join(dict.fromkeys(f"{end:.2g}" for end in (values.min(), values.max()) if end == end))


def strength_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Validation accuracy in each setting by divergence and λ of the first epoch."""
    if runs.empty:
        return NOTHING_YET
    accuracy = runs["validation_accuracy"].map("{:.1f}".format)
    texts = runs.assign(text=accuracy.mask(column(runs, "diverged").eq(True), "diverged"))
    texts = in_order(texts, setting=SETTINGS).sort_values(["divergence", "strength"], kind="stable")
    rows = ["divergence", "strength"]
    texts = texts.assign(strength=texts["strength"].map("{:g}".format))
    table = grid(texts, rows, ["setting"], lambda row: row["text"])
    return table[[*rows, *settings_of(texts)]].rename(columns={"strength": "λ of the first epoch"})


def cost_table(runs: pd.DataFrame, histories: pd.DataFrame) -> pd.DataFrame:
    """Seconds of an epoch relative to plain training's, the mean over epochs; by setting. Other starts
    are plain training as well. Of each epoch the least disturbed run counts, since other work on a
    machine makes times longer, never shorter."""
    if runs.empty:
        return NOTHING_YET
    plain = "Plain training, any start"
    names = VARIANTS | dict.fromkeys(("last", *STARTS), plain)
    epochs = histories.merge(runs[["key", "variant", "setting"]], on="key").replace({"variant": names})
    least = epochs.groupby(["variant", "setting", "epoch"])["seconds"].min()
    mean = least.groupby(["variant", "setting"]).mean().unstack().reindex(columns=list(SETTINGS))
    mean = mean.reindex([name for name in dict.fromkeys(names.values()) if name in mean.index])
    relative = mean / mean.reindex([plain]).iloc[0]
    texts = relative.map(lambda ratio: f"{ratio:.2f}" if ratio == ratio else "")
    return texts.rename_axis(index="", columns=None).reset_index()
