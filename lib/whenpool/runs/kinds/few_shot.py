"""One system of Table 1.9 on few labelled texts: what it is, and how it is executed (thesis §1.10)."""

import copy
import math
import time
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import safetensors.torch
import torch
from torch import nn

from whenpool.base.errors import InputError
from whenpool.base.files import fingerprint
from whenpool.corpora import Corpus, tokens
from whenpool.corpora.batches import PADDING, PADDING_INDEX, UNKNOWN, UNKNOWN_INDEX, Ragged, Texts
from whenpool.corpora.dataset import Splits
from whenpool.fewshot import pretrained as encoders
from whenpool.fewshot.fine_tuning import UDA, FineTuned, MixText, TMix, Unlabelled
from whenpool.fewshot.selection import Selection, TfIdfReplacement, load_paraphrases, select
from whenpool.fewshot.vampire import BagOfWordsVAE, VampireClassifier, bag_vocabulary, pretrain
from whenpool.models.text_classifier import TextClassifier
from whenpool.runs.kinds.training import EVALUATION, loaded, scores_of, test_texts
from whenpool.runs.run import Place, Run, provenance
from whenpool.training.loop import Objective, Recipe, train

FEW_SHOT_PROTOCOL = 1  # Raised by hand when the meaning of a few-shot result changes
SYSTEMS = ("vampire", "bert", "tmix", "max_attention", "uda", "mixtext")  # The rows of Table 1.9
CONTRAST = ("last_words", "max_attention_words")  # BiLSTM and max-attention on word vectors
READ_BY_ENCODER = ("bert", "tmix", "max_attention", "uda", "mixtext")  # By a pretrained one
UNLABELLED = ("vampire", "uda", "mixtext")  # Systems that read unlabelled texts as well


