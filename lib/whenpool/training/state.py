"""A training after an epoch: all that it goes on from, bit for bit as if it had not been stopped."""

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class State:
    """Numbers in tensors, and others that JSON can hold."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]

    def as_bytes(self) -> bytes:
        """In the format of safetensors."""
        return safetensors.torch.save(self.tensors, {"facts": json.dumps(self.facts)})

    @classmethod
    def read(cls, file: Path) -> "State":
        """From a file of `as_bytes`."""
        with safetensors.safe_open(file, "pt") as opened:
            tensors = {name: opened.get_tensor(name).clone() for name in opened.keys()}  # noqa: SIM118
            return cls(tensors, json.loads(opened.metadata()["facts"]))

    @classmethod
    def of(
        cls,
        model: nn.Module,
        best: dict[str, Tensor],
        optimizer: torch.optim.Optimizer,
        order: torch.Generator,
        device: str,
        facts: dict[str, Any],
    ) -> "State":
        """Of a model, its best weights so far, and what the next steps depend on besides: the optimiser, the
        order of texts, and the generators that dropouts draw from."""
        tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
        tensors |= {f"best.{name}": value for name, value in best.items()}
        for number, own in optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer.{number}.{name}": value for name, value in own.items()}
        tensors |= {"order": order.get_state(), "random": torch.get_rng_state()}
        if device.startswith("cuda"):
            tensors["random_on_gpu"] = torch.cuda.get_rng_state(device)
        return cls(tensors, facts)

    def restore(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, order: torch.Generator, device: str
    ) -> dict[str, Tensor]:
        """Bring a new training to where the saved one was; returns the best weights so far."""
        model.load_state_dict(self._part("model"))
        state: dict[int, dict[str, Tensor]] = defaultdict(dict)
        for name, value in self._part("optimizer").items():
            number, _, own = name.partition(".")
            state[int(number)][own] = value
        optimizer.load_state_dict(optimizer.state_dict() | {"state": dict(state)})
        order.set_state(self.tensors["order"])
        torch.set_rng_state(self.tensors["random"])
        if device.startswith("cuda"):
            torch.cuda.set_rng_state(self.tensors["random_on_gpu"], device)
        return self._part("best")

    def _part(self, name: str) -> dict[str, Tensor]:
        names = (key for key in self.tensors if key.startswith(f"{name}."))
        return {key.removeprefix(f"{name}."): self.tensors[key] for key in names}


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """A copy on the processor."""
    return {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}
