"""One system of Table 1.9 on few labelled texts: what it is, and how it is executed (thesis
§1.10)."""

import copy
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import torch
from filelock import FileLock
from torch import nn

from paper.corpora.dataset import Splits
from paper.fewshot import pretrained as encoders
from paper.fewshot.fine_tuning import UDA, FineTuned, MixText, TMix
from paper.fewshot.selection import Selection, TfIdfReplacement, load_paraphrases, select
from paper.fewshot.vampire import BagOfWordsVAE, BagVocabulary, VampireClassifier, pretrain
from paper.runs.kinds.training import EVALUATION, TEST_TEXTS, scores_of
from paper.runs.run import Facts, Place, Run, provenance
from whenpool.base.devices import seeded
from whenpool.base.errors import check
from whenpool.base.files import fingerprint
from whenpool.corpora import Corpus, CorpusSource, tokens
from whenpool.corpora.batches import PADDING_INDEX, UNKNOWN, Ragged, Texts
from whenpool.models.text_classifier import TextClassifier
from whenpool.training.loop import Objective, Recipe, train

FEW_SHOT_PROTOCOL = 1  # Raised by hand when the meaning of a few-shot result changes
SYSTEMS = ("vampire", "bert", "tmix", "max_attention", "uda", "mixtext")  # The rows of Table 1.9
CONTRAST = ("last_words", "max_attention_words")  # BiLSTM and max-attention on word vectors
READ_BY_ENCODER = ("bert", "tmix", "max_attention", "uda", "mixtext")  # By a pretrained one
UNLABELLED = ("vampire", "uda", "mixtext")  # Systems that read unlabelled texts as well


@dataclass(frozen=True)
class FewShot(Run):
    """One system trained on some labelled texts of each class; fields that it does not use are
    reset."""

    kind, table, protocol = "few-shot", "few_shots", FEW_SHOT_PROTOCOL
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

    @property
    def has_encoder(self) -> bool:
        return self.system in READ_BY_ENCODER

    @property
    def recurrent(self) -> bool:
        return self.system in ("max_attention", *CONTRAST)

    @property
    def cost(self) -> float:
        read = self.looks * self.validation + (self.test or TEST_TEXTS)
        return min(self.max_tokens, 250) * (self.steps * self.batch_size + EVALUATION * read)

    @property
    def named(self) -> "FewShot":
        folder, file = Path(self.encoder).expanduser(), self.paraphrases
        encoder = folder.name if folder.is_dir() else self.encoder
        return replace(self, encoder=encoder, paraphrases=file and Path(file).name)

    def identity(self, place: Place) -> Facts:
        source = place.source(self)
        identity = self.identified(place, source.label, corpus=source.fingerprint(self.length))
        if self.has_encoder:
            identity["data"]["encoder"] = encoders.encoder_fingerprint(self.encoder)
            identity["run"]["encoder"] = self.named.encoder
        if self.paraphrases:
            identity["data"]["paraphrases"] = fingerprint(Path(self.paraphrases))
        return identity

    def row(self) -> Facts:
        return super().row() | ({} if self.has_encoder else {"encoder": None})

    def execute(self, place: Place, device: str = "cpu", keep_weights: bool = False) -> str:
        """As `Run.execute`; a model on frozen embeddings is kept in any case."""
        started = time.perf_counter()
        self.identity(place)  # raises for what is not here before any work is done
        corpus, chosen = read(self, place)
        looks, passes, steps = passes_of(self, len(chosen.labelled))
        with seeded(self.seed, device):
            model, texts, how, about = make(self, len(corpus.classes), chosen, place, device)
            recipe = Recipe(looks, self.batch_size, self.learning_rate, passes=passes)
            outcome = train(model, texts, recipe, self.seed, device, **how)
        result = {
            **scores_of(outcome, texts.test.labels),
            "unlabelled_read": 0,
            "encoder_parameters": 0,
            "steps_done": steps,
            "classes": len(corpus.classes),
            "corpus_complete": corpus.complete,
            **{f"{part}_texts": len(drawn) for part, drawn in vars(chosen).items()},
            "parameters": sum(p.numel() for p in model.parameters() if p.grad is not None),
            "corpus_notes": " ".join(corpus.notes),
            "seconds": time.perf_counter() - started,
            **about,
        }
        weights = outcome.weights if self.system == "max_attention" else None
        return self.put(place, result, provenance(device), outcome.history_rows(), weights)


