"""A recurrent encoder that ignores padding exactly and never packs.

Packing makes an LSTM ignore its padding, but is several times slower than a padded batch. The same
result comes from two one-directional recurrences on right-padded input: padding stands *behind*
each text, so the left-to-right recurrence never sees it; for the right-to-left one every text is
reversed within its own length, run forward, and reversed back.

Letters: B texts, T words of the longest, E units of an input, H units of a state per direction,
D = H x directions.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from whenpool.base.errors import InputError, check, check_known
from whenpool.models.cells import CELLS, MinGRU
from whenpool.models.pooling import is_true
from whenpool.models.precision import run_recurrence
from whenpool.models.registry import LISTED_CELLS

STARTS = ("low", "chrono", "chrono forget", "chrono input")
"""What `forget_bias` can be besides a number."""
BACKWARD = ("open", "even")
"""Other ways back than the gradient's; states are the same."""
ForgetBias = float | Literal["low", "chrono", "chrono forget", "chrono input"] | None


def word_mask(lengths: Tensor, longest: int) -> Tensor:
    """Which positions of a right-padded batch are words: (B,) -> (B, T) bool."""
    return torch.arange(longest, device=lengths.device) < lengths.unsqueeze(1)


def start_from(embedding: nn.Embedding, vectors: Tensor | None) -> None:
    """Let an embedding start from word vectors of its shape, where there are any."""
    if vectors is not None:
        want, kind = tuple(embedding.weight.shape), type(vectors).__name__
        check(
            isinstance(vectors, Tensor),
            f"vectors must be a tensor {want}, not a {kind}; "
            "of a dict of words take torch.stack([vectors[word] for word in vocabulary])",
        )
        have = tuple(vectors.shape)
        check(have == want, f"word vectors have the shape {have}, but the embedding needs {want}")
        embedding.weight.data.copy_(vectors)


