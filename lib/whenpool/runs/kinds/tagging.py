"""One training of a sequence tagger and the test of its best epoch: what it is, and how it is executed."""

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from whenpool.corpora import tagged
from whenpool.corpora.batches import PADDING_INDEX
from whenpool.corpora.tagged import NumberedCorpus, number
from whenpool.models.sequence_tagger import SequenceTagger
from whenpool.probes import gradient_profile, tagging_gradient_norms
from whenpool.runs.kinds.training import loaded, scores_of
from whenpool.runs.run import Place, Run, provenance
from whenpool.training.loop import Recipe, train
from whenpool.training.taggers import Labelled, TaggingObjective, label

TAGGING_PROTOCOL = 1  # Raised by hand when the meaning of a tagging result changes


@dataclass(frozen=True)
class Tagging(Run):
    """One tagger trained on the sentences of a corpus."""

    kind, table, protocol = "tagging", "taggings", TAGGING_PROTOCOL
    histories: ClassVar = {"history": "epoch", "gradients": "position", "types": "type"}
    order = ("corpus", "cell", "seed", "key")

    corpus: str  # a name for `whenpool.corpora.tagged.find_tagged`
    seed: int = 0  # of initialisation, dropout and the order of batches
    cell: str = "lstm"  # a name in `whenpool.models.cells.CELLS`
    bidirectional: bool = True
    layers: int = 1
    embedding_size: int = 100  # of a word
    hidden_size: int = 128  # per direction
    features: bool = True  # whether the tagger sees suffix and shape of a word besides
    feature_size: int = 25  # of each
    filters: int = 0  # of a convolution over the letters of a word; 0: none
    encoding: str | None = None  # "io" to train in; None: the file's own
    vectors: str | None = None  # name of a file of word vectors, or None: random ones
    dropout: float = 0.3  # of inputs and states
    unknown_rate: float = 0.5  # how often a word that occurs once in training is read as unknown
    epochs: int = 8
    batch_size: int = 32  # sentences
    learning_rate: float = 2e-3  # Adam's
    profiled: int = 100  # validation sentences whose gradients are measured, the longest

    @property
    def cost(self) -> float:
        words = {"ud_ewt": 204_577.0, "wnut17": 62_730.0}  # and of a generated corpus, or a usual file:
        return self.epochs * words.get(self.corpus, 15_000.0)

    def execute(self, place: Place, device: str = "cpu", keep_weights: bool = False) -> str:
        started = time.perf_counter()
        self.identity(place)  # raises for what is not here before any work is done
        source = tagged.find_tagged(self.corpus, place.data)
        corpus = encoded = loaded(source, source.fingerprint())
        if self.encoding == "io":
            splits = corpus.splits.items()
            encoded = replace(corpus, **{name: [*map(_in_io, part)] for name, part in splits})
        numbered = number(
            encoded, self.features, place.vectors(self.vectors), self.seed, self.filters > 0
        )

        def judge(labelled: Labelled) -> dict[str, float]:
            return _rates(_entities(corpus.validation, labelled, numbered.tags), "validation_")

        with torch.random.fork_rng(devices=[] if device == "cpu" else [device]):
            torch.manual_seed(self.seed)
            model = SequenceTagger(
                numbered.sizes[0], len(numbered.tags), self.cell, self.embedding_size,
                self.hidden_size, self.layers, self.bidirectional, padding_index=PADDING_INDEX,
                features=numbered.sizes[1:], feature_size=self.feature_size, spelling=numbered.spelling,
                filters=self.filters or 1, dropout=self.dropout, vectors=numbered.vectors,
            )  # fmt: skip
            torch.manual_seed(self.seed)
            profile = _profile(model, numbered, self, "before training")
            judged = (judge,) if corpus.entities else ()
            outcome = train(
                model, numbered, Recipe(self.epochs, self.batch_size, self.learning_rate), self.seed,
                device, objective=TaggingObjective(numbered.rare.to(device), self.unknown_rate, *judged),
            )  # fmt: skip
        model.cpu()
        profile += _profile(model, numbered, self, "after training")
        labelled = label(model, numbered.test)
        result: dict[str, Any] = {
            **scores_of(outcome), "classes": len(numbered.tags), "corpus_complete": corpus.complete,
            "entities": corpus.entities, "train_texts": len(corpus.train),
            "validation_texts": len(corpus.validation), "test_texts": len(corpus.test),
            "test_words": len(numbered.test.labels), "vocabulary": numbered.sizes[0],
            "parameters": sum(p.numel() for p in model.parameters()), "train_words": outcome.words,
            "corpus_notes": " ".join(corpus.notes), "seconds": time.perf_counter() - started,
        }  # fmt: skip
        result |= {**_baselines(corpus), **_parts(numbered, labelled), **_shape_of(profile)}
        rows = [*outcome.history_rows(), *profile]
        if corpus.entities:
            scores = _entities(corpus.test, labelled, numbered.tags)
            counts = {f"entities_{name}": getattr(scores, name) for name in tagged.COUNTED}
            result |= _rates(scores) | counts
            rows += [{"type": name, "type_f1": f1} for name, f1 in scores.by_type.items()]
        weights = outcome.weights if keep_weights else None
        return self.put(place, result, provenance(device), rows, weights)

    def identity(self, place: Place) -> dict[str, Any]:
        source = tagged.find_tagged(self.corpus, place.data)
        return self.identified(place, source.label, corpus=source.fingerprint())


