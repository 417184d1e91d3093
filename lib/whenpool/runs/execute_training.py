"""How a training is executed and stored."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import nn

from whenpool.base.errors import InputError
from whenpool.corpora.dataset import Dataset, EncodedCorpus, encode, make_dataset
from whenpool.corpora.tokens import PADDING_INDEX, load_vectors
from whenpool.learnability import DropoutAttention, GradientDirected, PenaltyAttention, TeacherForcing
from whenpool.models.text_classifier import TextClassifier
from whenpool.runs.provenance import ALONE, Company, provenance
from whenpool.runs.training_run import Place, Run, Training, key
from whenpool.training.loop import DivergenceError, Outcome, Recipe, train
from whenpool.training.objective import Objective


@dataclass(frozen=True)
class Prepared:
    """What a training starts from.

    Attributes:
        random: the state of torch's generator once the model is made, from which DropConnect draws.
    """

    encoded: EncodedCorpus
    dataset: Dataset
    model: TextClassifier
    random: torch.Tensor


def prepare(run: Training, place: Place) -> Prepared:
    """Read a training's texts and make its model as it is before training.

    Raises:
        InputError: for data that cannot be read, or too few texts.
    """
    encoded = encode(place.source(run), run.length, place.cache)
    vectors = load_vectors(place.vectors_file(run.vectors), place.cache) if run.vectors else None
    if vectors and vectors.size != run.embedding_size:
        raise InputError(
            f"word vectors {run.vectors} have {vectors.size} numbers, "
            f"the model's embedding {run.embedding_size}: choose others or set embedding_size"
        )
    dataset = make_dataset(
        encoded,
        size=run.size,
        setting=run.setting,
        share=run.share,
        validation=run.validation,
        test=run.test,
        max_words=run.max_words,
        vectors=vectors,
        seed=run.seed,
    )
    with torch.random.fork_rng():
        torch.manual_seed(run.seed)
        model = TextClassifier(
            len(dataset.vocabulary),
            len(dataset.classes),
            run.pooling,
            run.cell,
            run.embedding_size,
            run.hidden_size,
            run.layers,
            run.bidirectional,
            run.forget_bias,  # type: ignore[arg-type]
            PADDING_INDEX,
            vectors=dataset.vectors,
            orthogonal=run.orthogonal,
            drop_connect=run.drop_connect,
            masked=run.masked,
        )
        random = torch.random.get_rng_state()
    return Prepared(encoded, dataset, model, random)


def trained(run: Training, place: Place) -> Prepared:
    """A finished training's texts, and its model with the weights of the best epoch.

    Raises:
        InputError: when the weights are not here.
    """
    file = place.store.weights_file(key(run, place))
    if not file.exists():
        raise InputError(f"the weights of {run} are not here; run it again with --keep-weights")
    prepared = prepare(run, place)
    load_weights(prepared.model, file, run)
    return prepared


def load_weights(model: nn.Module, file: Path, run: Run) -> None:
    """Give a model the weights that a run has left.

    Raises:
        InputError: when the file is damaged, or holds another model's.
    """
    try:
        model.load_state_dict(safetensors.torch.load_file(file))
    except (RuntimeError, OSError, safetensors.SafetensorError) as error:
        reason = str(error).splitlines()[0].rstrip(":")
        raise InputError(f"{file} does not hold the weights of {run}: {reason}; delete it") from None


def recipe_of(run: Training) -> Recipe:
    return Recipe(run.epochs, run.batch_size, run.learning_rate, run.weight_decay)


def execute_training(
    run: Training,
    prepared: Prepared,
    place: Place,
    device: str,
    keep_weights: bool,
    on_epoch: Callable[[], None] | None = None,
    watch: Callable[[int], None] | None = None,
) -> str:
    """Train a prepared model and store it; returns its key.

    Raises:
        DivergenceError: for a loss that diverges, but with a trick, where that is a result.
    """
    with torch.random.fork_rng():
        torch.manual_seed(run.seed)
        torch.random.set_rng_state(prepared.random)
        try:
            outcome = train(
                prepared.model,
                prepared.dataset,
                recipe_of(run),
                run.seed,
                device,
                on_epoch=lambda _: on_epoch() if on_epoch else None,
                watch=watch,
                objective=_objective(run, place),
            )
        except DivergenceError as error:
            if not run.trick:
                raise
            outcome = error.left  # that some seeds diverge is part of what §2.2.7 finds
    return store_training(run, prepared, outcome, place, device, keep_weights)


def store_training(
    run: Training,
    prepared: Prepared,
    outcome: Outcome,
    place: Place,
    device: str,
    keep_weights: bool,
    company: Company = ALONE,
) -> str:
    """Store what came of a training; returns its key."""
    weights = safetensors.torch.save(outcome.weights) if keep_weights else None
    return place.store.put(
        run.identity(place),
        asdict(run),
        _result(run, prepared, outcome, place),
        provenance(device, company),
        outcome.history_rows(),
        weights,
    )


def _objective(run: Training, place: Place) -> Objective:
    """What a training minimises; a teacher is read from the store."""
    if run.trick == "penalty_attention":
        return PenaltyAttention(run.epochs)
    if run.trick == "dropout_attention":
        return DropoutAttention(run.epochs)
    if run.trick == "gradient_directed":
        return GradientDirected(run.epochs, run.strength, run.divergence)
    if run.needs:
        return TeacherForcing(trained(run.needs, place).model)
    return Objective()


def _result(run: Training, prepared: Prepared, outcome: Outcome, place: Place) -> dict[str, Any]:
    encoded, dataset, model = prepared.encoded, prepared.dataset, prepared.model
    labels = dataset.test.labels
    trick = {"diverged": math.isnan(outcome.test.loss)} if run.trick else {}
    return trick | {
        "test_accuracy": outcome.test.accuracy,
        "test_loss": outcome.test.loss,
        "validation_accuracy": outcome.validation_accuracy,
        "best_epoch": outcome.best_epoch,
        "majority_accuracy": 100 * int(labels.bincount().max()) / len(labels),
        "classes": len(dataset.classes),
        "corpus_complete": encoded.complete,
        "train_texts": len(dataset.train),
        "validation_texts": len(dataset.validation),
        "test_texts": len(dataset.test),
        "vocabulary": len(dataset.vocabulary),
        "parameters": sum(p.numel() for p in model.parameters()),
        "encoder_parameters": sum(p.numel() for p in model.encoder.parameters()),
        "train_words": outcome.words,
        "filler_passes_train": dataset.filler_passes["train"],
        "filler_passes_validation": dataset.filler_passes["validation"],
        "filler_passes_test": dataset.filler_passes["test"],
        "filler": place.source(run).filler_name if run.setting != "standard" else None,
        "corpus_notes": " ".join(encoded.notes),
        "seconds": outcome.seconds,
    }
