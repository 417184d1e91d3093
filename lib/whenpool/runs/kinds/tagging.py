"""One training of a sequence tagger and the test of its best epoch: what it is, and how it is executed."""

import time
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from os.path import isfile
from pathlib import Path
from typing import Any, ClassVar

import safetensors.torch
import torch
from torch import Tensor

from whenpool.base.files import lines_of
from whenpool.corpora import tagged
from whenpool.corpora.batches import PADDING_INDEX
from whenpool.corpora.tagged import NumberedCorpus, number
from whenpool.models.sequence_tagger import SequenceTagger
from whenpool.probes import gradient_profile, tagging_gradient_norms
from whenpool.runs.kinds.training import loaded, scores_of, vectors_of
from whenpool.runs.run import Place, Run, provenance
from whenpool.training.loop import Recipe, train
from whenpool.training.taggers import Labelled, TaggingObjective, label

TAGGING_PROTOCOL = 1  # Raised by hand when the meaning of a tagging result changes


@dataclass(frozen=True)
class Tagging(Run):
    """One tagger trained on the sentences of a corpus."""

    kind, table, protocol = "tagging", "taggings", TAGGING_PROTOCOL
    results = """test_accuracy test_loss validation_accuracy best_epoch majority_accuracy
        lexicon_accuracy classes train_texts validation_texts test_texts test_words vocabulary
        parameters train_words unseen_words later_words unseen_accuracy later_accuracy entity_precision
        entity_recall entity_f1 entities entities_true entities_predicted entities_right entities_boundary
        entities_mistyped entities_spurious entities_missed gradient_evenness gradient_reach"""
    histories: ClassVar = {
        "history": "epoch",
        "gradients": "position stage mean single",
        "types": "type type_f1",
    }
    points = """epoch train_loss train_accuracy validation_loss validation_accuracy seconds factor
        position mean single validation_entity_precision validation_entity_recall validation_entity_f1
        type_f1"""
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
        return float(self.epochs * _words_of(self.corpus))

    @property
    def network(self) -> Hashable:
        return self.cell, self.layers, self.bidirectional, self.hidden_size

    def execute(self, place: Place, device: str = "cpu", keep_weights: bool = False) -> str:
        started = time.perf_counter()
        identity = self.identity(place)
        corpus = corpus_of(self, place)
        numbered, model = prepare_tagger(self, corpus, place)

        def judge(labelled: Labelled) -> dict[str, float]:
            return _rates(_entities(corpus.validation, labelled, numbered.tags), "validation_")

        with torch.random.fork_rng(devices=[] if device == "cpu" else [device]):
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
            "corpus_notes": " ".join(notes_of(self, place)), "seconds": time.perf_counter() - started,
        }  # fmt: skip
        result |= {**_baselines(corpus), **_parts(numbered, labelled), **_shape_of(profile)}
        rows = [*outcome.history_rows(), *profile]
        if corpus.entities:
            scores = _entities(corpus.test, labelled, numbered.tags)
            counts = {f"entities_{name}": getattr(scores, name) for name in tagged.COUNTED}
            result |= _rates(scores) | counts
            rows += [{"type": name, "type_f1": f1} for name, f1 in scores.by_type.items()]
        weights = safetensors.torch.save(outcome.weights) if keep_weights else None
        made = provenance(device)
        return place.store.put(identity, self.row(), result, made, rows, weights, self.kind)

    @classmethod
    def read_ahead(cls, runs: Sequence["Tagging"], place: Place, device: str) -> Iterable[str]:
        super().read_ahead(runs, place, device)
        return [note for run in runs for note in notes_of(run, place)]

    def identity(self, place: Place) -> dict[str, Any]:
        source = tagged.find_tagged(self.corpus, place.data)
        return self.identified(place, source.label, corpus=source.fingerprint())

    def __str__(self) -> str:
        direction = "bidirectional" if self.bidirectional else "left to right"
        encoding = f" {self.encoding}" if self.encoding else ""
        return f"{self.corpus} tagging {self.cell} {direction}{encoding} seed {self.seed}"


@cache
def _words_of(corpus: str) -> int:
    """About how many words a tagger is trained on; a file has one on each line."""
    name = corpus.partition(":")[0]
    if isfile(name):
        return sum(bool(line.strip()) for line in lines_of(Path(name)))
    return {"ud_ewt": 204_577, "wnut17": 62_730}.get(name, 15_000)


PLACES = 21  # Where gradients are read, from the first word of a sentence to its last


def prepare_tagger(
    run: Tagging, corpus: tagged.TaggedCorpus, place: Place
) -> tuple[NumberedCorpus, SequenceTagger]:
    """The corpus as numbers, its tags encoded as the run says, and the tagger before training."""
    encoded = _encoded(corpus, run.encoding)
    numbered = number(encoded, run.features, vectors_of(run, place), run.seed, run.filters > 0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        model = SequenceTagger(
            numbered.sizes[0], len(numbered.tags), run.cell, run.embedding_size, run.hidden_size,
            run.layers, run.bidirectional, padding_index=PADDING_INDEX, features=numbered.sizes[1:],
            feature_size=run.feature_size, spelling=numbered.spelling, filters=run.filters or 1,
            dropout=run.dropout, vectors=numbered.vectors,
        )  # fmt: skip
    return numbered, model


def corpus_of(run: Tagging, place: Place) -> tagged.TaggedCorpus:
    source = tagged.find_tagged(run.corpus, place.data)
    return loaded(source, source.fingerprint())


def notes_of(run: Tagging, place: Place) -> tuple[str, ...]:
    """Sentences on a run's corpus, also on test words whose tag the tagger cannot say."""
    corpus = corpus_of(run, place)
    encoded = _encoded(corpus, run.encoding)
    known = set(encoded.tags)
    count = sum(tag not in known for sentence in encoded.test for tag in sentence.tags)
    unknown = f"{count:,} test words have a tag that no training word has; they count as errors."
    return (*corpus.notes, unknown) if count else corpus.notes


def _encoded(corpus: tagged.TaggedCorpus, encoding: str | None) -> tagged.TaggedCorpus:
    if encoding is None:
        return corpus
    splits: dict[str, Any] = {
        name: [replace(s, tags=tuple(tagged.in_io(s.tags))) for s in part]
        for name, part in corpus.splits.items()
    }
    return replace(corpus, **splits)


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
    rows = [row for row in profile if row["stage"] == "before training"]
    every, single = ([row[name] for row in rows] for name in ("mean", "single"))
    reach = (single[0] + single[-1]) / 2 / single[PLACES // 2]
    return {"gradient_evenness": min(every) / max(every), "gradient_reach": reach}
