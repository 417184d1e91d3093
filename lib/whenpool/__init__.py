"""Why and when should you pool? The models, probes and runs behind the book."""

# Names are imported at first use, so that what needs no torch starts fast.

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from whenpool.base.errors import InputError
    from whenpool.corpora import Corpus, load
    from whenpool.explain.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
    from whenpool.explain.estimator import PoolingClassifier
    from whenpool.models.encoder import Encoder
    from whenpool.models.pooling import (
        POOLINGS,
        Attention,
        LastAttention,
        LastState,
        MaxAttention,
        MaxPool,
        MeanPool,
        Pooling,
    )
    from whenpool.models.sentence_pooling import SentencePooling
    from whenpool.models.sequence_tagger import SequenceTagger
    from whenpool.models.text_classifier import TextClassifier
    from whenpool.models.transformer import TransformerEncoder


_HOMES = {
    "models.pooling": (
        "POOLINGS Attention LastAttention LastState MaxAttention MaxPool MeanPool Pooling"
    ),
    "models.encoder": "Encoder",
    "models.sentence_pooling": "SentencePooling",
    "models.sequence_tagger": "SequenceTagger",
    "models.text_classifier": "TextClassifier",
    "models.transformer": "TransformerEncoder",
    "base.errors": "InputError",
    "corpora": "Corpus load",
    "explain.checkpoint": "Checkpoint load_checkpoint save_checkpoint",
    "explain.estimator": "PoolingClassifier",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}
_ROOMS = ("corpora", "probes", "settings", "words")
# others: "texts"
_EXTRAS = {"PoolingClassifier": "sklearn", "SentencePooling": "sentence_transformers"}
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
    "PoolingClassifier",
    "SentencePooling",
    "SequenceTagger",
    "TextClassifier",
    "TransformerEncoder",
    "__version__",
    "load",
    "load_checkpoint",
    "save_checkpoint",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF and name not in _ROOMS:
        raise AttributeError(f"module 'whenpool' has no attribute {name!r}")
    try:
        module = import_module(f"whenpool.{_HOME_OF.get(name, name)}")
    except ModuleNotFoundError as error:  # a package of an extra
        extra = _EXTRAS.get(name, "texts")
        raise ImportError(
            f"{name} needs {(error.name or name).partition('.')[0]}: pip install "
            f"'whenpool[{extra}]'"
        ) from None
    return getattr(module, name) if name in _HOME_OF else module


def __dir__() -> list[str]:
    return [*__all__, *_ROOMS]
