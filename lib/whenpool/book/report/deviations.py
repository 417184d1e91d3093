"""Numbers of our own choice that the page of deviations names."""

from whenpool.corpora.filler import SHARES
from whenpool.corpora.published import AMAZON_REVIEWS_READ


def filler_shares() -> str:
    """The part of the filler articles that each split draws from."""
    return ", ".join(f"{100 * share:.0f} % for {split}" for split, share in SHARES.items())


def amazon_reviews_read() -> str:
    """How many reviews of a category are read."""
    return f"{AMAZON_REVIEWS_READ:,}"
