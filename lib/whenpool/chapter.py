"""What a chapter opens with, see `whenpool.book.chapter`."""

from whenpool.book.chapter import Chapter, Provenance, glue, open_chapter  # noqa: F401