PLACES = 21  # Where gradients are read, from the first word of a sentence to its last


def _in_io(sentence: tagged.Tagged) -> tagged.Tagged:
    return replace(sentence, tags=tuple(tagged.in_io(sentence.tags)))


def _entities(
    sentences: Sequence[tagged.Tagged], labelled: Labelled, tags: Sequence[str]
) -> tagged.EntityScores:
    """How well the entities of the file are found, whatever the tagger's encoding."""
    names = iter([tags[place] for place in labelled.tags.tolist()])
    answers = [[next(names) for _ in sentence.words] for sentence in sentences]
    return tagged.entity_scores([s.tags for s in sentences], answers)


def _rates(scores: tagged.EntityScores, prefix: str = "") -> dict[str, float]:
    return {f"{prefix}entity_{name}": getattr(scores, name) for name in ("precision", "recall", "f1")}


def _baselines(corpus: tagged.TaggedCorpus) -> dict[str, float]:
    """Accuracy in % of the most frequent tag, and of that which each word most often has in training."""
    usual = Counter(tag for sentence in corpus.train for tag in sentence.tags).most_common(1)[0][0]
    of_word: dict[str, Counter[str]] = defaultdict(Counter)
    for sentence in corpus.train:
        for word, tag in sentence:
            of_word[word.lower()][tag] += 1
    best = {word: counts.most_common(1)[0][0] for word, counts in of_word.items()}
    pairs = [(word, tag) for sentence in corpus.test for word, tag in sentence]
    right = {"majority": [tag == usual for _, tag in pairs]}
    right["lexicon"] = [tag == best.get(word.lower(), usual) for word, tag in pairs]
    return {f"{name}_accuracy": 100 * sum(hits) / len(pairs) for name, hits in right.items()}


def _parts(numbered: NumberedCorpus, labelled: Labelled) -> dict[str, float | None]:
    """Accuracy in % on the words that training has not, and on those that a later word decides."""
    right = labelled.tags == numbered.test.labels
    unseen = ~numbered.seen[numbered.test.ids.flat[:, 0].long()]
    parts = {"unseen": unseen, "later": numbered.later}
    counts = {f"{name}_words": int(part.sum()) for name, part in parts.items()}
    return counts | {
        f"{name}_accuracy": 100 * float(right[part].float().mean()) if part.any() else None
        for name, part in parts.items()
    }


def _profile(
    model: SequenceTagger, numbered: NumberedCorpus, run: Tagging, stage: str
) -> list[dict[str, Any]]:
    """Gradients along the longest validation sentences of ten words or more, at `PLACES` places from the
    first to the last word: of the sum of all words' losses, and of the loss of the word in the middle."""
    lengths = numbered.validation.ids.lengths
    longest = torch.argsort(lengths, descending=True, stable=True)[: run.profiled]
    longest = longest[lengths[longest] >= 10]
    if not len(longest):
        return []
    batch = numbered.validation.batch(longest, PADDING_INDEX)

    def mean(word: Tensor | None) -> list[float]:
        norms = tagging_gradient_norms(model, batch.ids, batch.lengths, batch.labels, word)
        return gradient_profile(norms, batch.lengths, PLACES).mean(0).tolist()

    values = enumerate(zip(mean(None), mean(batch.lengths // 2), strict=True))
    return [{"stage": stage, "position": place, "mean": v, "single": w} for place, (v, w) in values]


def _shape_of(profile: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Before training: the lowest gradient of all words' losses over the highest, and that of one
    word's loss at the ends of the sentence over that at the word."""
    if not profile:
        return {}
    every, single = ([row[name] for row in profile[:PLACES]] for name in ("mean", "single"))
    reach = (single[0] + single[-1]) / 2 / single[PLACES // 2]
    return {"gradient_evenness": min(every) / max(every), "gradient_reach": reach}
