"""How much each window of words matters to a prediction: normalised word importance (thesis §1.9).

For a `whenpool.TextClassifier` it costs about half: what a recurrence has read before a window does not
depend on the window. So a text is read once, in segments, and with a window replaced it is read again only
from the segment in which the window begins, with the state that the text itself has there. All rows move on
together, a segment at a time, and join the batch when their segment comes, each direction in its order of
reading. Pooling never copies the states that windows share: their scores and weighted sums are products of
matrices.

Letters: B texts, T words of the longest, n words of one text, k words of a window, W windows of the longest
text, C classes, E units of an input, H units of a state of one direction, D units of both, U texts that are
read, R rows, each a text with a window replaced, L words of a segment.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeGuard

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.utils._pytree import tree_leaves

from whenpool.base.errors import InputError, check
from whenpool.corpora.batches import UNKNOWN_INDEX
from whenpool.models import pooling
from whenpool.models.cells import TORCH_CELLS, Cell
from whenpool.models.encoder import Encoder, word_mask
from whenpool.models.text_classifier import TextClassifier
from whenpool.probes.protocol import check_labels, checked_batch, evaluating, interpolate

ROUNDING = 64  # Importances that differ by fewer rounding errors than this are equal


def nwi(
    model: nn.Module, ids: Tensor, lengths: Tensor, labels: Tensor, k: int = 5,
    unknown_index: int = UNKNOWN_INDEX, points: int = 100, max_megabytes: float = 512.0,
) -> Tensor:  # fmt: skip
    """Normalised word importance by position, Algorithm 1 of the thesis (§1.9.3).

    δ_t is the importance of the t-th window, see `window_importance`. A text's profile is δ divided by
    its maximum, less the minimum of these quotients, read by linear interpolation at ``points`` places
    from the first window to the last; so it lies in [0, 1]. It is 0 throughout where all windows matter
    alike up to rounding, or there is only one. Raises `InputError` as `window_importance`.

    Args:
        model: maps ids (B, T) and lengths (B,) to logits (B, C). For a `whenpool.TextClassifier` of one
            layer about half of the states are reused. It is probed in evaluation mode.
        ids: (B, T) int64, right-padded.
        lengths: (B,), words of each text, at least ``k``.
        labels: (B,) int64, the classes whose probability is watched.
        k: words that are replaced at once.
        unknown_index: the number of the word put in their place: 0, ``<unk>`` in this library's
            vocabularies; with another vocabulary, pass its own.
        points: places at which a profile is read, at least 1.
        max_megabytes: about how much memory the windows that are computed at once may take.

    Returns:
        (B, points), in [0, 1]

    Examples:
        >>> model = whenpool.TextClassifier(50, classes=2, embedding_size=8, hidden_size=16)
        >>> ids, lengths = torch.randint(50, (2, 40)), torch.tensor([40, 25])
        >>> nwi(model, ids, lengths, torch.tensor([0, 1]), k=5).shape
        torch.Size([2, 100])
    """
    plain, importance = _of_labels(model, ids, lengths, labels, k, unknown_index, max_megabytes)
    largest = importance.nan_to_num(-torch.inf).amax(1, keepdim=True)
    smallest = importance.nan_to_num(torch.inf).amin(1, keepdim=True)
    scale = torch.where(largest - smallest > rounding_error(model, plain), largest, torch.inf)
    return interpolate((importance - smallest) / scale, lengths // k, points).to(_dtype(model))


def window_importance(
    model: nn.Module, ids: Tensor, lengths: Tensor, labels: Tensor, k: int = 5,
    unknown_index: int = UNKNOWN_INDEX, max_megabytes: float = 512.0, reuse: bool = True,
) -> Tensor:  # fmt: skip
    """How much log P(y | text) changes, up or down, when a window of k words is replaced: (B, W), in nats,
    NaN after the last full window of each text.

    Windows do not overlap: a text of n words has ⌊n/k⌋, and up to k - 1 words after the last one are
    never replaced. The arguments are those of `nwi`; without ``reuse`` every text is read in full,
    whatever the model. Raises `InputError` for a text shorter than ``k``, ``k`` below 1, or a word or
    batch that does not fit.

    Examples:
        >>> model = whenpool.TextClassifier(50, classes=2, embedding_size=8, hidden_size=16)
        >>> ids, lengths = torch.randint(50, (2, 40)), torch.tensor([40, 25])
        >>> window_importance(model, ids, lengths, torch.tensor([0, 1]), k=5).shape
        torch.Size([2, 8])
    """
    how = (k, unknown_index, max_megabytes, reuse)
    return _of_labels(model, ids, lengths, labels, *how)[1].to(_dtype(model))


def _of_labels(
    model: nn.Module, ids: Tensor, lengths: Tensor, labels: Tensor, *how: Any
) -> tuple[Tensor, Tensor]:
    """log P(y | text), (B,), and how much it changes with each window, (B, W); float64."""
    labels = checked_batch(model, ids, lengths, labels)[2]
    plain, changes = occlusion(model, ids, lengths, *how)
    check_labels(labels, plain)
    text = torch.arange(len(labels), device=labels.device)
    return plain[text, labels], changes[text, :, labels].abs()


@torch.no_grad()
def occlusion(
    model: Any, ids: Tensor, lengths: Tensor, k: int, unknown_index: int = UNKNOWN_INDEX,
    max_megabytes: float = 512.0, reuse: bool = True,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """log P(class | text) of each class, (B, C), and by how much it changes, with its sign, when each window
    is replaced, (B, W, C), NaN behind; the arguments are those of `window_importance` (§1.9.3).

    The model is called as ``model(ids, lengths)``, with T columns unless its attribute ``masked`` says that
    it does not read its padding. In float64, since a sure model's log-probabilities are lost in float32.
    """
    ids, lengths, _ = checked_batch(model, ids, lengths)
    _check(model, lengths, k, unknown_index)
    (B, T), cut = ids.shape, getattr(model, "masked", False) is True
    with evaluating(model):
        logits, made = _counted(model, ids, lengths)
        check_labels(ids.new_zeros(B), logits)
        plain = logits.double().log_softmax(-1)  # (B, C)
        exists = torch.arange(int(lengths.max()) // k, device=ids.device) < (lengths // k).unsqueeze(1)
        order = torch.argsort(lengths, descending=True, stable=True)
        text, window = exists[order].nonzero().unbind(1)
        text = order[text]
        by_reuse, max_bytes = reuse and can_reuse(model), max_megabytes * 1e6
        each = made / B + 4 * T * ids.element_size()  # bytes that a text takes
        fit = rows_that_fit(model, T, max_bytes) if by_reuse else max_bytes / each
        rows = max(1, int(min(len(text), fit)))  # texts with a window replaced that are read at once
        changes = plain.new_full((*exists.shape, plain.shape[1]), torch.nan)  # (B, W, C)
        for of, which in zip(text.split(rows), window.split(rows), strict=True):
            words = ids[:, : int(lengths[of[0]])] if cut else ids  # up to the longest of these
            if by_reuse:
                occluded = occluded_logits(model, words, lengths, of, which, k, unknown_index)
            else:
                hidden = torch.arange(words.shape[1], device=ids.device) // k == which.unsqueeze(1)
                occluded = model(words[of].masked_fill(hidden, unknown_index), lengths[of])
            changes[of, which] = occluded.double().log_softmax(-1) - plain[of]
    return plain, changes


def rounding_error(model: nn.Module, plain: Tensor) -> Tensor:
    """Changes (B, 1) of log P(y | text), (B,), that are no more than rounding: an error of the logits moves
    log p by up to 1 - p of itself."""
    return -torch.expm1(plain).unsqueeze(1) * torch.finfo(_dtype(model)).eps * ROUNDING


def _check(model: nn.Module, lengths: Tensor, k: int, unknown_index: int) -> None:
    check(k >= 1, f"k, the words of a window, must be at least 1, not {k}")
    for text in (lengths < k).nonzero().flatten().tolist():
        n = int(lengths[text])
        short = f"text {text} has {n} words, fewer than one window of k={k}"
        raise InputError(f"{short}; leave such texts out, or take k={n} or less")
    rows = getattr(getattr(model, "embedding", None), "num_embeddings", unknown_index + 1)
    wrong = f"unknown_index is {unknown_index}, but the model's embedding has {rows} rows"
    check(0 <= unknown_index < rows, f"{wrong}; give the number of <unk> in your vocabulary")


def _dtype(model: nn.Module) -> torch.dtype:
    """That of the model's parameters."""
    kinds = (p.dtype for p in model.parameters() if p.is_floating_point())
    return next(kinds, torch.get_default_dtype())


