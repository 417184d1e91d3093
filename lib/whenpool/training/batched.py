"""Several models of one shape trained at once, as one batch of models.

Each takes the steps that it would take alone, on batches of its own, so that results equal those of
`whenpool.training.loop.train` but for the order of sums. For a step their parameters are stacked,
so that it is a few large operations: one lookup of words, one product for the inputs of all
recurrences and a few for gradients of weights (`whenpool.models.batched_lstm`), one pooling for all
that share it, one Adam.

Letters: M models, N texts of each, B of them in a batch, T places of a text, C classes.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from whenpool.base.errors import check
from whenpool.corpora.batches import PADDING_INDEX, Texts
from whenpool.models.batched_lstm import place_bytes, run_layer
from whenpool.models.encoder import word_mask
from whenpool.training import loop

End = loop.Outcome | loop.DivergenceError  # Of a training alone: what `train` returns, or raises
MEMORY = 2e9  # Bytes for a step on a processor, the parameters not counted
SHARE_OF_GPU = 0.35  # Of its free memory for a step: two processes share a GPU
WEIGHTS = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")  # Of a recurrence
Part = tuple[Texts, Tensor]
"""Texts that a model reads at once, and the numbers of some of them, from short to long."""


def train_together(
    students: Sequence[loop.Student], device: str, on_end: Callable[[int, End], None]
) -> None:
    """Train several models by cross-entropy, each as if it were alone; ``on_end`` is called at once
    with the number of each student that ends, and its outcome or error. They may differ in pooling,
    start, data, number of texts and epochs; seconds of an outcome are its share of the time of all.
    Raises `InputError` unless all are masked LSTMs of one shape and learning rate, and
    `torch.OutOfMemoryError`."""
    kinds = {_kind(student) for student in students}
    alike = (
        "only masked LSTMs of one shape and learning rate, without DropConnect, can train together"
    )
    check(len(kinds) == 1 and next(iter(kinds))[:3] == ("lstm", 0.0, True), alike)
    # models that pool alike stand side by side
    order = sorted(range(len(students)), key=lambda number: repr(students[number].model.pooling))
    adam = loop.adam(
        (p for student in students for p in student.model.parameters()), students[0].recipe
    )
    trainings: dict[int, loop.Progress] = {}  # that have not ended
    batches: dict[int, list[Tensor]] = {}  # of its epoch that each has still to learn from
    for number in order:
        student = students[number]
        weights = list(student.model.parameters())
        own_adam = loop.adam(weights, student.recipe)  # whose moments a training saves
        trainings[number] = loop.Progress(student, device, loop.Objective(), own_adam)
        batches[number] = []
        for parameter in weights:
            adam.state[parameter] = own_adam.state[parameter]
    encoder, free = students[0].model.encoder, MEMORY
    if torch.device(device).type == "cuda":
        free = SHARE_OF_GPU * torch.cuda.mem_get_info(device)[0]
    # words of padded batches, of all models, that fit into memory at a time
    room = int(free / place_bytes(encoder.input_size, encoder.output_size, len(encoder.layers)))

    def pass_time() -> None:
        """Share the seconds up to now among those that have not ended."""
        for training in trainings.values():
            training.pass_time(1 / len(trainings))

    def end(number: int, outcome: End) -> None:
        del trainings[number]
        on_end(number, outcome)

    while trainings:
        complete = [number for number in trainings if trainings[number].is_complete]
        for number in complete:
            trainings[number].take_best()
        tested = _scores([(trainings[number], trainings[number].test) for number in complete], room)
        pass_time()
        for number, score in zip(complete, tested, strict=True):
            end(number, trainings[number].outcome(score))
        if not trainings:
            break
        for number, training in trainings.items():
            batches[number] = batches[number] or training.start_epoch()
        parts = [(training.texts, batches[n].pop(0)) for n, training in trainings.items()]
        losses, right = judge([t.student.model for t in trainings.values()], parts, room)
        for training in trainings.values():
            loop.clip(training.student.model.parameters(), training.student.recipe)
        adam.step()
        adam.zero_grad()
        steps = zip(trainings.values(), losses, right, parts, strict=True)
        for training, loss, hits, (_, indices) in steps:
            training.count(loss, hits, len(indices))

        ended = [number for number in trainings if not batches[number]]
        validated = _scores([(trainings[n], trainings[n].validation) for n in ended], room)
        pass_time()
        for number, score in zip(ended, validated, strict=True):
            try:
                trainings[number].end_epoch(score, {})
            except loop.DivergenceError as error:
                end(number, error)


def _scores(asked: Sequence[tuple[loop.Progress, Texts]], room: int) -> list[loop.Score]:
    """How models do on texts, each on its own; see `judge`."""
    if not asked:
        return []
    models = [training.student.model for training, _ in asked]
    for model in models:
        model.eval()  # the next epoch lets it train again
    parts = [(texts, torch.argsort(texts.ids.lengths, stable=True)) for _, texts in asked]
    with torch.inference_mode():
        judged = judge(models, parts, room).t().tolist()
    answers = zip(judged, asked, strict=True)
    return [loop.Score(loss, 100 * right / len(texts)) for (loss, right), (_, texts) in answers]


def _kind(student: loop.Student) -> tuple[Any, ...]:
    """What models trained together have in common."""
    model, encoder, recipe = student.model, student.model.encoder, student.recipe
    shape = encoder.input_size, encoder.hidden_size, len(encoder.layers), encoder.directions
    of_step = (
        model.classifier.out_features,
        recipe.learning_rate,
        recipe.weight_decay,
        encoder.backward,
    )
    return encoder.cell, encoder.drop_connect, model.masked, *shape, *of_step


def judge(models: Sequence[Any], parts: Sequence[Part], room: int) -> Tensor:
    """The loss of each model, averaged over some of its texts, and how many are right, (2, M).
    Outside of inference mode gradients are added to those of the parameters."""
    sums = torch.zeros(2, len(models), dtype=torch.float64, device=parts[0][0].labels.device)
    for ids, lengths, labels, weights in _batches(parts, room):
        logits = _logits(models, ids, lengths)
        losses = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
        loss = (losses.view(labels.shape) * weights).sum(1)  # (M,)
        if loss.requires_grad:
            loss.sum().backward()
        right = (logits.argmax(-1) == labels) & (weights > 0)
        sums += torch.stack([loss.detach(), right.sum(1)])
    return sums


def _batches(parts: Sequence[Part], room: int) -> Iterator[list[Tensor]]:
    """The texts of all models in batches that fit into memory: numbers of words (M, B, T), with one
    place more than the longest has; lengths, labels and weights in the loss, (M, B). A model with
    fewer texts than another reads its first one again, with the weight 0."""
    N = max(len(indices) for _, indices in parts)
    rows = [torch.cat([indices[:1].expand(N - len(indices)), indices]) for _, indices in parts]
    lengths = [texts.ids.lengths[row] for (texts, _), row in zip(parts, rows, strict=True)]
    longest, start = torch.stack(lengths).amax(0).tolist(), 0
    for stop in range(1, N + 1):
        if stop < N and (stop + 1 - start) * (longest[stop] + 1) * len(parts) <= room:
            continue
        made: dict[Any, tuple[Tensor, ...]] = {}  # models that read the same texts share them
        batches = []
        for (texts, indices), row in zip(parts, rows, strict=True):
            numbers, n = row[start:stop], len(indices)
            key = id(texts), numbers.numpy().tobytes(), n
            if key not in made:
                ids, of_words, labels = texts.batch(numbers, PADDING_INDEX)
                more = longest[stop - 1] + 1 - ids.shape[1]
                ids = functional.pad(ids, (0, more), value=PADDING_INDEX)
                weights = torch.full_like(labels, 1 / n, dtype=torch.float64)
                weights[: max(N - n - start, 0)] = 0
                made[key] = ids, of_words, labels, weights
            batches.append(made[key])
        yield [torch.stack(values) for values in zip(*batches, strict=True)]
        start = stop


def _logits(models: Sequence[Any], ids: Tensor, lengths: Tensor) -> Tensor:
    """(M, B, T) and (M, B) -> (M, B, C)."""
    table = torch.cat([model.embedding.weight for model in models])
    first = _first_rows(tuple(model.embedding.num_embeddings for model in models), ids.device)
    if table.requires_grad:  # padding is never trained
        table.register_hook(lambda grad: grad.index_fill_(0, first + PADDING_INDEX, 0))
    is_word = word_mask(lengths.flatten(), ids.shape[2]).view(ids.shape)
    states = functional.embedding(ids + first.view(-1, 1, 1), table)  # (M, B, T, E)
    states = states * is_word.unsqueeze(-1)
    backward = models[0].encoder.backward if torch.is_grad_enabled() else None
    for layer in range(len(models[0].encoder.layers)):
        ways = [way for model in models for way in model.encoder.layers[layer]]
        into, across, b_in, b_state = (
            torch.stack([getattr(way, name) for way in ways]) for name in WEIGHTS
        )
        # a sum gives both the same tensor as gradient, to which a second part of a step would add
        # twice
        bias = b_in + 1.0 * b_state
        states = run_layer(states, lengths, into, across, bias, backward=backward)

    def alike(model: Any) -> Any:  # models whose poolings are one operation
        return repr(model.pooling), id(model) if list(model.pooling.parameters()) else None

    pooled, first_model = [], 0
    for _, group in groupby(models, alike):
        pooling, *more = [model.pooling for model in group]
        stop = first_model + 1 + len(more)
        of_group = states[first_model:stop], is_word[first_model:stop]
        embedding, _ = pooling(*(values.flatten(0, 1) for values in of_group))
        pooled.append(embedding.unflatten(0, (stop - first_model, -1)))
        first_model = stop
    weight = torch.stack([model.classifier.weight for model in models])
    bias = torch.stack([model.classifier.bias for model in models])
    return torch.baddbmm(bias.unsqueeze(1), torch.cat(pooled), weight.transpose(1, 2))


@lru_cache(maxsize=64)
def _first_rows(sizes: tuple[int, ...], device: torch.device) -> Tensor:
    """Where the tables of some models begin in one table of all, (M,); kept, since a GPU waits for
    a copy."""
    return torch.tensor([0, *sizes[:-1]]).cumsum(0).to(device)