@dataclass(frozen=True)
class FewShot(Run):
    """One system trained on some labelled texts of each class; fields that it does not use are reset."""

    kind, table, protocol = "few-shot", "few_shots", FEW_SHOT_PROTOCOL
    results = """test_accuracy test_loss validation_accuracy best_epoch majority_accuracy classes
        parameters encoder_parameters validation_texts test_texts steps_done labelled_texts
        unlabelled_texts unlabelled_read test_cut tokens_read"""
    histories: ClassVar = {"history": "epoch"}
    points = """epoch train_loss train_accuracy validation_loss validation_accuracy seconds factor
        supervised consistency margin confidence left_out confident"""
    order = ("corpus", "per_class", "system", "seed", "key")

    corpus: str  # a name for `whenpool.corpora.load`
    system: str  # one of `SYSTEMS` or `CONTRAST`
    per_class: int = 10  # labelled texts
    seed: int = 0  # of the labelled texts, and of all that is drawn
    length: str = "any"  # of the texts: "long", "short" or "any"
    validation: int = 1_000  # texts, or all where there are fewer
    test: int | None = None  # texts, or all where there are fewer; None: all
    max_tokens: int = 256  # a longer text is cut
    steps: int = 1_000  # of training, about: whole passes over the labelled texts
    looks: int = 10  # at the validation texts, at most: at least one pass lies between two
    batch_size: int = 8  # labelled texts
    learning_rate: float = 2e-3  # Adam's; of a fine-tuned encoder: of its own weights
    head_learning_rate: float = 5e-4  # of the classifier on a fine-tuned encoder
    hidden_size: int = 256  # of a BiLSTM, per direction
    encoder: str = encoders.DEFAULT_ENCODER  # a name or folder that transformers loads
    vectors: str | None = None  # word vectors of the systems in `CONTRAST`; None: random ones
    unlabelled: int = 10_000  # texts, or all where there are fewer
    unlabelled_batch: int = 8  # texts, beside the labelled ones
    augmentations: int = 1  # of each unlabelled text, by replacing words (TF-IDF)
    replaced: float = 0.7  # part of the words that are replaced
    paraphrases: str | None = None  # a file of them, in place of those
    topics: int = 64  # of VAMPIRE
    pretraining: int = 2_000  # steps of VAMPIRE on unlabelled texts

    def __post_init__(self) -> None:
        unused = [name for name, systems in USED_BY.items() if self.system not in systems]
        for name in [*unused, *(("augmentations", "replaced") if self.paraphrases else ())]:
            object.__setattr__(self, name, getattr(FewShot, name))  # the default
        if self.encoder in encoders.MINILM_NAMES:
            object.__setattr__(self, "encoder", encoders.MINILM)

    @property
    def has_encoder(self) -> bool:
        return self.system in READ_BY_ENCODER

    @property
    def cost(self) -> float:
        texts = self.batch_size + (2 * self.unlabelled_batch if self.system in ("uda", "mixtext") else 0)
        read = self.looks * self.validation + (self.test or test_texts(self.corpus, self.length))
        words = min(self.max_tokens, 250) * (20 if self.has_encoder else 1)
        return words * (self.steps * texts + EVALUATION * read)

    @property
    def network(self) -> Hashable:
        return self.system, self.shape.encoder if self.has_encoder else "", self.hidden_size

    def identity(self, place: Place) -> dict[str, Any]:
        source = place.source(self)
        identity = self.identified(place, source.label, corpus=source.fingerprint(self.length))
        if self.has_encoder:
            identity["data"]["encoder"] = encoders.encoder_fingerprint(self.encoder)
            identity["run"]["encoder"] = self.labels["encoder"]
        if self.paraphrases:
            identity["data"]["paraphrases"] = fingerprint(Path(self.paraphrases))
            identity["run"]["paraphrases"] = self.labels["paraphrases"]
        return identity

    @property
    def shape(self) -> "FewShot":
        return replace(self, vectors=None, **self.labels)  # type: ignore[arg-type]

    @property
    def labels(self) -> dict[str, str | None]:
        """What its encoder and its file of paraphrases are called, without their folders."""
        folder, paraphrases = Path(self.encoder).expanduser(), self.paraphrases
        encoder = folder.name if folder.is_dir() else self.encoder
        return {"encoder": encoder, "paraphrases": paraphrases and Path(paraphrases).name}

    def row(self) -> dict[str, Any]:
        return super().row() | self.labels | ({} if self.has_encoder else {"encoder": None})

    def execute(self, place: Place, device: str = "cpu", keep_weights: bool = False) -> str:
        """As `Run.execute`; a model on frozen embeddings is kept in any case."""
        started = time.perf_counter()
        identity = self.identity(place)
        corpus, chosen = read(self, place)
        looks, passes = passes_of(self, len(chosen.labelled))
        with torch.random.fork_rng(devices=[] if device == "cpu" else [device]):
            torch.manual_seed(self.seed)
            system = make(self, len(corpus.classes), chosen, place, device)
            outcome = train(
                system.model, system.splits,
                Recipe(looks, self.batch_size, self.learning_rate, passes=passes), self.seed, device,
                objective=system.objective, parameters=system.parameters,
            )  # fmt: skip
        result = {
            **scores_of(outcome, system.splits.test.labels),
            "steps_done": steps_of(self, len(chosen.labelled)), "classes": len(corpus.classes),
            "corpus_complete": corpus.complete, "labelled_texts": len(chosen.labelled),
            "unlabelled_texts": len(chosen.unlabelled), "unlabelled_read": system.unlabelled_read,
            "validation_texts": len(chosen.validation), "test_texts": len(chosen.test),
            "test_cut": system.test_cut, "tokens_read": system.tokens_read,
            "parameters": sum(p.numel() for p in system.model.parameters() if p.grad is not None),
            "encoder_parameters": system.encoder_parameters, "corpus_notes": " ".join(corpus.notes),
            "seconds": time.perf_counter() - started,
        }  # fmt: skip
        weights = safetensors.torch.save(outcome.weights) if self.system == "max_attention" else None
        made, history = provenance(device), outcome.history_rows()
        return place.store.put(identity, self.row(), result, made, history, weights, self.kind)

    @classmethod
    def read_ahead(cls, runs: Sequence["FewShot"], place: Place, device: str) -> Iterable[str]:
        frozen = [run for run in runs if run.system == "max_attention"]
        for run in {replace(run, seed=0, per_class=1): run for run in frozen}.values():
            with suppress(InputError):  # the run itself will say so
                chosen = select(corpus_of(run, place), 1, 0, validation=run.validation, test=run.test)
                pretrained = encoders.load_encoder(run.encoder)
                texts, _ = numbered(chosen, pretrained, min(run.max_tokens, pretrained.max_tokens))
                embedded(texts.validation, pretrained, place, device)
                embedded(texts.test, pretrained, place, device)
        super().read_ahead(runs, place, device)
        return [note for run in runs for note in corpus_of(run, place).notes]

    def __str__(self) -> str:
        encoder = f" ({Path(self.encoder).name})" if self.has_encoder else ""
        return f"{self.corpus} {self.system}{encoder} {self.per_class} per class seed {self.seed}"


