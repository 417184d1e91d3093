"""The exceptions that stand for what the user can mend, told in one line."""


class InputError(ValueError):
    """Something the user gave cannot be used: the message says what, where, and the mend.

    The command line prints the message alone and exits with 2; in a notebook it reads as an
    ordinary ``ValueError``. What other libraries said stays in it, on the same line.
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(line.strip() for line in message.splitlines()))


class StorageError(InputError):
    """A file cannot be written: the disk is full or the folder read-only. No other run would fare
    better, so an engine stops."""


class BookError(Exception):
    """A chapter failed, or the pages could not be built; the message says which and where."""
