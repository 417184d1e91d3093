"""What each system of Table 1.9 trains, and on what (thesis §1.10)."""

import copy
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from whenpool.base.errors import InputError
from whenpool.corpora.batches import Ragged, Texts
from whenpool.corpora.dataset import Splits
from whenpool.corpora.tokens import (
    PADDING_INDEX,
    UNKNOWN,
    UNKNOWN_INDEX,
    VOCABULARY_LIMIT,
    build_vocabulary,
    load_vectors,
    tokenize,
)
from whenpool.fewshot.augmentation import TfIdfReplacement, load_paraphrases
from whenpool.fewshot.bag_of_words import bag_vocabulary
from whenpool.fewshot.contextual import contextual_classifier, embed, token_hash
from whenpool.fewshot.fine_tuning import FineTuned
from whenpool.fewshot.mixtext import MixText
from whenpool.fewshot.pretrained import Pretrained, load_encoder
from whenpool.fewshot.selection import Selection
from whenpool.fewshot.tmix import TMix
from whenpool.fewshot.uda import UDA
from whenpool.fewshot.unlabelled import Unlabelled
from whenpool.fewshot.vampire import BagOfWordsVAE, VampireClassifier, pretrain
from whenpool.models.text_classifier import TextClassifier
from whenpool.runs.few_shot_run import CONTRAST, FewShot, steps_of
from whenpool.runs.training_run import Place
from whenpool.training.objective import Objective

PRETRAINING_BATCH = 64
"""Unlabelled texts in a batch of VAMPIRE's."""
PARTS = ("labelled", "validation", "test")


@dataclass(frozen=True)
class System:
    """What a run trains, and on what.

    Attributes:
        splits: labelled, validation and test texts as the model reads them.
        test_cut: test texts that are longer than what is read of them.
        tokens_read: of a text at most, words of those without encoder; None: all.
        parameters: groups for the optimiser; None: all parameters alike.
        unlabelled_read: at most so many unlabelled texts were read.
        encoder_parameters: of the pretrained encoder, whether they are trained or not.
    """

    model: nn.Module
    splits: Splits
    test_cut: int
    tokens_read: int | None
    objective: Objective | None = None
    parameters: list[dict[str, Any]] | None = None
    unlabelled_read: int = 0
    encoder_parameters: int = 0


def make(run: FewShot, classes: int, chosen: Selection, place: Place, device: str) -> System:
    """A run's model as it is before training, with what its objective needs. Weights are drawn from
    torch's global generator.

    Args:
        classes: C.

    Raises:
        InputError: for an encoder or vectors that are not here, paraphrases that do not match, or no
            unlabelled texts where some are needed.
    """
    if run.reads_unlabelled and not chosen.unlabelled:
        raise InputError(
            f"{run.system} needs unlabelled texts, and all training texts of {run.corpus} are labelled; "
            "ask for fewer labels, or add texts"
        )
    if run.system == "vampire":
        return _vampire(run, classes, chosen, device)
    if run.system in CONTRAST:
        return _on_word_vectors(run, classes, chosen, place)
    pretrained = load_encoder(run.encoder)
    own = sum(p.numel() for p in pretrained.model.parameters())
    limit = _limit(run, pretrained)
    if run.system == "max_attention":
        texts, cut = embedded(run, chosen, place, device, PARTS)
        model = contextual_classifier(pretrained.size, classes, "max_attention", run.hidden_size)
        return System(model, Splits(*texts.values()), cut, limit, encoder_parameters=own)
    texts, cut = numbered(run, chosen, pretrained)
    tuned = FineTuned(copy.deepcopy(pretrained.model), pretrained.size, classes)
    pool = _unlabelled(run, chosen, pretrained) if run.reads_unlabelled else None
    return System(
        tuned,
        Splits(*texts.values()),
        cut,
        limit,
        _objective(run, pool, classes, len(chosen.labelled)),
        tuned.parameter_groups(run.learning_rate, run.head_learning_rate),
        len(pool.original) if pool else 0,
        own,
    )


def _objective(run: FewShot, pool: Unlabelled | None, classes: int, labelled: int) -> Objective:
    steps = steps_of(run, labelled)
    if run.system == "tmix":
        return TMix(run.seed)
    if run.system == "uda":
        assert pool
        return UDA(pool, classes, steps, run.seed, run.unlabelled_batch)
    if run.system == "mixtext":
        assert pool
        return MixText(pool, classes, steps, run.seed, run.unlabelled_batch)
    return Objective()


def _limit(run: FewShot, pretrained: Pretrained) -> int:
    """Tokens of a text: what the run asks for, or what the encoder reads."""
    return min(run.max_tokens, pretrained.max_tokens)


