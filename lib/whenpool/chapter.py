"""What a chapter of the book opens with; see `whenpool.book.chapter`."""

from whenpool.base.errors import InputError

try:
    from whenpool.book.chapter import Chapter, glue, open_chapter
except ModuleNotFoundError as error:
    raise InputError(f"a chapter needs {error.name}: pip install 'whenpool[notebook]'") from None

__all__ = ["Chapter", "glue", "open_chapter"]
