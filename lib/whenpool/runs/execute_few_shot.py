"""How a few-shot run is executed and stored (thesis §1.10)."""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache

import safetensors.torch
import torch

from whenpool.base.errors import InputError
from whenpool.corpora import Corpus, CorpusSource
from whenpool.corpora.batches import Texts
from whenpool.fewshot.contextual import contextual_classifier
from whenpool.fewshot.pretrained import load_encoder
from whenpool.fewshot.selection import Selection, select
from whenpool.models.text_classifier import TextClassifier
from whenpool.runs.execute_training import load_weights
from whenpool.runs.few_shot_run import FewShot, passes_of, steps_of
from whenpool.runs.few_shot_systems import PARTS, embedded, make, numbered
from whenpool.runs.provenance import provenance
from whenpool.runs.training_run import Place, key
from whenpool.training.loop import Recipe, train


@dataclass(frozen=True, eq=False)
class Explained:
    """A trained max-attention model, and what it was tested on.

    Attributes:
        texts: the test texts as embeddings.
        tokens: their word pieces.
        classes: names of the labels.
    """

    model: TextClassifier
    texts: Texts
    tokens: list[list[str]]
    classes: tuple[str, ...]


def execute_few_shot(
    run: FewShot, place: Place, device: str = "cpu", on_epoch: Callable[[], None] | None = None
) -> str:
    """Execute and store one few-shot run; returns its key.

    Raises:
        InputError: for data or an encoder that are not here, too few texts of a class, paraphrases
            that do not match, or a loss that diverges.
    """
    started = time.perf_counter()
    identity = run.identity(place)
    corpus, chosen = read(run, place)
    looks, passes = passes_of(run, len(chosen.labelled))
    with torch.random.fork_rng():
        torch.manual_seed(run.seed)
        system = make(run, len(corpus.classes), chosen, place, device)
        outcome = train(
            system.model,
            system.splits,
            Recipe(looks, run.batch_size, run.learning_rate, passes=passes),
            run.seed,
            device,
            on_epoch=lambda _: on_epoch() if on_epoch else None,
            objective=system.objective,
            parameters=system.parameters,
        )
    labels = system.splits.test.labels
    trained = [p for p in system.model.parameters() if p.grad is not None]
    result = {
        "test_accuracy": outcome.test.accuracy,
        "test_loss": outcome.test.loss,
        "validation_accuracy": outcome.validation_accuracy,
        "best_epoch": outcome.best_epoch,
        "majority_accuracy": 100 * int(labels.bincount().max()) / len(labels),
        "steps_done": steps_of(run, len(chosen.labelled)),
        "classes": len(corpus.classes),
        "corpus_complete": corpus.complete,
        "labelled_texts": len(chosen.labelled),
        "unlabelled_texts": len(chosen.unlabelled),
        "unlabelled_read": system.unlabelled_read,
        "validation_texts": len(chosen.validation),
        "test_texts": len(chosen.test),
        "test_cut": system.test_cut,
        "tokens_read": system.tokens_read,
        "parameters": sum(p.numel() for p in trained),
        "encoder_parameters": system.encoder_parameters,
        "corpus_notes": " ".join(corpus.notes),
        "seconds": time.perf_counter() - started,
    }
    weights = safetensors.torch.save(outcome.weights) if run.system == "max_attention" else None
    row = asdict(run) | run.labels | ({} if run.has_encoder else {"encoder": None})
    return place.store.put(identity, row, result, provenance(device), outcome.history_rows(), weights)


def read(run: FewShot, place: Place) -> tuple[Corpus, Selection]:
    """A run's corpus, and its texts.

    Raises:
        InputError: for files that cannot be read, or too few texts of a class.
    """
    corpus = corpus_of(run, place)
    pool = run.unlabelled if run.reads_unlabelled else 0
    return corpus, select(corpus, run.per_class, run.seed, pool, run.validation, run.test)


def corpus_of(run: FewShot, place: Place) -> Corpus:
    """A run's corpus. Raises `InputError` for files that cannot be read."""
    source = place.source(run)
    return _corpus(source, run.length, source.fingerprint(run.length))


@lru_cache(maxsize=2)
def _corpus(source: CorpusSource, length: str, fingerprint: str) -> Corpus:
    """The fingerprint tells a file that was changed from what it was."""
    return source.load(length)


def embed_once(runs: Iterable[FewShot], place: Place, device: str) -> None:
    """Embed the texts that several runs read, before they are executed side by side."""
    seen = set()
    for run in runs:
        what = (run.corpus, run.length, run.encoder, run.validation, run.test, run.max_tokens)
        if run.system == "max_attention" and what not in seen:
            seen.add(what)
            chosen = select(corpus_of(run, place), 0, 0, validation=run.validation, test=run.test)
            with suppress(InputError):  # the run itself will say so
                embedded(run, chosen, place, device, PARTS[1:])


def explained(run: FewShot, place: Place) -> Explained:
    """The stored model of a run on frozen embeddings, its test texts, and their word pieces.

    Raises:
        InputError: when its weights are not here, or their file is damaged.
    """
    file = place.store.weights_file(key(run, place))
    if not file.exists():
        raise InputError(f"the weights of {run} are not here; run it again")
    corpus, chosen = read(run, place)
    pretrained = load_encoder(run.encoder)
    model = contextual_classifier(pretrained.size, len(corpus.classes), "max_attention", run.hidden_size)
    load_weights(model, file, run)
    ids = numbered(run, chosen, pretrained, ("test",))[0]["test"].ids.to_lists()
    pieces = [pretrained.tokenizer.convert_ids_to_tokens(row) for row in ids]
    texts = embedded(run, chosen, place, "cpu", ("test",))[0]["test"]
    return Explained(model.eval(), texts, pieces, corpus.classes)
