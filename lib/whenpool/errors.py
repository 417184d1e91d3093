"""The one exception that stands for a mistake of the user's, told in one line."""


class InputError(ValueError):
    """Something the user gave cannot be used: the message says what, where, and the mend.

    The command line prints the message alone and exits with 2; in a notebook it reads as an
    ordinary ``ValueError``. What other libraries said stays in it, on the same line.
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(line.strip() for line in message.splitlines()))


class BookError(Exception):
    """A chapter failed, or the pages could not be built; the message says which and where."""
