"""What a chapter of the book opens with; see `whenpool.book.chapter`."""

from whenpool.book.chapter import Chapter, Provenance, glue, open_chapter

__all__ = ["Chapter", "Provenance", "glue", "open_chapter"]