USED_BY = {
    **dict.fromkeys(
        ("unlabelled_batch", "augmentations", "replaced", "paraphrases"), ("uda", "mixtext")
    ),
    "max_tokens": (*READ_BY_ENCODER, *CONTRAST),
    "encoder": READ_BY_ENCODER,
    "vectors": CONTRAST,
    "head_learning_rate": ("bert", "tmix", "uda", "mixtext"),
    "hidden_size": ("max_attention", *CONTRAST),
    "unlabelled": UNLABELLED,
    "topics": ("vampire",),
    "pretraining": ("vampire",),
}
"""The systems that use a field, for each field that not all of them use."""


def passes_of(run: FewShot, labelled: int) -> tuple[int, int, int]:
    """How often a run looks at the validation texts, its passes between two looks, and all its
    steps."""
    per_pass = math.ceil(labelled / run.batch_size)
    passes = math.ceil(run.steps / run.looks / per_pass)
    looks = max(1, round(run.steps / (passes * per_pass)))
    return looks, passes, looks * passes * per_pass


System = tuple[nn.Module, Splits, Facts, Facts]
"""What a run trains: the model, the labelled, validation and test texts as it reads them, how it is
trained, and what is stored of it."""


def texts_of(chosen: Selection, number: Callable[[list[str]], Ragged]) -> Splits:
    """The labelled, validation and test texts as numbers."""
    parts = (chosen.labelled, chosen.validation, chosen.test)
    return Splits(*(Texts(number(part.texts), torch.tensor(part.labels)) for part in parts))


def make(run: FewShot, classes: int, chosen: Selection, place: Place, device: str) -> System:
    """A run's model before training, drawn from torch's generator, with what its objective
    needs."""
    if run.system in UNLABELLED:
        none = f"{run.system} needs unlabelled texts, but all training texts are labelled"
        check(chosen.unlabelled, f"{none}; choose fewer labels, or add texts")
    if run.system == "vampire":
        return _vampire(run, classes, chosen, device)
    if run.system in CONTRAST:
        return _on_word_vectors(run, classes, chosen, place)
    pretrained, cut = encoders.load_encoder(run.encoder), 0
    limit = min(run.max_tokens, pretrained.max_tokens)

    def number(texts: list[str]) -> Ragged:
        nonlocal cut  # of the test texts in the end
        ids, cut = pretrained.tokenize(texts, limit)
        return ids

    texts = texts_of(chosen, number)
    about: Facts = {"test_cut": cut, "tokens_read": limit}  # tokens of a text, at most
    about["encoder_parameters"] = sum(p.numel() for p in pretrained.model.parameters())
    if run.system == "max_attention":
        folder, parts = place.cache / "embedded", (texts.train, texts.validation, texts.test)
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "states.lock"):  # another process may need the same
            states = [
                encoders.embed(pretrained, part, folder / "states.npy", device) for part in parts
            ]
        model = encoders.contextual_classifier(
            pretrained.size, classes, run.system, run.hidden_size
        )
        return model, Splits(*states), {}, about
    tuned = FineTuned(copy.deepcopy(pretrained.model), pretrained.size, classes)
    groups = [  # the encoder is trained slowly, the new classifier faster
        {"params": list(tuned.encoder.parameters()), "lr": run.learning_rate},
        {"params": list(tuned.head.parameters()), "lr": run.head_learning_rate},
    ]
    objective = Objective() if run.system == "bert" else TMix(run.seed)
    if run.system in UNLABELLED:
        *_, steps = passes_of(run, len(chosen.labelled))
        few = chosen.unlabelled[: steps * run.unlabelled_batch]
        versions = few, *_versions(run, few, chosen)
        pool = [pretrained.tokenize(texts, limit)[0] for texts in versions]
        about["unlabelled_read"] = len(few)
        kind = UDA if run.system == "uda" else MixText
        objective = kind(pool, classes, steps, run.seed, run.unlabelled_batch)
    return tuned, texts, {"objective": objective, "parameters": groups}, about