def _counted(model: nn.Module, ids: Tensor, lengths: Tensor) -> tuple[Tensor, float]:
    """Logits, and the bytes that the parts of the model put out: at least what it needs at once."""
    sizes = []

    def add(module: nn.Module, _: Any, output: Any) -> None:
        size = sum(v.nbytes for v in tree_leaves(output) if isinstance(v, Tensor))
        # a recurrence also holds its gates, which are up to four times its states
        sizes.append(size * (6 if isinstance(module, nn.RNNBase | Cell) else 2))

    hooks = [module.register_forward_hook(add) for module in model.modules()]
    try:
        return model(ids, lengths), sum(sizes)
    finally:
        for hook in hooks:
            hook.remove()


# Reading texts again from a window on

SEGMENTS, SEGMENT = 25, 10
"""Into how many segments a text is cut, and the fewest words of one: shorter segments cost more calls,
longer ones read more words in vain."""
ROWS = 512  # Rows at once at most: more make no step faster
WASTE = 1.5
"""What a process holds for a byte in use, measured: tensors of many sizes leave holes between them."""


def can_reuse(model: nn.Module) -> TypeGuard[TextClassifier]:
    """Whether a model's states are known to split: a masked `TextClassifier` of one layer of torch's, with
    one of this library's poolings, whose steps and parts are as they were made; if in doubt, no."""
    if type(model) is not TextClassifier or type(model.encoder) is not Encoder:
        return False
    parts = (model, model.embedding, model.encoder, model.pooling)
    recurrences = model.encoder.layers[0]
    split = (pooling.LastState, pooling.MeanPool, pooling.MaxPool, pooling.Attention, pooling.MaxAttention,
             pooling.LastAttention)  # fmt: skip
    return (
        not {"forward", "embed", "encode", "classify", "pool"} & set(vars(model))
        and not any(part._forward_hooks or part._forward_pre_hooks for part in parts)
        and model.masked
        and model.encoder.masked
        and type(model.embedding) is nn.Embedding
        and type(model.pooling) in split  # which `_pooled` knows; a subclass is none of them
        and model.pooling.bidirectional == (len(recurrences) == 2)
        and len(model.encoder.layers) == 1
        and all(type(recurrence) in TORCH_CELLS.values() for recurrence in recurrences)
    )


