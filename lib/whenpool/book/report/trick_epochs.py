"""What the epochs of a trick tell (thesis §2.2); each function takes rows of `Store.histories`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pandas import DataFrame, Series


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
