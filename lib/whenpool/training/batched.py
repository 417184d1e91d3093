"""Several models of one shape trained at once, as one batch of models.

Each takes the steps that it would take alone, on batches of its own, so that results equal those of
`whenpool.training.loop.train` but for the order of sums. Their parameters are stacked, and a step of all is a
few large operations: one lookup of words, one product for the inputs of all recurrences and one for each
gradient of weights (`whenpool.models.batched_lstm`), one pooling for all models that share it, one Adam.

Letters: M models, B texts of a batch, T words of the longest, D units of a state, C classes.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional
from torch.nn.functional import pad

from whenpool.base.errors import check
from whenpool.corpora.batches import PADDING_INDEX, Texts
from whenpool.models.batched_lstm import Order, gate_bytes, place_bytes, run_layer
from whenpool.training import loop

End = loop.Outcome | loop.DivergenceError  # Of a training alone: what `train` returns, or raises
MEMORY = 2e9  # Bytes for a step on a processor, the parameters not counted
SHARE_OF_GPU = 0.35  # Of its free memory for a step: two processes share a GPU


def train_together(
    students: Sequence[loop.Student], device: str, on_end: Callable[[int, End], None]
) -> None:
    """Train several models by cross-entropy, each as if it were alone; ``on_end`` is called at once with the
    number of each student that ends, and its outcome or error. They may differ in pooling, start, data,
    number of texts and epochs; seconds of an outcome are its share of the time of all. Raises `InputError`
    unless all are LSTMs of one shape without DropConnect, and `torch.OutOfMemoryError`."""
    encoders = [student.model.encoder for student in students]
    apart = any(encoder.cell != "lstm" or encoder.drop_connect for encoder in encoders)
    check(not apart, "only LSTMs without DropConnect can train together; train others alone")
    shapes = {(e.input_size, e.hidden_size, len(e.layers), e.directions) for e in encoders}
    unlike = f"{sorted(shapes)} (E, H, layers, directions)"
    check(len(shapes) == 1, f"models trained together must have one shape, not {unlike}")

    def alike(number: int) -> Any:  # what one Adam, and one way to read a batch, can do at once
        student = students[number]
        saved = student.saved.parts["optimizer"]["state"] if student.saved else {}
        done = int(max((state["step"] for state in saved.values()), default=0))  # steps
        classes, masked = student.model.classifier.out_features, student.model.masked
        learnt = tuple(p.requires_grad for p in student.model.encoder.parameters())
        return done, student.recipe.learning_rate, student.recipe.weight_decay, classes, masked, learnt

    for _, group in groupby(sorted(range(len(students)), key=alike), alike):
        # models that pool alike stand side by side
        numbers = sorted(group, key=lambda number: type(students[number].model.pooling).__name__)
        _train_alike([students[number] for number in numbers], device, numbers, on_end)


def _train_alike(
    students: Sequence[loop.Student],
    device: str,
    numbers: Sequence[int],
    on_end: Callable[[int, End], None],
) -> None:
    models = _Models(students, device)
    started = [_Training(student, device, at, models) for at, student in enumerate(students)]
    active = {training.at: training for training in started}

    def go_on(trainings: Sequence[_Training]) -> None:
        for training in trainings:
            if (end := training.go_on()) is not None:
                del active[training.at]
                models.release(training.at)
                on_end(numbers[training.at], end)

    go_on(started)
    models.start()
    while active:
        asking = [training for training in active.values() if isinstance(training.question, Texts)]
        answer: Callable[..., list[Any]] = models.evaluate
        if not asking:
            asking, answer = [*active.values()], models.learn
        begun = time.perf_counter()
        answers = answer([training.at for training in asking], [each.question for each in asking])
        share = (time.perf_counter() - begun) / len(asking)
        for training, given in zip(asking, answers, strict=True):
            training.answer = given
            training.seconds += share
        go_on(asking)


class _Training:
    """A training: what it asks for next, texts to evaluate or to learn from, the answer, and its seconds."""

    def __init__(self, student: loop.Student, device: str, at: int, models: "_Models") -> None:
        self.at = at
        self.question: Any = None
        self.answer: Any = None
        self.seconds, self._entered = 0.0, 0.0
        optimizer = models.optimizers[at]
        self._steps = loop.training_steps(
            student, device, loop.Objective(), optimizer, clock=self._clock
        )

    def _clock(self) -> float:
        """Read inside its steps alone: what they took, and its share of those made together."""
        return self.seconds + time.perf_counter() - self._entered

    def go_on(self) -> End | None:
        """Up to what it asks for next; or its outcome or error when there is nothing more."""
        self._entered = time.perf_counter()
        try:
            self.question = self._steps.send(self.answer)
        except StopIteration as end:
            return end.value
        except loop.DivergenceError as error:
            return error
        finally:
            self.seconds = self._clock()
        return None


class _Stack:
    """Parameters of one shape, which become views of one tensor; ``rows``: they may differ in their rows."""

    def __init__(self, parameters: Sequence[Any], rows: bool = False) -> None:
        self.parameters, self._join = parameters, torch.cat if rows else torch.stack
        self._rows = [len(p) for p in parameters] if rows else None
        self.values: Tensor = self._join([p.detach() for p in parameters])
        for parameter, part in zip(parameters, self._parts(self.values), strict=True):
            parameter.data = part
        self.values.requires_grad_(parameters[0].requires_grad)

    def _parts(self, values: Tensor) -> Sequence[Tensor]:
        return values.split(self._rows) if self._rows else values.unbind()

    def start(self, adam: Any, parts: Sequence[Any]) -> None:
        """Let the moments of one Adam begin with those of the Adams that the parameters had each, whose
        moments become views of them."""
        states = [part.state[p] for part, p in zip(parts, self.parameters, strict=True)]
        step, saved = torch.zeros((), device=self.values.device), bool(states[0])
        if saved:
            step.fill_(states[0]["step"].item())
        adam.state[self.values] = {"step": step}
        for name in ("exp_avg", "exp_avg_sq"):
            moment = torch.zeros_like(self.values, requires_grad=False)
            if saved:
                moment = self._join([state[name] for state in states])
            adam.state[self.values][name] = moment
            for state, part in zip(states, self._parts(moment), strict=True):
                state.update({"step": step, name: part})


class _Models:
    """M models of one shape on a device, their parameters stacked."""

    def __init__(self, students: Sequence[loop.Student], device: str) -> None:
        self.models = models = [student.model.to(device) for student in students]
        recipe, encoder = students[0].recipe, models[0].encoder
        how: dict[str, Any] = {
            "lr": recipe.learning_rate,
            "weight_decay": recipe.weight_decay,
            "fused": True,
        }
        self.optimizers = [torch.optim.Adam(model.parameters(), **how) for model in models]
        self._masked, self._directions = models[0].masked, encoder.directions
        self._stacks: list[tuple[_Stack, list[int]]] = []  # with the model of each parameter
        parameters = [dict(model.named_parameters()) for model in models]

        def stacked(*names: str, rows: bool = False) -> Tensor:
            """Those of these names of all models."""
            stack = _Stack([mine[name] for mine in parameters for name in names], rows)
            self._stacks.append((stack, [at for at in range(len(models)) for _ in names]))
            return stack.values

        self._table = stacked("embedding.weight", rows=True)
        sizes = torch.tensor([0, *(model.embedding.num_embeddings for model in models)]).cumsum(0)
        self._first_word = sizes[:-1].to(device)  # (M,), each model's rows of the table begin there
        padding = models[0].embedding.padding_idx
        self._pads = None if padding is None else self._first_word + padding
        kinds = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        self._layers = [
            [
                stacked(*(f"encoder.layers.{at}.{way}.{kind}" for way in range(encoder.directions)))
                for kind in kinds
            ]
            for at in range(len(encoder.layers))
        ]
        self._classifier = stacked("classifier.bias"), stacked("classifier.weight")
        self._pooled_by = []  # what the pooling of each model has learnt, by name
        for at, model in enumerate(models):
            mine = {name: _Stack([p]) for name, p in model.pooling.named_parameters()}
            self._stacks += [(stack, [at]) for stack in mine.values()]
            self._pooled_by.append(mine)
        self._adam = torch.optim.Adam([stack.values for stack, _ in self._stacks], **how)
        itemsize = gate_bytes(self._layers[0][1])
        each = place_bytes(encoder.input_size, encoder.output_size, len(encoder.layers), itemsize)
        free = MEMORY
        if self._table.is_cuda:
            free = SHARE_OF_GPU * torch.cuda.mem_get_info(self._table.device)[0]
        self.places = int(free / each)  # words of padded batches that fit into memory at a time

    def start(self) -> None:
        """Go on from the moments of Adam that trainings have read."""
        for stack, owners in self._stacks:
            stack.start(self._adam, [self.optimizers[at] for at in owners])

    def release(self, at: int) -> None:
        """Let a model have parameters of its own again."""
        for parameter in self.models[at].parameters():
            parameter.data = parameter.data.clone()

    def learn(self, at: Sequence[int], questions: Sequence[tuple[Texts, Tensor]]) -> list[Tensor]:
        """A step of some models, each on its texts and the numbers of those in its batch: the loss of each
        and how many were right, (2,)."""
        losses = torch.zeros(2, len(at), dtype=torch.float64, device=self._table.device)
        for batch in self._batches(questions, 1):
            loss, right = self._judged(at, batch)
            loss.sum().backward()
            losses += torch.stack([loss.detach(), right])
        if self._pads is not None and self._table.grad is not None:
            self._table.grad.index_fill_(0, self._pads, 0)
        self._adam.step()
        self._adam.zero_grad()
        return list(losses.unbind(1))

    @torch.inference_mode()
    def evaluate(self, at: Sequence[int], questions: Sequence[Texts]) -> list[loop.Score]:
        """The score of some models, each on texts of its own."""
        if not self._masked:  # pads are read, as many as the thesis's batches have
            return [loop.evaluate(self.models[a], texts) for a, texts in zip(at, questions, strict=True)]
        for model in self.models:
            model.eval()  # a training lets it train again
        orders = {id(texts): torch.argsort(texts.ids.lengths, stable=True) for texts in questions}
        sums = torch.zeros(2, len(at), dtype=torch.float64, device=self._table.device)
        for batch in self._batches([(texts, orders[id(texts)]) for texts in questions], 0):
            sums += torch.stack(self._judged(at, batch))
        return [
            loop.Score(loss / len(texts), 100 * right / len(texts))
            for (loss, right), texts in zip(sums.t().tolist(), questions, strict=True)
        ]

    def _judged(self, at: Sequence[int], batch: "_Batch") -> tuple[Tensor, Tensor]:
        """Of some of the models the weighted sum of losses, and how many texts are right, (M,) each."""
        logits, labels = self._logits(at, batch), batch.labels
        losses = functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
        right = (logits.argmax(-1) == labels) & (batch.weights > 0)
        return (losses.view(labels.shape) * batch.weights).sum(1), right.sum(1)

    def _batches(self, parts: Sequence[tuple[Texts, Tensor]], power: int) -> Iterator["_Batch"]:
        """The texts of all models, those of each from short to long, in batches that fit into memory. A text
        has the weight 1 / (the texts of its model) ** ``power``."""
        N = max(len(indices) for _, indices in parts)
        lengths = torch.ones(len(parts), N, dtype=torch.int64)  # 1 where a model has fewer texts
        for row, (texts, indices) in zip(lengths, parts, strict=True):
            row[N - len(indices) :] = texts.ids.lengths[indices]
        reach = lengths.amax(1, keepdim=True)  # what a model reads of each text where it reads pads
        most = (lengths if self._masked else reach.expand_as(lengths)).amax(0).tolist()
        start = 0
        for stop in range(1, N + 1):
            if stop < N and (stop + 1 - start) * most[stop] * len(parts) <= self.places:
                continue
            made: dict[Any, _Batch] = {}  # models that read the same texts share them
            chosen = []
            for (texts, indices), words in zip(parts, reach[:, 0].tolist(), strict=True):
                missing = N - len(indices)
                some = indices[max(start - missing, 0) : max(stop - missing, 0)]
                chosen.append(key := (id(texts), some.numpy().tobytes(), words, len(indices)))
                if key not in made:
                    shape, reads = (stop - start, most[stop - 1]), 0 if self._masked else words
                    made[key] = _Batch.of(texts, some, shape, reads, len(indices) ** -power)
            each = [made[key] for key in chosen]
            yield _Batch(*(torch.stack(values) for values in zip(*each, strict=True)))
            start = stop

    def _logits(self, at: Sequence[int], batch: "_Batch") -> Tensor:
        """(M, B, C) of some of the models."""
        d, rows = self._directions, None
        if len(at) < len(self.models):
            rows = torch.tensor(at, device=self._table.device)

        def of(values: Tensor, each: int = 1) -> Tensor:
            """The parameters of these models, which have some rows each."""
            if rows is None:
                return values
            return values.unflatten(0, (-1, each)).index_select(0, rows).flatten(0, 1)

        words = batch.ids + of(self._first_word).view(-1, 1, 1)
        states = functional.embedding(words, self._table)  # (M, B, T, E)
        order = Order.of(batch.lengths, words.shape[2], d)
        for into, across, b_in, b_state in self._layers:
            states = run_layer(states, order, of(into, d), of(across, d), of(b_in, d) + of(b_state, d))
        pooled = []

        def alike(place: int) -> Any:  # models whose poolings are one operation
            number = at[place]
            return type(self.models[number].pooling), number if self._pooled_by[number] else -1

        for _, run in groupby(range(len(at)), alike):
            places = [*run]
            some, number = slice(places[0], places[-1] + 1), at[places[0]]
            read = states[some].flatten(0, 1), order.is_word[some].flatten(0, 1)
            learnt = {name: stack.values[0] for name, stack in self._pooled_by[number].items()}
            embedding = functional_call(self.models[number].pooling, learnt, read)[0]
            pooled.append(embedding.view(len(places), -1, embedding.shape[-1]))
        bias, weight = map(of, self._classifier)
        return torch.baddbmm(bias.unsqueeze(1), torch.cat(pooled), weight.transpose(1, 2))


class _Batch(NamedTuple):
    """What M models read; of one model without the first axis."""

    ids: Tensor  # (M, B, T)
    lengths: Tensor  # (M, B)
    labels: Tensor  # (M, B)
    weights: Tensor  # (M, B), of each text; 0 where a model has fewer than another

    @classmethod
    def of(
        cls, texts: Texts, indices: Tensor, shape: tuple[int, int], reach: int, weight: float
    ) -> "_Batch":
        """Some texts behind as many empty ones as make B of them, with T words; ``reach``: how many of them
        are read, 0: each text to its end."""
        B, T = shape
        if not len(indices):
            like = texts.labels[:0]
            return cls(
                like.new_zeros(B, T), like.new_ones(B), like.new_zeros(B), like.new_zeros(B).double()
            )
        ids, lengths, labels = texts.batch(indices, PADDING_INDEX)
        above = B - len(indices)
        return cls(
            pad(ids, (0, T - ids.shape[1], above, 0), value=PADDING_INDEX),
            pad(lengths.clamp(min=reach), (above, 0), value=max(reach, 1)),
            pad(labels, (above, 0)),
            pad(torch.full_like(labels, weight, dtype=torch.float64), (above, 0)),
        )
