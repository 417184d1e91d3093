"""Corpora: the four of the thesis, an embedded one, or a file of the user's own."""

from whenpool.corpora.corpus import Corpus, Split
from whenpool.corpora.sources import NAMES, CorpusSource, find, load

__all__ = ["NAMES", "Corpus", "CorpusSource", "Split", "find", "load"]
