"""Several models of one shape trained at once, as one batch of models.

Each takes the steps that it would take alone, on batches of its own, so that results equal those of
`whenpool.training.loop.train` but for the order of sums. For a step their parameters are stacked,
so that it is a few large operations: one lookup of words, one product for the inputs of all
recurrences and a few for gradients of weights (`whenpool.models.batched_lstm`), one pooling for all
that share it, one Adam.

Letters: M models, N texts of each, B of them in a batch, T places of a text, C classes.
"""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import lru_cache, partial
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
    order = sorted(range(len(students)), key=lambda n: repr(students[n].model.pooling))
    models = {number: students[number].model.to(device) for number in order}
    encoder, how, free = models[0].encoder, students[0].recipe, MEMORY
    if torch.device(device).type == "cuda":
        free = SHARE_OF_GPU * torch.cuda.mem_get_info(device)[0]
    # places of padded batches, of all models, that fit into memory at a time
    places = int(free / place_bytes(encoder.input_size, encoder.output_size, len(encoder.layers)))
    adam_of = partial(
        torch.optim.Adam, lr=how.learning_rate, weight_decay=how.weight_decay, fused=True
    )
    adam = adam_of(p for model in models.values() for p in model.parameters())
    steps: dict[int, Generator[Any, Any, loop.Outcome]] = {}  # of each training that has not ended
    questions: dict[int, Any] = {}  # what it asks for next: texts to evaluate or to learn from
    shared, read = 0.0, time.perf_counter()

    def clock() -> float:
        """The seconds up to now, of which each training takes an equal part."""
        nonlocal shared, read
        now = time.perf_counter()
        shared, read = shared + (now - read) / len(steps), now
        return shared

    def go_on(number: int, answer: Any = None) -> None:
        """Up to what a training asks for next, or to its end."""
        try:
            questions[number] = steps[number].send(answer)
            return
        except StopIteration as stop:
            end: End = stop.value
        except loop.DivergenceError as error:
            end = error
        del steps[number], questions[number]
        on_end(number, end)

    for number, model in models.items():
        student, objective, optimizer = (
            students[number],
            loop.Objective(),
            adam_of(model.parameters()),
        )
        steps[number] = loop.training_steps(student, device, objective, optimizer, clock)
        go_on(number)
        for parameter in model.parameters():  # a training reads and saves the moments of ``adam``
            adam.state[parameter] = optimizer.state[parameter]
    while questions:
        evaluated = [number for number in order if isinstance(questions.get(number), Texts)]
        asking = evaluated or [number for number in order if number in questions]
        parts, some = (
            [questions[number] for number in asking],
            [models[number] for number in asking],
        )
        if evaluated:
            parts = [(texts, torch.argsort(texts.ids.lengths, stable=True)) for texts in parts]
            for model in some:
                model.eval()  # a training lets it train again
        with torch.inference_mode(bool(evaluated)):
            judged = judge(some, parts, places)
        answers: Sequence[Any] = judged.unbind(1)
        if evaluated:
            of_texts = zip(judged.t().tolist(), parts, strict=True)
            answers = [loop.Score(loss, 100 * right / len(of[0])) for (loss, right), of in of_texts]
        else:
            for number in asking:
                loop.clip(models[number].parameters(), students[number].recipe)
            adam.step()
            adam.zero_grad()
        for number, answer in zip(asking, answers, strict=True):
            go_on(number, answer)


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


def judge(models: Sequence[Any], parts: Sequence[tuple[Texts, Tensor]], places: int) -> Tensor:
    """The loss of each model, averaged over some of its texts, whose numbers stand from short to
    long, and how many are right, (2, M). Outside of inference mode gradients are added to those of
    the parameters."""
    sums = torch.zeros(2, len(models), dtype=torch.float64, device=parts[0][0].labels.device)
    for ids, lengths, labels, weights in _batches(parts, places):
        logits = _logits(models, ids, lengths)
        losses = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
        loss = (losses.view(labels.shape) * weights).sum(1)  # (M,)
        if loss.requires_grad:
            loss.sum().backward()
        right = (logits.argmax(-1) == labels) & (weights > 0)
        sums += torch.stack([loss.detach(), right.sum(1)])
    return sums


def _batches(parts: Sequence[tuple[Texts, Tensor]], places: int) -> Iterator[list[Tensor]]:
    """The texts of all models in batches that fit into memory: numbers of words (M, B, T), with one
    place more than the longest has; lengths, labels and weights in the loss, (M, B). A model with
    fewer texts than another reads its first one again, with the weight 0."""
    N = max(len(indices) for _, indices in parts)
    rows = [torch.cat([indices[:1].expand(N - len(indices)), indices]) for _, indices in parts]
    reach = torch.stack([of.ids.lengths[row] for (of, _), row in zip(parts, rows, strict=True)])
    most, start = reach.amax(0).tolist(), 0
    for stop in range(1, N + 1):
        if stop < N and (stop + 1 - start) * (most[stop] + 1) * len(parts) <= places:
            continue
        made: dict[Any, tuple[Tensor, ...]] = {}  # models that read the same texts share them
        keys = []
        for (texts, indices), row in zip(parts, rows, strict=True):
            some, n = row[start:stop], len(indices)
            keys.append(key := (id(texts), some.numpy().tobytes(), n))
            if key not in made:
                ids, lengths, labels = texts.batch(some, PADDING_INDEX)
                ids = functional.pad(
                    ids, (0, most[stop - 1] + 1 - ids.shape[1]), value=PADDING_INDEX
                )
                weights = torch.full_like(labels, 1 / n, dtype=torch.float64)
                weights[: max(N - n - start, 0)] = 0
                made[key] = ids, lengths, labels, weights
        yield [torch.stack(values) for values in zip(*(made[key] for key in keys), strict=True)]
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
        stacked = (torch.stack([getattr(way, name) for way in ways]) for name in WEIGHTS)
        into, across, b_in, b_state = stacked
        # a sum gives both the same tensor as gradient, to which a second part of a step would add
        # twice
        bias = b_in + 1.0 * b_state
        states = run_layer(states, lengths, into, across, bias, backward=backward)

    def alike(model: Any) -> Any:  # models whose poolings are one operation
        return repr(model.pooling), id(model) if list(model.pooling.parameters()) else None

    groups = [[*run] for _, run in groupby(models, alike)]
    sizes, pooled = [len(some) for some in groups], []
    for some, *read in zip(groups, states.split(sizes), is_word.split(sizes), strict=True):
        embedding, _ = some[0].pooling(*(values.flatten(0, 1) for values in read))
        pooled.append(embedding.unflatten(0, (len(some), -1)))
    weight, bias = (
        torch.stack([getattr(m.classifier, n) for m in models]) for n in ("weight", "bias")
    )
    return torch.baddbmm(bias.unsqueeze(1), torch.cat(pooled), weight.transpose(1, 2))


@lru_cache(maxsize=64)
def _first_rows(sizes: tuple[int, ...], device: torch.device) -> Tensor:
    """Where the tables of some models begin in one table of all, (M,); kept, since a GPU waits for
    a copy."""
    return torch.tensor([0, *sizes[:-1]]).cumsum(0).to(device)
