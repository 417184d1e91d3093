"""Sequence labelling: tagged words from files, how tags mark entities, and scores of those found.

Examples:
    >>> from whenpool.corpora.tagged import convert
    >>> convert(["I-PER", "B-PER", "I-PER", "O"], "iob2")
    ['B-PER', 'B-PER', 'I-PER', 'O']
"""

from whenpool.corpora.tagged.entities import (
    Encoding,
    Entity,
    EntityScores,
    convert,
    encoding_of,
    entities,
    entity_scores,
)
from whenpool.corpora.tagged.sources import (
    SentenceGrammar,
    Tagged,
    TaggedCorpus,
    find_tagged,
    make_tagged,
    read_tagged,
)

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
