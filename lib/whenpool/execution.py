"""How a run is executed and stored: a training, or a probe on one."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import safetensors
import safetensors.torch
import torch

from whenpool.dataset import Dataset, EncodedCorpus, encode, make_dataset
from whenpool.errors import InputError
from whenpool.few_shot_execution import corpus_of, embed_once, execute_few_shot
from whenpool.few_shot_run import FewShot
from whenpool.learnability import DropoutAttention, GradientDirected, PenaltyAttention, TeacherForcing
from whenpool.measuring import Tracer, measure
from whenpool.models import TextClassifier
from whenpool.objective import Objective
from whenpool.probing import PROBE_PROTOCOL, GradientTrace, Probe
from whenpool.provenance import provenance
from whenpool.runs import Place, Run, Training, key
from whenpool.text import PADDING_INDEX, load_vectors
from whenpool.training import DivergenceError, Outcome, Recipe, train


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


def execute(
    run: Run,
    place: Place,
    device: str = "cpu",
    keep_weights: bool = False,
    on_epoch: Callable[[], None] | None = None,
) -> str:
    """Execute and store one run; returns its key.

    Raises:
        InputError: for data that cannot be read, too few texts, a loss that diverges (but with a
            trick, where that is a result), or a training that is needed and whose weights are not
            here.
    """
    if isinstance(run, Probe):
        return _execute_probe(run, place, device, on_epoch)
    if isinstance(run, FewShot):
        return execute_few_shot(run, place, device, on_epoch)
    assert isinstance(run, Training)
    run.identity(place)  # which says what cannot be trained before any work is done
    prepared = prepare(run, place)
    return _train(run, prepared, place, device, keep_weights, on_epoch)


def read_once(runs: Sequence[Run], place: Place, device: str = "cpu") -> list[str]:
    """Read each corpus and its vectors, and embed what several few-shot runs read, before workers start
    that would each do it.

    Returns:
        The notes on the corpora, a sentence each.
    """
    few_shots = [run for run in runs if isinstance(run, FewShot)]
    embed_once(few_shots, place, device)
    trainings = [run.training for run in runs if run.training]
    vectors = {run.vectors for run in trainings} | {run.vectors for run in few_shots}
    for name in vectors - {None}:
        load_vectors(place.vectors_file(str(name)), place.cache)
    sources = dict.fromkeys((place.source(training), training.length) for training in trainings)
    notes = [encode(source, length, place.cache).notes for source, length in sources]
    notes += [corpus_of(run, place).notes for run in few_shots]
    return list(dict.fromkeys(note for part in notes for note in part))


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
    try:
        prepared.model.load_state_dict(safetensors.torch.load_file(file))
    except (RuntimeError, OSError, safetensors.SafetensorError) as error:
        reason = str(error).splitlines()[0].rstrip(":")
        raise InputError(f"{file} does not hold the weights of {run}: {reason}; delete it") from None
    return prepared


def _train(
    run: Training,
    prepared: Prepared,
    place: Place,
    device: str,
    keep_weights: bool,
    on_epoch: Callable[[], None] | None = None,
    watch: Callable[[int], None] | None = None,
) -> str:
    dataset, model = prepared.dataset, prepared.model
    with torch.random.fork_rng():
        torch.manual_seed(run.seed)
        torch.random.set_rng_state(prepared.random)
        try:
            outcome = train(
                model,
                dataset,
                Recipe(run.epochs, run.batch_size, run.learning_rate, run.weight_decay),
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
    weights = safetensors.torch.save(outcome.weights) if keep_weights else None
    return place.store.put(
        run.identity(place),
        asdict(run),
        _result(run, prepared, outcome, place),
        provenance(device),
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


def _execute_probe(probe: Probe, place: Place, device: str, on_epoch: Callable[[], None] | None) -> str:
    started = time.perf_counter()
    identity = probe.identity(place)
    training = probe.training
    if isinstance(probe, GradientTrace):
        prepared = prepare(training, place)
        prepared.model.to(device)
        tracer = Tracer(probe, prepared.model, prepared.dataset)
        of = _train(training, prepared, place, device, True, on_epoch, tracer)
        row = place.store.get(of)
        assert row is not None
        best = {"validation_accuracy": row["result"]["validation_accuracy"]}
        started += row["result"]["seconds"]  # which the training has told
        found, rows = tracer.result() | best, tracer.rows
    else:
        prepared = trained(training, place) if probe.needs else prepare(training, place)
        prepared.model.to(device)
        of = key(training, place)
        found, rows = measure(probe, prepared.model, prepared.dataset)
    result = found | {
        "training": of,
        "probe_protocol": PROBE_PROTOCOL,
        "corpus_complete": prepared.encoded.complete,
        "corpus_notes": " ".join(prepared.encoded.notes),
        "seconds": time.perf_counter() - started,
    }
    return place.store.put(identity, probe.row(), result, provenance(device), rows)
