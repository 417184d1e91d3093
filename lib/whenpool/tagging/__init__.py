"""Sequence labelling: tagged words from files, how tags mark entities, and how well they are found.

Examples:
    >>> from whenpool.tagging import convert
    >>> convert(["I-PER", "B-PER", "I-PER", "O"], "iob2")
    ['B-PER', 'B-PER', 'I-PER', 'O']
"""

from whenpool.tagging.encodings import Encoding, Entity, convert, encoding_of, entities
from whenpool.tagging.generated import SentenceGrammar, make_tagged
from whenpool.tagging.reading import read_tagged
from whenpool.tagging.scoring import EntityScores, entity_scores
from whenpool.tagging.sentences import Tagged, TaggedCorpus
from whenpool.tagging.sources import find_tagged

__all__ = [
    "Encoding",
    "Entity",
    "EntityScores",
    "SentenceGrammar",
    "Tagged",
    "TaggedCorpus",
    "convert",
    "encoding_of",
    "entities",
    "entity_scores",
    "find_tagged",
    "make_tagged",
    "read_tagged",
]
