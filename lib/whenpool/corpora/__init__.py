"""Corpora: the four of the thesis, an embedded one, or a file of the user's own."""

from whenpool.corpora.corpus import Corpus, Example, Split
from whenpool.corpora.sources import NAMES, CorpusSource, find, load

__all__ = ["NAMES", "Corpus", "CorpusSource", "Example", "Split", "find", "load"]
