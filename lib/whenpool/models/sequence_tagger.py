"""The tagger: embedding, recurrent encoder, and a linear classifier on the state of every word.

Letters: B sentences, T words of the longest, F columns of numbers of a word, E units of an input, D
units of a state (both directions together), C tags.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from whenpool.base.errors import InputError
from whenpool.models.encoder import Encoder, ForgetBias, start_from, word_mask


class Spelling(nn.Module):
    """What the letters of a word say of it: a convolution over three letters at a time, then the
    largest value of each of the ``filters``. ``letters`` (forms, L) int64 are the numbers of the
    letters of each written form, which has one at least, 0 behind its last."""

    letters: Tensor

    def __init__(self, letters: Tensor, filters: int, letter_size: int = 25) -> None:
        super().__init__()
        self.register_buffer("letters", letters, persistent=False)
        self.embedding = nn.Embedding(int(letters.max()) + 1, letter_size, padding_idx=0)
        self.convolution = nn.Conv1d(letter_size, filters, 3, padding=1)

    def forward(self, forms: Tensor) -> Tensor:
        """(B, T) int64 numbers of forms -> (B, T, filters)."""
        different, number = forms.unique(return_inverse=True)  # a form is read once in a batch
        letters = self.letters[different]  # (U, L)
        values = self.convolution(self.embedding(letters).transpose(1, 2))  # (U, filters, L)
        behind = letters.eq(0).unsqueeze(1)
        return values.masked_fill(behind, -torch.inf).amax(2)[number]


class SequenceTagger(nn.Module):
    """Word numbers in, logits of the tags of each word out, by the three steps of
    `whenpool.probes`. Raises `InputError` for an unknown cell, or vectors of another shape.

    Args:
        vocabulary_size, embedding_size: rows and columns of the embedding of words.
        tags: how many there are, C.
        cell, hidden_size, layers, bidirectional, forget_bias: see `whenpool.Encoder`.
        features: rows of the embedding of each further column of numbers, such as suffixes and
            shapes (`paper.corpora.tagged`); E = embedding_size + feature_size for each of them.
        spelling: (forms, L), see `Spelling`; the last number of a word is then that of its written
            form.
        filters: of the convolution over letters, E grows by as many.
        dropout: in training, of inputs and of states.
        padding_index: the row of each embedding that stands for padding: it is never trained.
        vectors: (vocabulary_size, embedding_size), the embedding of words to start from.

    Examples:
        >>> tagger = SequenceTagger(50, tags=5, embedding_size=8, hidden_size=16)
        >>> ids, lengths = torch.randint(50, (2, 7)), torch.tensor([7, 4])
        >>> tagger(ids, lengths).shape
        torch.Size([2, 7, 5])
    """

    def __init__(
        self,
        vocabulary_size: int,
        tags: int,
        cell: str = "lstm",
        embedding_size: int = 100,
        hidden_size: int = 128,
        layers: int = 1,
        bidirectional: bool = True,
        forget_bias: ForgetBias = None,
        padding_index: int | None = None,
        *,
        features: Sequence[int] = (),
        feature_size: int = 25,
        spelling: Tensor | None = None,
        filters: int = 50,
        dropout: float = 0.0,
        vectors: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, embedding_size, padding_idx=padding_index)
        tables = (nn.Embedding(rows, feature_size, padding_idx=padding_index) for rows in features)
        self.features = nn.ModuleList(tables)
        start_from(self.embedding, vectors)
        inputs = embedding_size + feature_size * len(features)
        if spelling is not None:
            self.features.append(Spelling(spelling, filters))
            inputs += filters
        self.encoder = Encoder(inputs, hidden_size, cell, layers, bidirectional, forget_bias)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(self.encoder.output_size, tags)

    def forward(self, ids: Tensor, lengths: Tensor | None = None) -> Tensor:
        """(B, T) or (B, T, F) int64 numbers, right-padded, and (B,) lengths -> (B, T, C) logits;
        those after the end of a sentence mean nothing."""
        return self.classify(self.encode(self.embed(ids), lengths), lengths)  # type: ignore[arg-type]

    def embed(self, ids: Tensor) -> Tensor:
        """(B, T) or (B, T, F) int64 -> (B, T, E)."""
        columns = ids.unsqueeze(-1).unbind(-1) if ids.dim() == 2 else ids.unbind(-1)
        tables = (self.embedding, *self.features)
        if len(columns) != len(tables):
            counts = f"{len(columns)} numbers, but the tagger reads {len(tables)}"
            raise InputError(f"each word has {counts}")
        return torch.cat([table(of) for table, of in zip(tables, columns, strict=True)], dim=-1)

    def encode(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """(B, T, E), (B,) -> (B, T, D), zeros after the end of each sentence."""
        return self.encoder(self.dropout(embedded), lengths)

    def classify(self, states: Tensor, lengths: Tensor) -> Tensor:
        """(B, T, D), (B,) -> (B, T, C)."""
        return self.classifier(self.dropout(states))

    def loss(self, ids: Tensor, lengths: Tensor, tags: Tensor) -> Tensor:
        """The cross-entropy of a batch, averaged over its words; see `tagging_loss`."""
        return tagging_loss(self(ids, lengths), lengths, tags)


def tagging_loss(logits: Tensor, lengths: Tensor, tags: Tensor, reduction: str = "mean") -> Tensor:
    """Cross-entropy of logits (B, T, C) over the words of sentences whose tag is not negative."""
    counted = word_mask(lengths, logits.shape[1]) & (tags >= 0)
    targets = tags.masked_fill(~counted, -100)
    return functional.cross_entropy(logits.transpose(1, 2), targets, reduction=reduction)
