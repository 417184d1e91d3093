"""The one model of the thesis: embedding, recurrent encoder, pooling, linear classifier.

Letters: B texts, T words of the longest, E units of an embedding, D units of a state (both
directions together), C classes.
"""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from whenpool.base.errors import check, check_known
from whenpool.models.encoder import Encoder, ForgetBias, start_from, word_mask
from whenpool.models.pooling import POOLINGS, TOKEN_POOLINGS, StraightThrough
from whenpool.models.registry import LISTED_CELLS


class TextClassifier(nn.Module):
    """The model of the thesis: word numbers in, logits of the classes out (§1.3, §1.4.2).

    The three steps ``embed``, ``encode`` and ``classify`` are the protocol by which probes look
    inside a model; any module that offers them, and ``forward``, can be probed. Raises `InputError`
    for an unknown pooling or cell, vectors of another shape, or options of a recurrence that a
    Transformer lacks.

    Args:
        vocabulary_size: rows of the embedding.
        classes: how many there are, C.
        pooling: a name in `whenpool.POOLINGS`; or "cls", the state of a token that a Transformer
            puts before each text; probes of the state of each word do not read such a model.
        cell, hidden_size, layers, bidirectional, masked: see `whenpool.Encoder`; the cell
            "transformer" is a `whenpool.TransformerEncoder`. With ``masked=False`` pads also reach
            the pooling, as in the authors' code, so that a text's logits depend on the batch it
            stands in.
        embedding_size: numbers of a word's vector, E.
        forget_bias: as for `whenpool.Encoder`, or "thesis": 1 for an LSTM without pooling, torch's
            initialisation for the others (§1.3.1).
        through: the pooling through which the gradient flows back, in probes as well, instead of
            ``pooling``, which is read (`whenpool.models.pooling.StraightThrough`).
        padding_index: the row of the embedding that stands for padding: it is never trained.
        vectors: (vocabulary_size, E), the embedding to start from, such as GloVe's.
        options: further ones of `whenpool.Encoder`: ``chrono_words``, ``input_bias``,
            ``orthogonal``, ``drop_connect`` and ``backward``.

    Examples:
        >>> model = TextClassifier(50, classes=2, embedding_size=8, hidden_size=16)
        >>> model(torch.randint(50, (2, 7)), torch.tensor([7, 4])).shape
        torch.Size([2, 2])
    """

    def __init__(
        self,
        vocabulary_size: int,
        classes: int,
        pooling: str = "max_attention",
        cell: str = "lstm",
        embedding_size: int = 100,
        hidden_size: int = 256,
        layers: int = 1,
        bidirectional: bool = True,
        forget_bias: ForgetBias | Literal["thesis"] = "thesis",
        padding_index: int | None = None,
        *,
        vectors: Tensor | None = None,
        through: str | None = None,
        masked: bool = True,
        **options: Any,
    ) -> None:
        super().__init__()
        check_known("pooling", pooling, TOKEN_POOLINGS)
        check_known("through", "last" if through is None else through, POOLINGS)
        check_known("cell", cell, LISTED_CELLS)
        of_token = pooling == "cls"
        check(cell == "transformer" or not of_token, "pooling 'cls' needs cell='transformer'")
        if forget_bias == "thesis":
            forget_bias = 1.0 if pooling == "last" and cell == "lstm" else None
        self.masked = masked
        self.embedding = nn.Embedding(vocabulary_size, embedding_size, padding_idx=padding_index)
        start_from(self.embedding, vectors)
        options |= {"forget_bias": forget_bias, "masked": masked}
        self.encoder: Any
        sizes = embedding_size, hidden_size
        if cell == "transformer":
            usual: Any = Encoder.__init__.__kwdefaults__
            extra = options.items() - (usual | {"forget_bias": None}).items()
            lacked = ", ".join(f"{name}={value!r}" for name, value in extra)
            check(not extra, f"cell 'transformer' does not take {lacked}; leave that out")
            from whenpool.models.transformer import TransformerEncoder

            self.encoder = TransformerEncoder(
                *sizes, layers, bidirectional=bidirectional, cls=of_token
            )
        else:
            self.encoder = Encoder(*sizes, cell, layers, bidirectional, **options)
        shape = self.encoder.output_size, bidirectional
        self.tokens_before = int(of_token)  # each text
        self.pooling = TOKEN_POOLINGS[pooling](*shape)
        if through:
            self.pooling = StraightThrough(self.pooling, POOLINGS[through](*shape))
        self.classifier = nn.Linear(self.encoder.output_size, classes)

    def forward(self, ids: Tensor, lengths: Tensor | None = None) -> Tensor:
        """(B, T) int64 word numbers, right-padded, and (B,) lengths -> (B, C) logits. Raises
        `InputError` when lengths are missing or do not fit."""
        return self.classify(self.encode(self.embed(ids), lengths), lengths)  # type: ignore[arg-type]

    def embed(self, ids: Tensor) -> Tensor:
        """(B, T) int64 -> (B, T, E)."""
        return self.embedding(ids)

    def encode(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """(B, T, E), (B,) -> (B, T, D), zeros after the end of each text; (B, 1 + T, D) with
        [CLS]."""
        return self.encoder(embedded, lengths)

    def classify(self, states: Tensor, lengths: Tensor) -> Tensor:
        """(B, T, D), (B,) -> (B, C)."""
        return self.classifier(self.pool(states, lengths)[0])

    def pool(self, states: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor | None]:
        """(B, T, D), (B,) -> the embedding of each text (B, D) and the weights (B, T) or None."""
        T = states.shape[1]
        if not self.masked:
            lengths = torch.full_like(lengths, T)
        return self.pooling(states, word_mask(lengths + self.tokens_before, T))
