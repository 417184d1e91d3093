"""How the factor of a modification changes over the epochs, which are counted from 0."""

from whenpool.base.errors import InputError


def rising(epoch: int, epochs: int, power: float) -> float:
    """min(1, (epoch / m)^power), where m is half of the epochs (§2.2.5, §2.2.6).

    Of the thesis's 20 epochs the last ten are at 1, as it says, when they are counted from 0.

    Args:
        epoch: from 0 to ``epochs`` - 1.
        epochs: of the whole training.
        power: η; the higher, the slower the beginning.
    """
    _check(epoch, epochs)
    return min(1.0, (epoch / (epochs // 2)) ** power) if epochs > 1 else 1.0


def falling(epoch: int, epochs: int) -> float:
    """max(0, 1 - epoch / m), where m is half of the epochs: "reduced with time" (§2.2.7)."""
    _check(epoch, epochs)
    return max(0.0, 1 - epoch / max(1, epochs // 2))


def check_epochs(epochs: int) -> None:
    """Raises `InputError` for a training without epochs."""
    if epochs < 1:
        raise InputError(f"a training has at least one epoch, not {epochs}")


def _check(epoch: int, epochs: int) -> None:
    if not 0 <= epoch < epochs:
        raise InputError(f"epoch {epoch} is not one of {epochs}, counted from 0")
