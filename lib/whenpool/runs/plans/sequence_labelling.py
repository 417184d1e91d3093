"""Which tagging runs the chapter on sequence labelling draws from."""

from collections.abc import Iterable
from typing import Any

from whenpool.corpora.tagged.sources import GENERATED, PUBLISHED, find_tagged, is_tagged
from whenpool.runs.kinds.tagging import Tagging
from whenpool.runs.request import Choice
from whenpool.runs.run import VECTORS, Place, find_vectors

Settings = dict[str, Any]

EMBEDDED: Settings = {
    "embedding_size": 32, "hidden_size": 32, "feature_size": 8, "dropout": 0.1, "epochs": 5,
    "learning_rate": 5e-3,
}  # fmt: skip
"""On the embedded corpus: seconds a run."""
SMALL: dict[str, Settings] = {"ud_ewt": {"epochs": 8}, "wnut17": {"epochs": 16, "batch_size": 16}}
"""On published corpora: a minute or two a run on a processor."""
LARGE: Settings = {"hidden_size": 256, "layers": 2, "epochs": 20}
"""The profile "paper": the same, larger."""
SMOKE: Settings = {
    "embedding_size": 8, "hidden_size": 8, "feature_size": 4, "epochs": 1, "profiled": 8,
    "vectors": None,
}  # fmt: skip
FEW = "train=40,validation=20,test=20"

DIRECTIONS: tuple[Settings, ...] = ({}, {"bidirectional": False})
IN_IO: Settings = {"encoding": "io"}
VARIANTS: dict[str, tuple[Settings, ...]] = {
    GENERATED: (*DIRECTIONS, *({"cell": "elman"} | one for one in DIRECTIONS), IN_IO),
    "wnut17": (*DIRECTIONS, IN_IO),
}
"""What is compared on a corpus; on any other both directions against one."""


def taggings(choice: Choice, place: Place) -> Iterable[Tagging]:
    """Both directions against one, other cells, and encodings of entities.

    Corpora of labelled texts, which other chapters are asked for at the same time, have no tags: they
    leave this chapter its own.

    Raises:
        InputError: for a corpus that is unknown.
    """
    paper, smoke = choice.profile == "paper", choice.profile == "smoke"
    asked = tuple(name for name in choice.corpora or () if is_tagged(name))
    if not asked and paper and choice.corpora is None:
        asked = tuple(PUBLISHED)
    seeds = choice.seeds or (1 if smoke else 3 if asked else 2)
    for corpus in asked or (GENERATED, f"{GENERATED}:task=pos"):
        name, _, options = corpus.partition(":")
        if smoke and name == GENERATED and "train=" not in corpus:
            corpus = f"{corpus},{FEW}" if options else f"{corpus}:{FEW}"
        variants = DIRECTIONS if "task=pos" in options else VARIANTS.get(name, DIRECTIONS)
        if name not in (GENERATED, *PUBLISHED):
            find_tagged(corpus, place.data)  # raises for what is no file
        for seed in range(seeds):
            for variant in variants:
                given = _settings(name, choice, place) | variant
                yield Tagging(corpus, seed=seed, **(given | SMOKE if smoke else given))


def _settings(name: str, choice: Choice, place: Place) -> Settings:
    if name == GENERATED:
        return EMBEDDED
    vectors = find_vectors(place)
    if name not in PUBLISHED:
        return {"vectors": vectors}
    large = LARGE if choice.profile == "paper" else {}
    return SMALL[name] | large | {"vectors": vectors or VECTORS[0]}
