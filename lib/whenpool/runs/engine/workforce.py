"""Who executes runs, and how."""

import os
import re
from dataclasses import dataclass, fields
from typing import Any

import torch

from whenpool.base.errors import InputError
from whenpool.models.precision import check_precision

ENGINES = ("local", "ray")


@dataclass(frozen=True)
class Workforce:
    """What executes runs. None of it changes what a run is; it stands in the provenance.

    Attributes:
        engine: "local", processes on this machine, or "ray", a cluster.
        address: of the Ray cluster; None: the one that this machine belongs to, or one made of this
            machine alone.
        workers: processes; None: one for each processor, or GPU; on a cluster all that it has room for.
        device: "cpu" or "cuda".
        together: models of one shape that a process trains as one batch of models, at most; None: 1.
        precision: a name in `whenpool.models.precision.PRECISIONS`.
        until: the `time.monotonic` at which everything stops; a run that is not expected to end before
            is not begun.
    """

    engine: str = "local"
    address: str | None = None
    workers: int | None = None
    device: str = "cpu"
    together: int | None = None
    precision: str = "float32"
    until: float | None = None

    @classmethod
    def default(cls) -> "Workforce":
        """The one that the environment names: ``WHENPOOL_ENGINE``, ``WHENPOOL_WORKERS`` and so on; for
        notebooks, which have no options. A deadline is of a command, and has no place here.

        Raises:
            InputError: for a variable that is not a whole number where one is needed.
        """
        given: dict[str, Any] = {}
        for field in fields(cls):
            variable = f"WHENPOOL_{field.name.upper()}"
            value: Any = os.environ.get(variable)
            if not value or field.name == "until":
                continue
            if field.name in ("workers", "together"):
                if not value.isdecimal() or int(value) < 1:
                    raise InputError(f"{variable} is a number, at least 1, not {value!r}")
                value = int(value)
            given[field.name] = value
        return cls(**given)

    def variables(self) -> dict[str, str]:
        """What `default` reads it from, for the processes that are started."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            f"WHENPOOL_{name.upper()}": str(value)
            for name, value in given.items()
            if value is not None and name != "until"
        }

    def check(self) -> None:
        """Raises `InputError` for an unknown engine, device or precision, or a GPU that is not here."""
        if self.engine not in ENGINES:
            raise InputError(f"engine {self.engine!r} is unknown; choose one of {', '.join(ENGINES)}")
        if self.address and self.engine != "ray":
            raise InputError("an address is of a Ray cluster: choose --engine ray as well")
        check_device(self.device, here=self.engine == "local")
        check_precision(self.precision)


def check_device(device: str, here: bool = True) -> None:
    """Raises `InputError` for an unknown device, or when CUDA is asked for, is needed ``here`` on this
    machine, and is not there."""
    if re.fullmatch(r"cuda(:\d+)?", device):
        if here and not torch.cuda.is_available():
            raise InputError("device cuda was asked for, but torch sees no GPU; use --device cpu")
    elif device != "cpu":
        raise InputError(f"device {device!r} is unknown; choose cpu or cuda")
