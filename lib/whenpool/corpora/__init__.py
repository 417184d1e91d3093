"""Corpora: the four of the thesis, an embedded one, or a file of the user's own."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whenpool.corpora.corpus import Corpus, Split
    from whenpool.corpora.sources import NAMES, CorpusSource, find, load

__all__ = ["NAMES", "Corpus", "CorpusSource", "Split", "find", "load"]


def __getattr__(name: str) -> Any:
    """Who reads texts as numbers alone does not load what reads files."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from whenpool.corpora import corpus, sources

    return getattr(corpus if name in ("Corpus", "Split") else sources, name)
