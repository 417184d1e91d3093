"""How a run is executed and stored: a training, or a probe on one."""

import time
from collections.abc import Callable, Sequence

from whenpool.corpora.dataset import encode
from whenpool.corpora.tokens import load_vectors
from whenpool.runs.kinds.few_shot import FewShot, corpus_of, embed_once, execute_few_shot
from whenpool.runs.kinds.probe import PROBE_PROTOCOL, GradientTrace, Probe, Tracer, measure
from whenpool.runs.kinds.tagging import Tagging, execute_tagging, notes_of
from whenpool.runs.kinds.training import Training, execute_training, prepare, trained
from whenpool.runs.provenance import provenance
from whenpool.runs.run import Place, Run, key


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
    if isinstance(run, Tagging):
        return execute_tagging(run, place, device, keep_weights, on_epoch)
    assert isinstance(run, Training)
    run.identity(place)  # which says what cannot be trained before any work is done
    prepared = prepare(run, place)
    return execute_training(run, prepared, place, device, keep_weights, on_epoch)


def read_once(runs: Sequence[Run], place: Place, device: str = "cpu") -> list[str]:
    """Read each corpus and its vectors, and embed what several few-shot runs read, before workers start
    that would each do it.

    Returns:
        The notes on the corpora, a sentence each.
    """
    few_shots = [run for run in runs if isinstance(run, FewShot)]
    embed_once(few_shots, place, device)
    trainings = [run.training for run in runs if run.training]
    taggings = [run for run in runs if isinstance(run, Tagging)]
    vectors = {run.vectors for run in trainings} | {run.vectors for run in few_shots}
    vectors |= {run.vectors for run in taggings}
    for name in vectors - {None}:
        load_vectors(place.vectors_file(str(name)), place.cache)
    sources = dict.fromkeys((place.source(training), training.length) for training in trainings)
    notes = [encode(source, length, place.cache).notes for source, length in sources]
    notes += [corpus_of(run, place).notes for run in few_shots]
    notes += [notes_of(run, place) for run in taggings]
    return list(dict.fromkeys(note for part in notes for note in part))


def _execute_probe(probe: Probe, place: Place, device: str, on_epoch: Callable[[], None] | None) -> str:
    started = time.perf_counter()
    identity = probe.identity(place)
    training = probe.training
    if isinstance(probe, GradientTrace):
        prepared = prepare(training, place)
        prepared.model.to(device)
        tracer = Tracer(probe, prepared.model, prepared.dataset)
        of = execute_training(training, prepared, place, device, True, on_epoch, tracer)
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
