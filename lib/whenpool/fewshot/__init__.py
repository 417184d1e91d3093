"""Learning from few labelled texts: the six systems of Table 1.9 (thesis §1.10).

Max-attention on frozen embeddings of a pretrained encoder is the thesis's own; BERT, TMix, UDA and
MixText fine-tune such an encoder, each with another objective; VAMPIRE reads bags of words. What needs
the package `transformers` imports it when it is used.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "UDA": "semi_supervised",
    "EmbeddedTexts": "contextual",
    "FineTuned": "fine_tuning",
    "MixText": "semi_supervised",
    "Pretrained": "pretrained",
    "Selection": "selection",
    "TMix": "fine_tuning",
    "Unlabelled": "semi_supervised",
    "contextual_classifier": "contextual",
    "embed": "contextual",
    "load_encoder": "pretrained",
    "select": "selection",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"whenpool.fewshot.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'whenpool.fewshot' has no attribute {name!r}")