def rows_that_fit(model: TextClassifier, words: int, max_bytes: float) -> int:
    """How many texts of so many words, each with a window replaced, may be read at once."""
    H, E, L = model.encoder.hidden_size, model.encoder.input_size, _segment(words)
    kept = (words + 2 * L) * H  # the words of both directions that are read again
    call = L * (3 * E + 7 * H)  # inputs; gates and states
    row = kept + call + 12 * words + 12 * H  # products, norms, scores and weights; states carried
    return int(min(ROWS, max_bytes / (row * model.classifier.weight.element_size() * WASTE)))


def occluded_logits(
    model: TextClassifier, ids: Tensor, lengths: Tensor, texts: Tensor, windows: Tensor, k: int, unknown: int
) -> Tensor:  # fmt: skip
    """Logits (R, C) of some texts of a batch (B, T), each with one window of k words replaced by the word
    ``unknown``; ``texts`` and ``windows`` (R,) say which, and those of one text follow one another."""
    T = ids.shape[1]
    hidden = torch.arange(T, device=ids.device) // k == windows.unsqueeze(1)
    occluded = ids[texts].masked_fill(hidden, unknown)
    whole, of, counts = texts.unique_consecutive(return_inverse=True, return_counts=True)
    rows = torch.cat([ids[whole], occluded])  # (U + R, T)
    n = lengths[torch.cat([whole, texts])].unsqueeze(1)
    halves = [
        _read(model, module, rows, n, of, windows, k, counts.tolist(), backward=number == 1)
        for number, module in enumerate(model.encoder.layers[0])
    ]
    return model.classifier(_pooled(model.pooling, halves, word_mask(lengths[texts], T)))


