"""Batches of texts, see `whenpool.corpora.batches`."""

from whenpool.corpora.batches import Batch, Ragged, Texts  # noqa: F401