USED_BY = {
    "max_tokens": (*READ_BY_ENCODER, *CONTRAST),
    "encoder": READ_BY_ENCODER,
    "head_learning_rate": ("bert", "tmix", "uda", "mixtext"),
    "hidden_size": ("max_attention", *CONTRAST),
    "vectors": CONTRAST,
    "unlabelled": UNLABELLED,
    "topics": ("vampire",),
    "pretraining": ("vampire",),
    **dict.fromkeys(
        ("unlabelled_batch", "augmentations", "replaced", "paraphrases"), ("uda", "mixtext")
    ),
}
"""The systems that use a field, for each field that not all of them use."""


def passes_of(run: FewShot, labelled: int) -> tuple[int, int]:
    """How often a run looks at the validation texts, and passes over its texts between two looks."""
    per_pass = math.ceil(labelled / run.batch_size)
    passes = math.ceil(run.steps / run.looks / per_pass)
    return max(1, round(run.steps / (passes * per_pass))), passes


def steps_of(run: FewShot, labelled: int) -> int:
    """The steps of training that a run makes."""
    looks, passes = passes_of(run, labelled)
    return looks * passes * math.ceil(labelled / run.batch_size)


@dataclass(frozen=True)
class System:
    """What a run trains."""

    model: nn.Module
    splits: Splits  # labelled, validation and test texts as the model reads them
    test_cut: int  # test texts that are longer than what is read of them
    tokens_read: int | None  # of a text at most, words of those without encoder; None: all
    objective: Objective | None = None
    parameters: list[dict[str, Any]] | None = None  # groups for the optimiser; None: all alike
    unlabelled_read: int = 0  # unlabelled texts that were read, at most
    encoder_parameters: int = 0  # of the pretrained encoder, whether they are trained or not


def make(run: FewShot, classes: int, chosen: Selection, place: Place, device: str) -> System:
    """A run's model before training, drawn from torch's generator, with what its objective needs."""
    if run.system in UNLABELLED and not chosen.unlabelled:
        none = "needs unlabelled texts, but all training texts are labelled"
        raise InputError(f"{run.system} {none}; choose fewer labels, or add texts")
    if run.system == "vampire":
        return _vampire(run, classes, chosen, device)
    if run.system in CONTRAST:
        return _on_word_vectors(run, classes, chosen, place)
    pretrained = encoders.load_encoder(run.encoder)
    of_encoder = sum(p.numel() for p in pretrained.model.parameters())
    limit = min(run.max_tokens, pretrained.max_tokens)
    texts, cut = numbered(chosen, pretrained, limit)
    if run.system == "max_attention":
        parts = (texts.train, texts.validation, texts.test)
        texts = Splits(*(embedded(part, pretrained, place, device) for part in parts))
        model = encoders.contextual_classifier(pretrained.size, classes, run.system, run.hidden_size)
        return System(model, texts, cut, limit, encoder_parameters=of_encoder)
    tuned = FineTuned(copy.deepcopy(pretrained.model), pretrained.size, classes)
    groups = [  # the encoder is trained slowly, the new classifier faster
        {"params": list(tuned.encoder.parameters()), "lr": run.learning_rate},
        {"params": list(tuned.head.parameters()), "lr": run.head_learning_rate},
    ]
    objective, read = Objective() if run.system == "bert" else TMix(run.seed), 0
    if run.system in UNLABELLED:
        pool = _unlabelled(run, chosen, pretrained, limit)
        read = len(pool.original)
        kind = UDA if run.system == "uda" else MixText
        steps = steps_of(run, len(chosen.labelled))
        objective = kind(pool, classes, steps, run.seed, run.unlabelled_batch)
    return System(tuned, texts, cut, limit, objective, groups, read, of_encoder)


