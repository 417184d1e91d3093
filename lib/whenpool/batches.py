"""Batches of texts; see `whenpool.corpora.batches`."""

from whenpool.corpora.batches import PADDING_INDEX, UNKNOWN_INDEX, Batch, Ragged, Texts

__all__ = ["PADDING_INDEX", "UNKNOWN_INDEX", "Batch", "Ragged", "Texts"]
