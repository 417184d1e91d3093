"""The exceptions for what the user can correct, told in one line."""

import re
from collections.abc import Collection
from typing import Any

LONGEST = 2_000  # Letters of a message, whatever was quoted in it
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class InputError(ValueError):
    """Something the user gave cannot be used: the message, one line, says what, where, and what to
    do. The command line prints it alone and exits with 2.

    Examples:
        >>> try:
        ...     whenpool.POOLINGS["attention"]()
        ... except InputError as error:
        ...     print(error)
        attention learns a query; give it the size of a state, size=D
    """

    def __init__(self, message: str) -> None:
        line = " ".join(line.strip() for line in message.replace("\t", r"\t").splitlines())
        line = _CONTROL.sub("\ufffd", line)  # a terminal would obey, or could not show it
        if len(line) > LONGEST:
            line = f"{line[: LONGEST - 500]} … {line[-490:]}"
        super().__init__(line)


def check(holds: Any, message: str) -> None:
    """Raises `InputError` with a message unless what must hold does."""
    if not holds:
        raise InputError(message)


def check_known(what: str, name: Any, names: Collection[str]) -> None:
    """Raises `InputError` for a name that there is not, with those there are."""
    check(name in names, f"{what} {name!r} is unknown; choose one of {', '.join(names)}")


class StorageError(InputError):
    """A file cannot be written: the disk is full or the folder read-only; so an engine stops."""


class BookError(Exception):
    """A chapter failed, or the pages could not be built; the message says which and where."""
