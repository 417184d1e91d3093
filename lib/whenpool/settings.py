"""Where a text stands among filler; see `whenpool.corpora.settings`."""

from whenpool.corpora.settings import *  # noqa: F403
from whenpool.corpora.settings import __all__ as __all__
