"""Why and when should you pool? The models, probes and runs behind the book.

Names are imported at first use, so that what needs no torch starts fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whenpool.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
    from whenpool.corpora import Corpus, load
    from whenpool.encoder import Encoder
    from whenpool.errors import InputError
    from whenpool.models import TextClassifier
    from whenpool.pooling import (
        POOLINGS,
        Attention,
        LastAttention,
        LastState,
        MaxAttention,
        MaxPool,
        MeanPool,
        Pooling,
    )
    from whenpool.transformer import TransformerEncoder

__version__ = "0.1.0"

_HOMES = {
    "POOLINGS": "pooling",
    "Pooling": "pooling",
    "LastState": "pooling",
    "MeanPool": "pooling",
    "MaxPool": "pooling",
    "Attention": "pooling",
    "MaxAttention": "pooling",
    "LastAttention": "pooling",
    "Encoder": "encoder",
    "SequenceTagger": "sequence_tagger",
    "TextClassifier": "models",
    "TransformerEncoder": "transformer",
    "InputError": "errors",
    "Corpus": "corpora",
    "load": "corpora",
    "Checkpoint": "checkpoint",
    "load_checkpoint": "checkpoint",
    "save_checkpoint": "checkpoint",
}
_ROOMS = ("corpora", "probes", "settings", "words")

__all__ = [
    "POOLINGS",
    "Attention",
    "Checkpoint",
    "Corpus",
    "Encoder",
    "InputError",
    "LastAttention",
    "LastState",
    "MaxAttention",
    "MaxPool",
    "MeanPool",
    "Pooling",
    "SequenceTagger",
    "TextClassifier",
    "TransformerEncoder",
    "load",
    "load_checkpoint",
    "save_checkpoint",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"whenpool.{_HOMES[name]}"), name)
    if name in _ROOMS:
        return import_module(f"whenpool.{name}")
    raise AttributeError(f"module 'whenpool' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_ROOMS]