def _versions(run: FewShot, texts: Sequence[str], chosen: Selection) -> list[list[str]]:
    """Other versions of some unlabelled texts, each of all of them: paraphrases, or with other
    words."""
    if run.paraphrases:
        return [*map(list, zip(*load_paraphrases(Path(run.paraphrases), texts), strict=True))]
    replacement = TfIdfReplacement([*map(tokens.tokenize, chosen.unlabelled)], run.replaced)
    first = run.seed * run.augmentations
    return [replacement.augment(texts, first + number) for number in range(run.augmentations)]


def _vampire(run: FewShot, classes: int, chosen: Selection, device: str) -> System:
    """VAMPIRE, pretrained on the unlabelled texts. It reads all words of a text."""
    vocabulary = BagVocabulary(chosen.unlabelled)
    vae = BagOfWordsVAE(vocabulary.counts, run.topics)
    pool, batch = vocabulary.number(chosen.unlabelled), 64  # unlabelled texts
    pretrain(vae, pool, run.pretraining, batch, seed=run.seed, device=device)
    texts, model = texts_of(chosen, vocabulary.number), VampireClassifier(vae, classes)
    read = min(len(pool), run.pretraining * batch)
    return model, texts, {}, {"test_cut": 0, "tokens_read": None, "unlabelled_read": read}


def _on_word_vectors(run: FewShot, classes: int, chosen: Selection, place: Place) -> System:
    """BiLSTM or max-attention on the words of labelled texts, and the most frequent ones with a
    vector."""
    vectors = place.vectors(run.vectors)
    counts = Counter(dict.fromkeys(vectors.words[: tokens.VOCABULARY_LIMIT] if vectors else (), 1))

    def words_of(text: str) -> list[str]:
        return (tokens.tokenize(text) or [UNKNOWN])[: run.max_tokens]

    for text in chosen.labelled.texts:
        counts.update(words_of(text))
    vocabulary = tokens.build_vocabulary(counts, len(counts))

    def number(texts: list[str]) -> Ragged:
        return tokens.number(map(words_of, texts), vocabulary)

    cut = sum(len(tokens.tokenize(text)) > run.max_tokens for text in chosen.test.texts)
    model = TextClassifier(
        len(vocabulary),
        classes,
        run.system.removesuffix("_words"),
        embedding_size=vectors.size if vectors else 100,
        hidden_size=run.hidden_size,
        padding_index=PADDING_INDEX,
        vectors=tokens.start_from(vectors, vocabulary, run.seed),
    )
    return model, texts_of(chosen, number), {}, {"test_cut": cut, "tokens_read": run.max_tokens}


@lru_cache(maxsize=4)
def _loaded(source: CorpusSource, fingerprint: str, length: str) -> Corpus:
    """A corpus, read once by a process; a file that was changed has another fingerprint."""
    return source.load(length)


def read(run: FewShot, place: Place) -> tuple[Corpus, Selection]:
    """A run's corpus and texts. Raises `InputError` for files that cannot be read, or too few
    texts."""
    source, pool = place.source(run), run.unlabelled if run.system in UNLABELLED else 0
    corpus = _loaded(source, source.fingerprint(run.length), run.length)
    return corpus, select(corpus, run.per_class, run.seed, pool, run.validation, run.test)
