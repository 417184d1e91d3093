"""Words coloured by weights; see `whenpool.explain.words`."""

from whenpool.explain.words import *  # noqa: F403
from whenpool.explain.words import __all__ as __all__
