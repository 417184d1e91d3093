"""Learning from few labelled texts: the six systems of Table 1.9 (thesis §1.10).

Max-attention on frozen embeddings of a pretrained encoder is the thesis's own; BERT, TMix, UDA and
MixText fine-tune such an encoder, each with another objective; VAMPIRE reads bags of words. What needs
the package `transformers` imports it when it is used.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "contextual": ("EmbeddedTexts", "contextual_classifier", "embed"),
    "fine_tuning": ("FineTuned", "TMix"),
    "pretrained": ("Pretrained", "load_encoder"),
    "selection": ("Selection", "select"),
    "semi_supervised": ("UDA", "MixText", "Unlabelled"),
}
__all__ = [name for names in _HOMES.values() for name in names]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"whenpool.fewshot.{home}"), name)
    raise AttributeError(f"module 'whenpool.fewshot' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__  # what the reference page lists
