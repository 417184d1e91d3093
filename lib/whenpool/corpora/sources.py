"""From the name of a corpus to its texts."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from os.path import isfile
from pathlib import Path
from typing import Any

from whenpool.base.errors import InputError, check, check_known
from whenpool.base.files import code_fingerprint, fingerprint, hash_of, remembered
from whenpool.base.paths import data_directory
from whenpool.corpora import downloads, own, synthetic
from whenpool.corpora.corpus import LENGTHS, Corpus
from whenpool.corpora.published import PUBLICATIONS, load_published
from whenpool.corpora.settings import SHARES, find_filler, load_filler

NAMES = ("synthetic", *PUBLICATIONS)
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class CorpusSource:
    """Where a corpus comes from; nothing is read before it is asked for.

    Examples:
        >>> find("synthetic:classes=10").label
        'synthetic:classes=10'
    """

    name: str  #: "synthetic", one of the thesis's corpora, or the path of a file
    options: tuple[tuple[str, Any], ...]  #: of the synthetic grammar, or of a file
    path: Path | None  #: the file or folder, None for the synthetic corpus
    folder: Path  #: where filler sentences may lie

    @property
    def label(self) -> str:
        """The name and options in one way of writing them, without the folder of a file."""
        return label_of(self.name, self.options)

    @property
    def is_own(self) -> bool:
        """Whether it is a file of the user's own."""
        return self.path is not None and self.name not in PUBLICATIONS

    def load(self, length: str = "any") -> Corpus:
        """The corpus with texts of one ``length``, see `load`. Raises `InputError` for files that cannot
        be read."""
        check_known("length", length, LENGTHS)
        if self.path is None:
            return synthetic.make_corpus(synthetic.Grammar(**dict(self.options)))
        if self.is_own:
            return own.load_own(self.path, **dict(self.options), length=length)
        corpus = load_published(self.name, self.path, length)
        return replace(corpus, notes=(*downloads.notes(self.name, self.folder), *corpus.notes))

    def load_filler(self) -> dict[str, list[str]]:
        """Filler sentences by split: Wikipedia's, or those of the synthetic encyclopedia for the
        synthetic corpus and for a file where there are no others. Raises `InputError` when a published
        corpus finds none, or they cannot be read."""
        if file := self.filler_file:
            return load_filler(file)
        return {split: synthetic.encyclopedia(split) for split in SHARES}

    def fingerprint(self, length: str) -> str:
        """A hash of the selected texts, their order, splits and labels."""

        def compute() -> str:
            corpus = self.load(length)
            splits = corpus.splits.values()
            parts = [part for split in splits for text, label in split for part in (str(label), text)]
            return hash_of(*corpus.classes, *(str(len(split)) for split in splits), *parts)

        origin = fingerprint(self.path) if self.path else "synthetic"
        identity = hash_of("texts", origin, repr(self.options), length, code_fingerprint(_HERE))
        return remembered(identity, compute)

    def filler_fingerprint(self) -> str:
        """A hash of the filler sentences and their splits; raises as `load_filler`."""
        file = self.filler_file
        identity = hash_of("filler", fingerprint(file) if file else "", code_fingerprint(_HERE))
        return remembered(identity, lambda: hash_of(*map(repr, sorted(self.load_filler().items()))))

    @property
    def filler_name(self) -> str:
        """What a line of provenance calls the filler."""
        return file.name if (file := self.filler_file) else "invented encyclopedia"

    @property
    def filler_file(self) -> Path | None:
        """Where filler sentences lie; None where invented ones are taken. Raises as `load_filler`."""
        try:
            return find_filler(self.folder) if self.path else None
        except InputError:
            if self.is_own:
                return None
            raise


def load(
    name: str | Path, directory: str | Path | None = None, length: str | None = None, **options: Any
) -> Corpus:
    """Load a corpus by name. Raises `InputError` for an unknown name or option, or files that are missing
    or cannot be read.

    Args:
        name: "synthetic", "imdb", "yahoo", "amazon", "yelp", or the path of a ``.csv``, ``.tsv``
            or ``.jsonl`` file. Options may follow a colon, ``synthetic:classes=10,density=0.1``
            or ``reviews.csv:text_column=body,label_column=stars,balanced=no``, which keeps all texts
            of each class instead of as many as the rarest one has.
        directory: where the published corpora lie; default: ``WHENPOOL_DATA``.
        length: "long" (over 100 words; the default for the thesis's corpora), "short" (at most
            100) or "any" (the default for others).
        options: the same options as arguments.

    Examples:
        >>> corpus = load("synthetic:classes=10,train=60,validation=20,test=40")
        >>> len(corpus.classes)
        10
    """
    source = find(str(name), directory, options)
    return source.load(length or ("long" if source.name in PUBLICATIONS else "any"))


