"""Learning from few labelled texts: the six systems of Table 1.9 (thesis §1.10).

Max-attention on frozen embeddings of a pretrained encoder is the thesis's own; BERT, TMix, UDA and
MixText fine-tune such an encoder, each with another objective; VAMPIRE reads bags of words. What needs
the package `transformers` imports it when it is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whenpool.fewshot.contextual import EmbeddedTexts, contextual_classifier, embed
    from whenpool.fewshot.fine_tuning import FineTuned, TMix
    from whenpool.fewshot.pretrained import Pretrained, load_encoder
    from whenpool.fewshot.selection import Selection, select
    from whenpool.fewshot.semi_supervised import UDA, MixText, Unlabelled

_HOMES = {
    "EmbeddedTexts": "contextual",
    "contextual_classifier": "contextual",
    "embed": "contextual",
    "FineTuned": "fine_tuning",
    "MixText": "semi_supervised",
    "Pretrained": "pretrained",
    "load_encoder": "pretrained",
    "Selection": "selection",
    "select": "selection",
    "TMix": "fine_tuning",
    "UDA": "semi_supervised",
    "Unlabelled": "semi_supervised",
}

__all__ = [
    "UDA",
    "EmbeddedTexts",
    "FineTuned",
    "MixText",
    "Pretrained",
    "Selection",
    "TMix",
    "Unlabelled",
    "contextual_classifier",
    "embed",
    "load_encoder",
    "select",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"whenpool.fewshot.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'whenpool.fewshot' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
