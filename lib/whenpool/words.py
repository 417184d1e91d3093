"""Words coloured by weights, see `whenpool.explain.words`."""

from whenpool.explain.words import *  # noqa: F403
from whenpool.explain.words import per_word, strip, strips  # noqa: F401