def numbered(
    run: FewShot, chosen: Selection, pretrained: Pretrained, parts: Sequence[str] = PARTS
) -> tuple[dict[str, Texts], int]:
    """Texts as numbers of word pieces, and how many texts of the last part were cut.

    Args:
        parts: attributes of the selection.
    """
    found, cut = {}, 0
    for part in parts:
        split = getattr(chosen, part)
        ids, cut = pretrained.tokenize(split.texts, _limit(run, pretrained))
        found[part] = Texts(ids, torch.tensor(split.labels))
    return found, cut


def embedded(
    run: FewShot, chosen: Selection, place: Place, device: str, parts: Sequence[str]
) -> tuple[dict[str, Texts], int]:
    """The same as embeddings, from the cache where they are there.

    Args:
        parts: attributes of the selection.
    """
    pretrained = load_encoder(run.encoder)
    in_numbers, cut = numbered(run, chosen, pretrained, parts)
    folder = place.cache / "embedded"
    found: dict[str, Texts] = {}
    for part, texts in in_numbers.items():
        file = folder / f"{pretrained.fingerprint[:12]}-{token_hash(texts.ids)[:20]}.safetensors"
        found[part] = embed(pretrained, texts, file, device)
    return found, cut


def _unlabelled(run: FewShot, chosen: Selection, pretrained: Pretrained) -> Unlabelled:
    """The unlabelled texts that a run comes to read, and what is made of each.

    Raises:
        InputError: when paraphrases do not match.
    """
    limit = _limit(run, pretrained)
    texts = chosen.unlabelled[: steps_of(run, len(chosen.labelled)) * run.unlabelled_batch]
    if run.paraphrases:
        rows = load_paraphrases(Path(run.paraphrases), texts)
        versions = [list(version) for version in zip(*rows, strict=True)]
    else:
        replacement = TfIdfReplacement([tokenize(text) for text in chosen.unlabelled], run.replaced)
        versions = [
            replacement.augment(texts, run.seed * run.augmentations + number)
            for number in range(run.augmentations)
        ]
    original, *augmented = (pretrained.tokenize(t, limit)[0] for t in (texts, *versions))
    return Unlabelled(original, tuple(augmented))


def _vampire(run: FewShot, classes: int, chosen: Selection, device: str) -> System:
    """VAMPIRE, pretrained on the unlabelled texts. It reads all words of a text."""
    vocabulary = bag_vocabulary(chosen.unlabelled)
    vae = BagOfWordsVAE(vocabulary.counts, run.topics)
    pool = vocabulary.number(chosen.unlabelled)
    pretrain(vae, pool, run.pretraining, PRETRAINING_BATCH, seed=run.seed, device=device)
    texts = [
        Texts(vocabulary.number(split.texts), torch.tensor(split.labels))
        for split in (chosen.labelled, chosen.validation, chosen.test)
    ]
    read = min(len(pool), run.pretraining * PRETRAINING_BATCH)
    return System(VampireClassifier(vae, classes), Splits(*texts), 0, None, unlabelled_read=read)


def _on_word_vectors(run: FewShot, classes: int, chosen: Selection, place: Place) -> System:
    """BiLSTM or max-attention on word vectors: the words of the labelled texts, and the most frequent
    ones that have a vector, which need no text of the corpus."""
    vectors = load_vectors(place.vectors_file(run.vectors), place.cache) if run.vectors else None
    counts = Counter(dict.fromkeys(vectors.words[:VOCABULARY_LIMIT] if vectors else (), 1))
    words = {
        part: [tokenize(text) or [UNKNOWN] for text in getattr(chosen, part).texts] for part in PARTS
    }
    for text in words["labelled"]:
        counts.update(text[: run.max_tokens])
    vocabulary = build_vocabulary(counts, len(counts), vectors, torch.Generator().manual_seed(run.seed))
    texts = []
    for part, rows in words.items():
        numbers = (
            [vocabulary.stoi.get(word, UNKNOWN_INDEX) for word in row[: run.max_tokens]] for row in rows
        )
        texts.append(Texts(Ragged.of(numbers), torch.tensor(getattr(chosen, part).labels)))
    model = TextClassifier(
        len(vocabulary),
        classes,
        run.system.removesuffix("_words"),
        embedding_size=vectors.size if vectors else 100,
        hidden_size=run.hidden_size,
        padding_index=PADDING_INDEX,
        vectors=vocabulary.vectors,
    )
    cut = sum(len(row) > run.max_tokens for row in words["test"])
    return System(model, Splits(*texts), cut, run.max_tokens)