def numbered(chosen: Selection, pretrained: encoders.Pretrained, limit: int) -> tuple[Splits, int]:
    """Texts as numbers of word pieces, and how many test texts were cut."""
    texts, cut = [], 0
    for split in (chosen.labelled, chosen.validation, chosen.test):
        ids, cut = pretrained.tokenize(split.texts, limit)
        texts.append(Texts(ids, torch.tensor(split.labels)))
    return Splits(*texts), cut


def embedded(texts: Texts, pretrained: encoders.Pretrained, place: Place, device: str) -> Texts:
    return encoders.embed(pretrained, texts, place.cache / "embedded" / "states.npy", device)


def _unlabelled(
    run: FewShot, chosen: Selection, pretrained: encoders.Pretrained, limit: int
) -> Unlabelled:
    texts = chosen.unlabelled[: steps_of(run, len(chosen.labelled)) * run.unlabelled_batch]
    if run.paraphrases:
        versions = [*map(list, zip(*load_paraphrases(Path(run.paraphrases), texts), strict=True))]
    else:
        replacement = TfIdfReplacement(map(tokens.tokenize, chosen.unlabelled), run.replaced)
        first = run.seed * run.augmentations
        versions = [replacement.augment(texts, first + number) for number in range(run.augmentations)]
    original, *augmented = (pretrained.tokenize(t, limit)[0] for t in (texts, *versions))
    return Unlabelled(original, tuple(augmented))


def _vampire(run: FewShot, classes: int, chosen: Selection, device: str) -> System:
    """VAMPIRE, pretrained on the unlabelled texts. It reads all words of a text."""
    vocabulary = bag_vocabulary(chosen.unlabelled)
    vae = BagOfWordsVAE(vocabulary.counts, run.topics)
    pool, batch = vocabulary.number(chosen.unlabelled), 64  # unlabelled texts
    pretrain(vae, pool, run.pretraining, batch, seed=run.seed, device=device)
    texts = [
        Texts(vocabulary.number(split.texts), torch.tensor(split.labels))
        for split in (chosen.labelled, chosen.validation, chosen.test)
    ]
    read = min(len(pool), run.pretraining * batch)
    return System(VampireClassifier(vae, classes), Splits(*texts), 0, None, unlabelled_read=read)


def _on_word_vectors(run: FewShot, classes: int, chosen: Selection, place: Place) -> System:
    """BiLSTM or max-attention on the words of labelled texts, and the most frequent ones with a vector."""
    vectors = tokens.load_vectors(place.vectors_file(run.vectors), place.cache) if run.vectors else None
    counts = Counter(dict.fromkeys(vectors.words[: tokens.VOCABULARY_LIMIT] if vectors else (), 1))
    splits = (chosen.labelled, chosen.validation, chosen.test)
    words = [[tokens.tokenize(text) or [UNKNOWN] for text in split.texts] for split in splits]
    for row in words[0]:
        counts.update(row[: run.max_tokens])
    vocabulary, texts = tokens.build_vocabulary(counts, len(counts)), []
    number_of = vocabulary | {PADDING: UNKNOWN_INDEX}  # where a text has such a word
    for split, rows in zip(splits, words, strict=True):
        ids = ([number_of.get(word, UNKNOWN_INDEX) for word in row[: run.max_tokens]] for row in rows)
        texts.append(Texts(Ragged.of(ids), torch.tensor(split.labels)))
    cut = sum(len(row) > run.max_tokens for row in words[-1])  # of the test texts
    model = TextClassifier(
        len(vocabulary), classes, run.system.removesuffix("_words"),
        embedding_size=vectors.size if vectors else 100, hidden_size=run.hidden_size,
        padding_index=PADDING_INDEX, vectors=tokens.start_from(vectors, vocabulary, run.seed),
    )  # fmt: skip
    return System(model, Splits(*texts), cut, run.max_tokens)


def read(run: FewShot, place: Place) -> tuple[Corpus, Selection]:
    """A run's corpus and texts. Raises `InputError` for files that cannot be read, or too few texts."""
    corpus = corpus_of(run, place)
    pool = run.unlabelled if run.system in UNLABELLED else 0
    return corpus, select(corpus, run.per_class, run.seed, pool, run.validation, run.test)


def corpus_of(run: FewShot, place: Place) -> Corpus:
    source = place.source(run)
    return loaded(source, source.fingerprint(run.length), run.length)
