"""Where a text stands among filler, see `whenpool.corpora.settings`."""

from whenpool.corpora.settings import SETTINGS, SHARE, check_setting, compose, filler_lengths  # noqa: F401
