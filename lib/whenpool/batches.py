"""Batches of texts; see `whenpool.corpora.batches`."""

from whenpool.corpora.batches import Batch, Ragged, Texts

__all__ = ["Batch", "Ragged", "Texts"]