class Piece(NamedTuple):
    """The states of some rows in one segment, read again."""

    rows: Tensor  # (R',) int64, numbers of the rows
    places: Tensor  # (R', ≤ L) int64, positions in the text; T behind a row's last step
    states: Tensor  # (R', ≤ L, H)


@dataclass
class HalfStates:
    """One direction's states of R rows: those of their texts, but where a row was read again."""

    shared: Tensor  # (U, T, H), the states of the texts themselves; zeros behind their ends
    counts: list[int]  # the rows of each text, which stand together
    again: Tensor  # (R, T) bool, where a row was read again; each of those is in just one piece
    peaks: Tensor  # (R, H), the largest value of each unit
    last: Tensor  # (R, H), the state that has read the whole text
    pieces: list[Piece]

    def products(self, queries: Tensor) -> Tensor:
        """h_t·q, with a query (R, H) for each row -> (R, T)."""
        of_texts = zip(queries.split(self.counts), self.shared, strict=True)
        products = torch.cat([q @ h.T for q, h in of_texts])
        of_pieces = (torch.bmm(states, queries[rows].unsqueeze(-1)) for rows, _, states in self.pieces)
        return self._written_over(products, (values.squeeze(-1) for values in of_pieces))

    def norms(self) -> Tensor:
        """‖h_t‖ -> (R, T)."""
        counts, norm = torch.tensor(self.counts, device=self.shared.device), torch.linalg.vector_norm
        norms = norm(self.shared, dim=-1).repeat_interleave(counts, 0)
        return self._written_over(norms, (norm(piece.states, dim=-1) for piece in self.pieces))

    def weighted_sum(self, weights: Tensor) -> Tensor:
        """Σ_t w_t h_t, with weights (R, T) -> (R, H)."""
        of_texts = weights.masked_fill(self.again, 0.0).split(self.counts)
        sums = torch.cat([w @ h for w, h in zip(of_texts, self.shared, strict=True)])
        padded = pad(weights, (0, 1))
        for rows, places, states in self.pieces:
            in_piece = padded[rows.unsqueeze(1), places].unsqueeze(1)  # (R', 1, L)
            sums[rows] += torch.bmm(in_piece, states).squeeze(1)
        return sums

    def _written_over(self, values: Tensor, of_pieces: Iterable[Tensor]) -> Tensor:
        """Values (R, T) of the texts' states, those of each piece written over them."""
        values = pad(values, (0, 1))  # (R, T + 1): steps behind the end go to column T
        for (rows, places, _), again in zip(self.pieces, of_pieces, strict=True):
            values[rows.unsqueeze(1), places] = again
        return values[:, :-1]