class Encoder(nn.Module):
    """A recurrence that returns one state for each word, and zeros after the end of each text.

    Equal to ``nn.LSTM``, ``nn.GRU`` or ``nn.RNN`` on packed input; the same seed gives the same
    weights, and parameters stand in the same order. Raises `InputError` for an unknown cell, or an
    option or size that it cannot have.

    Args:
        input_size, hidden_size: E; H, per direction.
        cell: a name in `whenpool.models.cells.CELLS`, such as "lstm", "gru" or "elman".
        layers, bidirectional: how many are stacked; whether each also reads from right to left.
        forget_bias: of an LSTM or its prototype, at every forget gate: None leaves torch's values;
            a number is the *sum* of the gate's two bias vectors (§1.3.1: between 1 and 2); "low" is
            BiLSTM_LowF, uniform in ±1/√H (§1.5); "chrono" draws it so that memory lasts up to
            ``chrono_words`` words (Tallec and Ollivier 2018, named in §2.2.2), and sets the input
            gate to its negative; "chrono forget" and "chrono input" set one of the two gates alone.
            In a GRU or minGRU one gate keeps and writes; a number or "chrono" sets it, and a higher
            number keeps more.
        input_bias: a number is the sum of the input gate's two bias vectors; with ``forget_bias=v``
            and ``input_bias=-v`` (in a GRU or minGRU ``forget_bias=v`` alone) the state begins as a
            running mean over about 1 + exp(v) words.
        chrono_words: the longest dependency that "chrono" expects.
        orthogonal: whether the recurrent weights of each gate start as an orthogonal matrix (Henaff
            et al. 2016 and others named in §2.2.2) instead of torch's uniform one.
        drop_connect: rate at which recurrent weights are dropped in training, one draw for all
            words of a batch (Wan et al. 2013, Merity et al. 2017; §1.4.2).
        masked: False reads padding as words. The authors' code does so, and without pooling it also
            starts with ``forget_bias=2.0``, which is yours to set.
        backward: of an LSTM in training, another way back than the gradient's, which changes no
            state: "open" takes 1 for the forget gate where the gradient of a cell goes on to the
            cell before, so that it never fades; "even" lets the gradient come back as it is, but at
            each word what reaches the gates is scaled so that the norm of the whole gradient of the
            state, ‖∂L/∂h_t‖ of one direction, is that which `MeanPool` would give there, the sum of
            the norms of what comes from above over the number of words. In evaluation, and so in
            probes, the gradient is the true one.

    Examples:
        >>> encoder = Encoder(input_size=100, hidden_size=256)
        >>> encoder(torch.randn(2, 7, 100), torch.tensor([7, 4])).shape
        torch.Size([2, 7, 512])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        cell: str = "lstm",
        layers: int = 1,
        bidirectional: bool = True,
        forget_bias: ForgetBias = None,
        *,
        chrono_words: int = 400,
        input_bias: float | None = None,
        orthogonal: bool = False,
        drop_connect: float = 0.0,
        masked: bool = True,
        backward: str | None = None,
    ) -> None:
        super().__init__()
        check_known("cell", cell, CELLS)
        listed, quoted = LISTED_CELLS[cell], f"cell {cell!r}"
        least = min(input_size, hidden_size, layers)
        check(least >= 1, f"input_size, hidden_size and layers must be at least 1, not {least}")
        gated = ", ".join(name for name, each in LISTED_CELLS.items() if each.forgets)
        check(
            forget_bias is None or listed.forgets,
            f"forget_bias cannot start {quoted}; choose one of {gated}",
        )
        check(input_bias is None or cell == "lstm", "input_bias needs cell='lstm'; leave it out")
        check(backward is None or cell == "lstm", "backward needs cell='lstm'; leave it out")
        check_known("backward", backward or BACKWARD[0], BACKWARD)
        if isinstance(forget_bias, str):
            check_known("forget_bias", forget_bias, STARTS)
            check(
                forget_bias == "chrono" or not listed.coupled,
                f"{quoted} keeps and writes by one gate; make forget_bias a number or 'chrono'",
            )
        check(0 <= drop_connect < 1, f"drop_connect must be in [0, 1), not {drop_connect}")
        check(
            listed.remembers or not (orthogonal or drop_connect),
            f"{quoted} has no recurrent weights to drop or to make orthogonal",
        )
        self.cell, self.input_size, self.hidden_size = cell, input_size, hidden_size
        self.directions = 2 if bidirectional else 1
        self.output_size = hidden_size * self.directions
        self.drop_connect, self.masked, self.backward = drop_connect, masked, backward
        sizes = [input_size] + [self.output_size] * (layers - 1)
        made: list[list[Any]] = [  # for each layer one recurrence a direction
            [CELLS[cell](size, hidden_size, batch_first=True) for _ in range(self.directions)]
            for size in sizes
        ]
        self.layers: Any = nn.ModuleList(map(nn.ModuleList, made))
        for module in chain(*made):
            if forget_bias is not None:
                _set_forget_bias(module, forget_bias, chrono_words)
            if input_bias is not None:
                _set_gate(module, 0, input_bias)
            for gate in module.weight_hh_l0.split(hidden_size) if orthogonal else ():
                nn.init.orthogonal_(gate)  # (H, H)

    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        """(B, T, E), right-padded with finite numbers, and (B,) lengths of at least 1 -> (B, T, D),
        left-to-right units first, zeros after the end of each text. Raises `InputError` when
        lengths do not fit; on a GPU it looks at their shape and type alone."""
        check_lengths(inputs, lengths)
        plan, states = self.reading(cast(Tensor, lengths), inputs.shape[1]), inputs
        if self.backward and self.training and torch.is_grad_enabled():
            return self._learning_states(inputs, plan.mask)
        for layer in self.layers:
            pairs = zip(layer, plan.fed(states), strict=True)
            states = plan.joined([self._states(module, x) for module, x in pairs])
        return states

    def reading(self, lengths: Tensor, longest: int) -> "Reading":
        """How a batch of T = ``longest`` words and (B,) lengths is read."""
        lengths = lengths if self.masked else torch.full_like(lengths, longest)
        return Reading.of(lengths, longest, self.directions)

    def _states(self, recurrence: Any, x: Tensor) -> Tensor:
        """What one recurrence of a layer makes of (B, T, ·): (B, T, H)."""
        if torch.onnx.is_in_onnx_export():
            return onnx_node(recurrence, self.cell, x)
        changed = {}
        if self.training and self.drop_connect:
            changed["weight_hh_l0"] = self._across(recurrence)
        return run_recurrence(recurrence, x, changed)

    def _across(self, recurrence: Any) -> Tensor:
        """The recurrent weights, of which some are dropped in training."""
        return nn.functional.dropout(recurrence.weight_hh_l0, self.drop_connect, self.training)

    def _learning_states(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """The same states of (B, T, E) with a mask (B, T, 1) of words; their gradient comes back in
        the way ``backward``."""
        from whenpool.models.batched_lstm import run_layer

        lengths = mask.sum(1).T  # (1, B)
        states = pad(inputs * mask, (0, 0, 0, 1)).unsqueeze(0)  # (1, B, T + 1, E)
        for layer in self.layers:
            into = torch.stack([way.weight_ih_l0 for way in layer])
            across = torch.stack([self._across(way) for way in layer])
            bias = torch.stack([way.bias_ih_l0 + way.bias_hh_l0 for way in layer])
            states = run_layer(states, lengths, into, across, bias, backward=self.backward)
        return states[0, :, :-1] * mask


class Reading(NamedTuple):
    """How a batch is read: which positions are words, and how each text is reversed within its
    length."""

    mask: Tensor  # (B, T, 1)
    places: Tensor | None  # (B, T), what stands where in reverse; None: nothing is reversed

    @classmethod
    def of(cls, lengths: Tensor, longest: int, directions: int) -> "Reading":
        """In one or two ``directions``; (B,) lengths, T = ``longest``."""
        mask = word_mask(lengths, longest).unsqueeze(-1)  # (B, T, 1)
        if directions == 1:
            return cls(mask, None)
        position = torch.arange(longest, device=lengths.device).unsqueeze(0)  # (1, T)
        last = lengths.unsqueeze(1) - 1  # (B, 1)
        places = torch.where(position <= last, last - position, position)  # (B, T)
        return cls(mask, places)

    def fed(self, states: Tensor) -> list[Tensor]:
        """What each direction of a layer reads of (B, T, ·), in its own order."""
        return [states] if self.places is None else [states, self.reversed(states)]

    def joined(self, halves: Sequence[Tensor]) -> Tensor:
        """The states of each direction, (B, T, H) in its own order -> (B, T, D)."""
        # masked before they are joined: the gradients of the halves then need no copy
        if self.places is None:
            return halves[0] * self.mask
        forward, backward = halves
        return torch.cat([forward * self.mask, self.reversed(backward) * self.mask], dim=-1)

    def reversed(self, values: Tensor) -> Tensor:
        """(B, T, ·) with each text reversed within its length; twice is as before."""
        assert self.places is not None
        if torch.compiler.is_compiling():  # in a graph numbers of texts would tie T to B
            return values.gather(1, self.places.unsqueeze(-1).expand_as(values))
        text = torch.arange(len(values), device=values.device).unsqueeze(1)  # (B, 1)
        return values[text, self.places]


def check_lengths(inputs: Tensor, lengths: Any) -> None:
    """Raises `InputError` for lengths that do not fit (B, T, ·); values on a GPU would cost a
    wait."""
    if torch.compiler.is_compiling():
        return  # a recorded graph has no place for it
    B, T = inputs.shape[:2]
    if not isinstance(lengths, Tensor):
        lacking = "missing" if lengths is None else "no tensor"
        raise InputError(f"lengths are {lacking}; give a tensor (B,), the words of each text")
    whole = not lengths.is_floating_point() and lengths.dtype != torch.bool
    if lengths.shape != (B,) or not whole:
        shape = f"{tuple(lengths.shape)} of {lengths.dtype}"
        raise InputError(f"a batch of {B} texts needs {B} lengths, whole numbers, not {shape}")
    check(T, "the batch has no words, T = 0; give each text at least one, even an unknown one")
    if B and is_true((lengths.amin() < 1) | (lengths.amax() > T)):
        longest, text = int(lengths.max()), int(lengths.argmin())
        check(longest <= T, f"a text has {longest} words, but the batch only {T} positions")
        raise InputError(f"text {text} has no words; leave it out, or give it one unknown word")


def _set_forget_bias(module: Any, forget_bias: ForgetBias, chrono_words: int) -> None:
    H, memory = module.hidden_size, cast(Any, forget_bias)
    if forget_bias == "low":
        for bias in (module.bias_ih_l0, module.bias_hh_l0):
            bias.detach().split(H)[1].uniform_(-(H**-0.5), H**-0.5)
        return
    if isinstance(forget_bias, str):  # chrono, or a part of it
        check(chrono_words >= 2, f"chrono_words must be at least 2, not {chrono_words}")
        memory = torch.empty(H).uniform_(1, chrono_words - 1).log()
    if isinstance(module, nn.GRU | MinGRU):
        gates = [int(isinstance(module, nn.GRU))]  # z, which keeps in a GRU and writes in minGRU
    else:
        gates = {"chrono": [1, 0], "chrono input": [0]}.get(str(forget_bias), [1])
    for gate in gates:
        _set_gate(module, gate, memory if gate else -memory)


def _set_gate(module: Any, gate: int, value: Any) -> None:
    """Let the biases of a gate sum to a value, (H,) or a number; gates are i, f, g, o; a GRU has r,
    z, n."""
    H = module.hidden_size
    module.bias_ih_l0.detach().split(H)[gate][:] = value
    if hasattr(module, "bias_hh_l0"):
        module.bias_hh_l0.detach().split(H)[gate].zero_()


# While ``torch.onnx.export`` records a model: for each cell ONNX's name of it, and where its gates
# stand among torch's. Torch itself would write out the steps of a recurrence, for one number of
# words.
ONNX = {"lstm": ("LSTM", (0, 3, 1, 2)), "gru": ("GRU", (1, 0, 2)), "elman": ("RNN", (0,))}


def onnx_node(recurrence: nn.Module, cell: str, inputs: Tensor) -> Tensor:
    """The states (B, T, H) of inputs (B, T, E) as a node of a graph; raises `InputError` for other
    cells."""
    check(cell in ONNX, f"ONNX has no cell {cell!r}; export one of {', '.join(ONNX)}")
    name, order = ONNX[cell]

    def reordered(weight: Tensor) -> Tensor:
        gates = weight.chunk(len(order))
        return torch.cat([gates[gate] for gate in order]).unsqueeze(0)  # (1, gates · H, ·)

    into, across, *biases = map(reordered, recurrence.parameters())
    (B, T, _), H = inputs.shape, across.shape[-1]
    attributes: dict[str, Any] = {"hidden_size": H}
    if cell == "gru":
        attributes["linear_before_reset"] = 1  # as torch computes it
    states = torch.onnx.ops.symbolic(
        name,
        (inputs.transpose(0, 1), into, across, torch.cat(biases, dim=1)),
        attrs=attributes,
        dtype=inputs.dtype,
        shape=(T, 1, B, H),
    )
    return states.squeeze(1).transpose(0, 1)  # (B, T, H)
