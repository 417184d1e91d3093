"""One training of a sequence tagger and the test of its best epoch: what it is, and how it is
executed.

Letters: B sentences, T words of the longest, F numbers of a word, W words of all sentences, C tags.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, count
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from paper.corpora.tagged import Tagged, TaggedCorpus, entity_scores, find_tagged, in_io
from paper.runs.kinds.training import scores_of
from paper.runs.run import Facts, Place, Run, provenance
from whenpool.base.devices import seeded
from whenpool.corpora.batches import (
    PADDING,
    PADDING_INDEX,
    UNKNOWN_INDEX,
    Batch,
    Ragged,
    Splits,
    Texts,
)
from whenpool.corpora.tokens import WordVectors, build_vocabulary, start_from
from whenpool.models.sequence_tagger import SequenceTagger, tagging_loss
from whenpool.probes import gradient_profile, tagging_gradient_norms
from whenpool.training import loop

TAGGING_PROTOCOL = 1  # Raised by hand when the meaning of a tagging result changes
SHAPE = "cell embedding_size hidden_size layers bidirectional feature_size filters dropout"
PLACES = 21  # Where gradients are read, from the first word of a sentence to its last
UNKNOWN_RATE = 0.5  # How often a word that occurs once in training is read as unknown
NO_TAG = -100  # Where no word is, or a tag that no training word has


@dataclass(frozen=True)
class Tagging(Run):
    """One tagger trained on the sentences of a corpus."""

    kind, table, protocol = "tagging", "taggings", TAGGING_PROTOCOL
    histories: ClassVar = {"history": "epoch", "gradients": "position"}
    order = ("corpus", "cell", "seed", "key")

    corpus: str  # a name for `paper.corpora.tagged.find_tagged`
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
    epochs: int = 8
    batch_size: int = 32  # sentences
    learning_rate: float = 2e-3  # Adam's
    profiled: int = 100  # validation sentences whose gradients are measured, the longest

    @property
    def cost(self) -> float:
        words = {"ud_ewt": 204_577.0, "wnut17": 62_730.0}
        return self.epochs * words.get(self.corpus, 15_000.0)  # as a generated corpus, or a file

    def identity(self, place: Place) -> Facts:
        corpus = find_tagged(self.corpus, place.data)
        return self.identified(place, corpus.label, corpus=corpus.fingerprint)

    def execute(self, place: Place, device: str = "cpu", keep_weights: bool = False) -> str:
        started = time.perf_counter()
        self.identity(place)  # raises for what is not here before any work is done
        corpus = find_tagged(self.corpus, place.data)
        data = number(corpus, self, place.vectors(self.vectors))
        with seeded(self.seed, device):
            model = SequenceTagger(**self.values(SHAPE), **data.shape, padding_index=PADDING_INDEX)
            # again, so that dropout does not depend on how many weights were drawn
            torch.manual_seed(self.seed)
            before = _profile(model, data.splits.validation, self, "before training")
            objective = TaggingObjective(data, corpus, device)
            recipe = loop.Recipe(self.epochs, self.batch_size, self.learning_rate)
            outcome = loop.train(model, data.splits, recipe, self.seed, device, objective=objective)
        model.cpu()
        profile = before + _profile(model, data.splits.validation, self, "after training")
        test = data.splits.test  # which was tagged last
        unseen = data.frequency[test.ids.flat[:, 0].long()] == 0
        right = (objective.tags == test.labels)[unseen]
        result: Facts = {
            **scores_of(outcome),
            "classes": len(data.tags),
            "corpus_complete": corpus.complete,
            "entities": corpus.has_entities,
            **{f"{split}_texts": len(sentences) for split, sentences in corpus.splits.items()},
            "test_words": len(test.labels),
            "vocabulary": len(data.frequency),
            "parameters": sum(p.numel() for p in model.parameters()),
            "train_words": outcome.words,
            "corpus_notes": " ".join(corpus.notes),
            "seconds": time.perf_counter() - started,
            "unseen_words": int(unseen.sum()),
            **_baselines(corpus),
            "unseen_accuracy": 100 * float(right.float().mean()) if len(right) else None,
        }
        if before:
            # the lowest gradient of all words' losses over the highest, and how far one reaches
            every, single = ([row[name] for row in before] for name in ("mean", "single"))
            result["gradient_evenness"] = min(every) / max(every)
            result["gradient_reach"] = (single[0] + single[-1]) / 2 / single[PLACES // 2]
        rows = [*outcome.history_rows(), *profile]
        if corpus.has_entities:
            result |= objective.entity_scores(corpus.test)
        weights = outcome.weights if keep_weights else None
        return self.put(place, result, provenance(device), rows, weights)


@dataclass(frozen=True)
class NumberedSentences(Texts):
    """Sentences: of each word F numbers, (W, F) int32, and as labels the tags (W,) int64 or
    `NO_TAG`."""

    def batch(self, indices: Tensor, padding_index: int) -> Batch:
        """Sentences (B,) as ids (B, T, F), lengths (B,), and tags (B, T), `NO_TAG` after each
        end."""
        places, is_word, lengths, _ = self.ids.places(indices)
        ids = self.ids.flat[places].long().masked_fill(~is_word.unsqueeze(-1), padding_index)
        return Batch(ids, lengths, self.labels[places].masked_fill(~is_word, NO_TAG))


class Numbered(NamedTuple):
    """A corpus as numbers, see `number`."""

    splits: Splits  # of `NumberedSentences`
    tags: list[str]  # names, in the order of their numbers
    frequency: Tensor  # (words,), how often each stands in the training sentences
    shape: Facts  # what a `SequenceTagger` has to know of the words


def number(corpus: TaggedCorpus, run: Tagging, vectors: WordVectors | None) -> Numbered:
    """Number the words and tags of a corpus, and maybe suffix and shape, by which a word is known
    that no training sentence has, and the written form. Words that have ``vectors`` are known in
    any case."""
    written = {
        name: [word for s in part for word in s.words] for name, part in corpus.splits.items()
    }
    counts = Counter(map(str.lower, written["train"]))
    later = {word.lower() for word in written["validation"] + written["test"]} - counts.keys()
    known = sorted(later & set(vectors.words)) if vectors else []
    all_words = counts | dict.fromkeys(known, 1)
    words = build_vocabulary(all_words, len(all_words))
    features: list[tuple[Callable[[str], str], dict[str, int]]] = [
        (str.lower, words | {PADDING: UNKNOWN_INDEX})  # if a text has such a word
    ]
    first = PADDING_INDEX + 1
    for feature in (lambda word: word[-3:].lower(), shape) if run.features else ():
        features.append((feature, _numbers(map(feature, written["train"]), first)))
    sizes, spelling = [len(words), *(len(numbers) + first for _, numbers in features[1:])], None
    if run.filters:  # the first 20 letters of each form of all splits; padding and unknown have one
        forms = _numbers((word for of_split in written.values() for word in of_split), first)
        letters = _numbers("".join(written["train"]), 2)
        rows = [[1]] * first + [[letters.get(letter, 1) for letter in form[:20]] for form in forms]
        spelling = nn.utils.rnn.pad_sequence([*map(torch.tensor, rows)], batch_first=True)
        features.append((str, forms))
    encoded = in_io if run.encoding == "io" else list
    number_of = _numbers((tag for s in corpus.train for tag in encoded(s.tags)), 0)

    def numbered(sentences: Sequence[Tagged]) -> NumberedSentences:
        rows = [
            [numbers.get(feature(word), UNKNOWN_INDEX) for feature, numbers in features]
            for sentence in sentences
            for word in sentence.words
        ]
        offsets = torch.tensor([0, *accumulate(len(s.words) for s in sentences)])
        ids = Ragged(torch.tensor(rows, dtype=torch.int32), offsets)
        tags = [number_of.get(tag, NO_TAG) for s in sentences for tag in encoded(s.tags)]
        return NumberedSentences(ids, torch.tensor(tags))

    frequency = torch.tensor([counts.get(word, 0) for word in words])
    options = {"vocabulary_size": sizes[0], "tags": len(number_of), "features": sizes[1:]}
    options |= {"spelling": spelling, "vectors": start_from(vectors, words, run.seed)}
    splits = Splits(*map(numbered, corpus.splits.values()))
    return Numbered(splits, list(number_of), frequency, options)


def _numbers(values: Any, first: int) -> dict[str, int]:
    """Numbers of different texts in alphabetical order."""
    return dict(zip(sorted(set(values)), count(first), strict=False))


def shape(word: str) -> str:
    """Upper and lower case, digits and other signs, each run once: "Xx" of "Chicago", "dx" of
    "1990s"."""
    kinds = {"X": str.isupper, "x": str.islower, "d": str.isdigit}
    signs = [next((kind for kind, holds in kinds.items() if holds(c)), ".") for c in word]
    return re.sub(r"(.)\1+", r"\1", "".join(signs))[:8]


class TaggingObjective(loop.Objective):
    """Cross-entropy over words, with gradients clipped. Words that occur once in training are read
    as unknown at the `UNKNOWN_RATE`. Where there are entities, their F1 chooses the best epoch,
    not accuracy."""

    per_word = True
    chosen_by = "validation_entity_f1"

    def __init__(self, data: Numbered, corpus: TaggedCorpus, device: str) -> None:
        self.rare = (data.frequency == 1).to(device)
        self.corpus, self.names = corpus, data.tags
        self.tags: Tensor  # (W,) on the CPU, of the sentences that were tagged last, in their order

    def backward(self, model: nn.Module, batch: Batch, indices: Tensor) -> loop.Learnt:
        learnt = super().backward(model, batch, indices)
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        return learnt

    def loss(self, model: nn.Module, batch: Batch, indices: Tensor) -> loop.Learnt:
        ids = batch.ids.clone()  # (B, T, F)
        words = ids[..., 0]
        unknown = torch.rand(words.shape, device=ids.device) < UNKNOWN_RATE
        words[self.rare[words] & unknown] = UNKNOWN_INDEX
        logits = model(ids, batch.lengths)  # (B, T, C)
        return tagging_loss(logits, batch.lengths, batch.labels), logits

    @torch.inference_mode()
    def evaluate(self, model: SequenceTagger, texts: Texts) -> loop.Score:
        """The mean loss of words whose tag is known, and the accuracy over all words."""
        tags = torch.empty_like(texts.labels)
        loss = torch.zeros((), dtype=torch.float64, device=tags.device)
        for indices, batch, logits in loop.answers(model, texts):  # (B, T, C)
            loss += tagging_loss(logits, batch.lengths, batch.labels, "sum")
            places, is_word, *_ = texts.ids.places(indices)  # (B, T)
            tags[places[is_word]] = logits.argmax(-1)[is_word]
        self.tags = tags.cpu()
        judged, right = (texts.labels >= 0).sum().item(), (tags == texts.labels).sum().item()
        return loop.Score(loss.item() / max(judged, 1), 100 * right / len(tags))

    def end_epoch(self, model: nn.Module, accuracy: loop.Accuracy) -> dict[str, float]:
        if not self.corpus.has_entities:
            return {}
        scores = self.entity_scores(self.corpus.validation)
        return {f"validation_{name}": value for name, value in scores.items() if "entity" in name}

    def entity_scores(self, sentences: Sequence[Tagged]) -> dict[str, float]:
        """The `entity_scores` of the sentences that were tagged last."""
        in_turn = iter([self.names[tag] for tag in self.tags.tolist()])
        ours = [[next(in_turn) for _ in s.words] for s in sentences]
        return entity_scores([s.tags for s in sentences], ours)


def _baselines(corpus: TaggedCorpus) -> dict[str, float]:
    """Accuracy in % of the most frequent tag, and of that which each word most often has in
    training."""
    parts = corpus.train, corpus.test
    train, test = ([(word.lower(), tag) for s in part for word, tag in s] for part in parts)
    usual = Counter(tag for _, tag in train).most_common(1)[0][0]
    best = {word: tag for (word, tag), _ in reversed(Counter(train).most_common())}
    right = {"majority": [usual == tag for _, tag in test]}
    right["lexicon"] = [best.get(word, usual) == tag for word, tag in test]
    return {f"{name}_accuracy": 100 * sum(values) / len(test) for name, values in right.items()}


def _profile(model: SequenceTagger, texts: Texts, run: Tagging, stage: str) -> list[Facts]:
    """Gradients along the longest sentences of ten words or more, at `PLACES` places from the first
    to the last word: of the sum of all words' losses, and of the loss of the word in the middle."""
    longest = torch.argsort(texts.ids.lengths, descending=True, stable=True)[: run.profiled]
    longest = longest[texts.ids.lengths[longest] >= 10]
    if not len(longest):
        return []
    batch = texts.batch(longest, PADDING_INDEX)
    means = []
    for word in (None, batch.lengths // 2):
        norms = tagging_gradient_norms(model, batch.ids, batch.lengths, batch.labels, word)
        means.append(gradient_profile(norms, batch.lengths, PLACES).mean(0).tolist())
    values = enumerate(zip(*means, strict=True))
    return [{"stage": stage, "position": place, "mean": v, "single": w} for place, (v, w) in values]