def find(
    name: str, directory: str | Path | None = None, options: Mapping[str, Any] | None = None
) -> CorpusSource:
    """Resolve a corpus name, with its options, to its source. Raises `InputError` for an unknown name or
    option, or files that are not there.

    Examples:
        >>> find("synthetic", options={"density": 0.1}).options
        (('density', 0.1),)
    """
    name, given = parsed(name)
    given |= options or {}
    folder = Path(directory) if directory is not None else data_directory()
    if name == "synthetic":
        return CorpusSource(name, checked(synthetic.Grammar, given, "synthetic corpus"), None, folder)
    if name in PUBLICATIONS:
        check(not given, f"corpus {name!r} takes no options; leave out {', '.join(given)}")
        publication = PUBLICATIONS[name]
        if (path := publication.find(folder)) is None:
            advice = f"run `whenpool data fetch {name}`, or name its folder with --data or WHENPOOL_DATA"
            raise InputError(f"corpus {name!r}: {publication.files[0]} is not in {folder}; {advice}")
        return CorpusSource(name, (), path, folder)
    path = Path(os.path.expanduser(name))  # which leaves alone what names nobody
    if path.suffix.lower() not in own.SUFFIXES:
        if isfile(path):
            tagged = "if it holds tagged words, add --chapter sequence_labelling"
            raise InputError(f"{path} is not a {own.FORMATS} file of texts; {tagged}")
        choices = f"{', '.join(NAMES)}, or give the path of a {own.FORMATS} file"
        raise InputError(f"corpus {name!r} is unknown; choose one of {choices}")
    check(isfile(path), f"corpus file {path} does not exist; check its path")
    for option in given:
        check_known(f"option of {path}", option, ("text_column", "label_column", "balanced"))
    return CorpusSource(name, tuple(sorted(given.items())), path, folder)


def parsed(spec: str) -> tuple[str, dict[str, Any]]:
    """The name of a corpus, and the options after it; raises `InputError` for another form."""
    match = re.fullmatch(r"(.+?)(?::(\w+=[^,=]*(?:,\w+=[^,=]*)*))?", spec)
    if not match:
        raise InputError(f"corpus {spec!r:.200} must be written as name:option=value,option=value")
    return match[1], dict(item.split("=", 1) for item in match[2].split(",")) if match[2] else {}


def checked(grammar: Any, given: Mapping[str, Any], what: str) -> tuple[tuple[str, Any], ...]:
    """The options of a grammar, such as `synthetic.Grammar`, in their own types and in one order."""
    kinds: dict[str, Any] = {field.name: type(field.default) for field in fields(grammar)}
    options = {}
    for key, value in given.items():
        check(key in kinds, f"the {what} has no option {key!r:.60}; choose one of {', '.join(kinds)}")
        try:
            options[key] = kinds[key](value)
        except ValueError:
            raise InputError(f"option {key} of the {what} must be a number, not {value!r:.60}") from None
    grammar(**options)  # raises where a value is out of range
    return tuple(sorted(options.items()))


def label_of(name: str, options: tuple[tuple[str, Any], ...]) -> str:
    """See `CorpusSource.label`."""
    written = ",".join(f"{key}={value}" for key, value in options)
    return ":".join(filter(None, (Path(name).name, written)))


def statistics_of(source: CorpusSource, length: str) -> dict[str, Any]:
    """Counts of a corpus's texts and of their words between white space, remembered in the cache."""

    def measure() -> str:
        corpus = source.load(length)
        words = [len(text.split()) for split in corpus.splits.values() for text in split.texts]
        sizes = {f"{name}_size": len(split) for name, split in corpus.splits.items()}
        lengths = {"average_length": sum(words) / len(words), "max_length": max(words)}
        counts = {"classes": len(corpus.classes), **lengths, **sizes}
        return json.dumps(counts | {"complete": corpus.complete})

    identity = hash_of("statistics", source.fingerprint(length), code_fingerprint(_HERE))
    return json.loads(remembered(identity, measure))