def _read(
    model: TextClassifier, recurrence: Any, ids: Tensor, n: Tensor, of: Tensor, windows: Tensor, k: int,
    counts: list[int], backward: bool,
) -> HalfStates:  # fmt: skip
    """What one direction makes of U texts and R rows, ids (U + R, T) and n (U + R, 1) words."""
    T, U, H, L = ids.shape[1], len(counts), recurrence.hidden_size, _segment(ids.shape[1])
    position = torch.arange(T, device=ids.device)
    # in order of reading, and back
    step = n - 1 - position if backward else position.expand(len(ids), -1)
    places = step.masked_fill(position >= n, T)
    inputs = ids.gather(1, places.clamp(max=T - 1))
    first = (n[U:, 0] - (windows + 1) * k if backward else windows * k) // L  # segment of each row
    again = step[U:] >= (first * L).unsqueeze(1)
    joins, steps = pad(first, (U, 0)).cpu(), n.squeeze(1).cpu()
    base = torch.cat([torch.arange(U, device=of.device), of])  # the text that begins likewise

    weights = model.classifier.weight
    lowest = torch.finfo(weights.dtype).min
    pair = isinstance(recurrence, nn.LSTM)
    carried = [weights.new_zeros(len(ids), H) for _ in range(2 if pair else 1)]  # h, and c of an LSTM
    peaks, last = weights.new_full((len(ids), H), lowest), weights.new_zeros(len(ids), H)
    shared, pieces = weights.new_zeros(U, T + 1, H), []
    for segment in range(-(-T // L)):
        start, stop = segment * L, (segment + 1) * L
        new = (joins == segment).nonzero().squeeze(1).to(ids.device)
        for part in (*carried, peaks):
            part[new] = part[base[new]]
        active = ((joins <= segment) & (steps > start)).nonzero().squeeze(1)
        left, texts = steps[active] - start, int((active < U).sum())
        rows = active.to(ids.device)
        given = tuple(part[rows].unsqueeze(0) for part in carried)
        states, end = recurrence(model.embed(inputs[rows, start:stop]), given if pair else given[0])
        for part, value in zip(carried, end if pair else (end,), strict=True):
            part[rows] = value.squeeze(0)
        where, width = places[rows, start:stop], states.shape[1]
        last[rows] = states[torch.arange(len(rows)), left.clamp(max=width) - 1]
        real = states.masked_fill((where == T).unsqueeze(2), lowest) if left.min() < width else states
        peaks[rows] = torch.maximum(peaks[rows], real.amax(1))
        shared[rows[:texts].unsqueeze(1), where[:texts]] = states[:texts]
        pieces.append(Piece(rows[texts:] - U, where[texts:], states[texts:]))
    shared[:, T] = 0.0  # what steps behind the end have left there
    return HalfStates(shared[:, :T], counts, again, peaks[U:], last[U:], pieces)


def _segment(words: int) -> int:
    return max(SEGMENT, words // SEGMENTS)


def _pooled(pool: Any, halves: Sequence[HalfStates], mask: Tensor) -> Tensor:
    """What a pooling makes of the states of one or two directions, mask (R, T) -> (R, D)."""
    kind = type(pool)
    if kind is pooling.LastState:
        return torch.cat([half.last for half in halves], dim=-1)
    if kind is pooling.MaxPool:
        return torch.cat([half.peaks for half in halves], dim=-1)
    if kind is pooling.MeanPool:
        words = mask.to(halves[0].shared.dtype)
        weights = [words / words.sum(1, keepdim=True)] * len(halves)
    elif kind is pooling.LastAttention:  # each direction weighs its own states
        scores = [_over(half.products(half.last), half.norms()) for half in halves]
        weights = [pooling.softmax_over_words(of, mask) for of in scores]
    else:
        queries = [half.peaks for half in halves]
        if kind is pooling.Attention:
            queries = [query.expand_as(halves[0].peaks) for query in pool.query.chunk(len(halves))]
        score: Any = sum(half.products(q) for half, q in zip(halves, queries, strict=True))
        if kind is pooling.MaxAttention:
            norms = [half.norms() for half in halves]
            score = _over(score, torch.hypot(*norms) if len(norms) == 2 else norms[0])
        weights = [pooling.softmax_over_words(score, mask)] * len(halves)
    return torch.cat([half.weighted_sum(w) for half, w in zip(halves, weights, strict=True)], dim=-1)


def _over(products: Tensor, norms: Tensor) -> Tensor:
    return products / norms.clamp(min=torch.finfo(norms.dtype).tiny)
