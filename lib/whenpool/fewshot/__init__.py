"""Learning from few labelled texts: the six systems of Table 1.9 (thesis §1.10).

Max-attention on frozen embeddings of a pretrained encoder is the thesis's own; BERT, TMix, UDA and
MixText fine-tune such an encoder, each with another objective; VAMPIRE reads bags of words. What needs
the package `transformers` imports it when it is used.
"""

# Names are imported at first use, so that a chapter reads no more of the library than it needs.

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whenpool.fewshot.fine_tuning import FineTuned
    from whenpool.fewshot.pretrained import contextual_classifier, embed, load_encoder
    from whenpool.fewshot.selection import select

__all__ = ["FineTuned", "contextual_classifier", "embed", "load_encoder", "select"]
_HOMES = {"FineTuned": "fine_tuning", "select": "selection"}  # others: "pretrained"


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(f"whenpool.fewshot.{_HOMES.get(name, 'pretrained')}"), name)
    raise AttributeError(f"module 'whenpool.fewshot' has no attribute {name!r}")
