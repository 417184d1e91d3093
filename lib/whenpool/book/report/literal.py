"""What a user wrote, such as the name of a file, shown on a page letter by letter."""

import re
from html import escape, unescape
from pathlib import Path
from typing import Any

_MARKS = re.compile(r"[\\`*_{}\[\]<>|&$~#]|:(?=:)|^\W|(?<=^\d)[.)]")
_ESCAPED = re.compile(r"&amp;(#\d+;)")


def literal(text: Any) -> str:
    """A text of which nothing is markup, neither in Markdown, nor in its tables, nor in HTML: each mark
    is a numbered character reference, and there are no ends of lines.

    Examples:
        >>> literal("a|b <i>")
        'a&#124;b &#60;i&#62;'
    """
    return _MARKS.sub(lambda mark: f"&#{ord(mark[0])};", " ".join(str(text).split()))


def html_of(text: str) -> str:
    """A text as HTML, where what `literal` wrote stays as it is."""
    return _ESCAPED.sub(r"&\1", escape(text, quote=False))


def plain(text: str) -> str:
    """The same for a terminal."""
    return unescape(text)


def corpus_name(name: Any) -> str:
    """A corpus as a page names it: literally, and without the folder of a file."""
    file, colon, options = str(name).partition(":")
    return literal(f"{Path(file).name}{colon}{options}")
