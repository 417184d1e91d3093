"""Packs what trainings and probes read into a folder, for a machine that has neither the
publishers' files nor torchtext: there, ``whenpool run --packed FOLDER`` with the same other options
executes them.

    whenpool pack FOLDER --profile paper --corpus imdb --sizes 1000,10000 --data folder
"""

import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import torch

from paper.corpora.dataset import SPLITS, encode, encoded_file, keep_encoded
from paper.runs.kinds import Training
from paper.runs.run import Place, Run, key
from whenpool.base.errors import InputError, StorageError, check
from whenpool.base.files import POINTER, fingerprint, write_atomically
from whenpool.corpora.tokens import WordVectors, keep_vectors, load_vectors

KEYS = "keys.txt"  # In a packed folder: of trainings on all the texts that were packed


def pack(runs: Iterable[Run], place: Place, folder: Path) -> Iterator[str]:
    """Write what some trainings and probes read: their corpora as numbers, the vectors of their
    words, and pointers in the place of the publishers' files, so that runs have the same keys there
    as here. Yields a line for each part, and for runs that are left out. Raises `InputError` when
    no run is left, or the folder holds what was packed before, of which a part would be lost, or
    the data themselves."""
    places = (folder.resolve(), place.data.resolve()), ((folder / "cache").resolve(), place.cache)
    apart = all(mine != other.resolve() for mine, other in places)
    check(apart, f"{folder} holds the data or the cache themselves; pack into a new folder")
    before = f"{folder} is packed already; pack all that is needed at once, into a new folder"
    check(not (folder / KEYS).exists(), before)
    runs = list(runs)
    ready: dict[tuple[str, str], list[Training]] = defaultdict(list)
    trainings = [run.training for run in runs if run.training]
    left_out = Counter({"only trainings and probes are packed": len(runs) - len(trainings)})
    keys = list[str]()
    for training in dict.fromkeys(trainings):
        try:
            name = _key_of_texts(training, place)
            if place.source(training).is_own:
                raise InputError("your own files are not packed; run them where they are")
            ready[training.corpus, training.length].append(training)
            keys.append(name)
        except StorageError:
            raise
        except InputError as error:
            left_out[str(error)] += 1
    for reason, count in (+left_out).items():
        yield f"{count} runs are left out: {reason}"
    check(ready, "there are no data to pack; choose other runs")
    cache = folder / "cache"
    used: dict[Path, set[str]] = defaultdict(set)  # the words of each file of vectors
    for (_, length), group in ready.items():
        source = place.source(group[0])
        whole = encode(source, length, place.cache)
        have = {split: len(texts) for split, texts in whole.texts.items()}
        counts = {  # of the first texts of each split, as many as the largest training reads
            "train": max(run.size * (run.draw + 1) for run in group),
            "validation": max(run.validation or min(run.size, have["validation"]) for run in group),
            "test": max(run.test or have["test"] for run in group),
        }
        part = replace(
            whole, texts={split: whole.texts[split].first(counts[split]) for split in SPLITS}
        )
        file, has_filler = encoded_file(source, length, cache)
        for original in filter(None, (source.path, source.filler_file if has_filler else None)):
            write_pointer(folder / original.relative_to(place.data), original)
        keep_encoded(part, file)
        # vocabularies are made of training texts and their filler
        read = [part.texts["train"].ids, *([part.filler["train"]] if part.filler else [])]
        numbers = torch.cat([rows.flat for rows in read]).unique()
        for name in {run.vectors for run in group if run.vectors}:
            used[place.vectors_file(name)] |= {part.words[number] for number in numbers.tolist()}
        sizes = ", ".join(f"{len(part.texts[split]):,} {split}" for split in SPLITS)
        yield f"{source.label}, {length}: {sizes} texts"
    for file, words in used.items():
        vectors = load_vectors(file, place.cache)
        rows = [row for row, word in enumerate(vectors.words) if word in words]
        write_pointer(folder / file.relative_to(place.data), file)
        few = WordVectors([vectors.words[row] for row in rows], vectors.matrix[rows])
        keep_vectors(few, file, cache)
        yield f"{file.name}: {len(rows):,} of {len(vectors.words):,} words"
    shutil.copytree(place.cache / "fingerprints", cache / "fingerprints", dirs_exist_ok=True)
    write_atomically(folder / KEYS, "\n".join(dict.fromkeys(keys)))


def those_packed(runs: Iterable[Run], place: Place) -> list[Run]:
    """Of some runs those whose texts `pack` wrote into the data folder of a place: others would
    find a part of their texts and vectors there, and nothing would say so. All of them where the
    folder was not packed."""
    if not (place.data / KEYS).is_file():
        return [*runs]
    keys, found = (place.data / KEYS).read_text("utf-8").split(), list[Run]()
    for run in runs:
        try:
            if run.training and _key_of_texts(run.training, place) in keys:
                found.append(run)
        except StorageError:
            raise
        except InputError:  # of another corpus
            continue
    return found


def _key_of_texts(run: Training, place: Place) -> str:
    """That of a training on the same texts and vectors, whatever its model and seed; raises
    `InputError` for what cannot be trained."""
    run.check()
    read = run.values("length share max_words validation test vectors draw")
    return key(Training(run.corpus, run.setting, run.size, "max", **read), place)


def write_pointer(path: Path, original: Path) -> None:
    """Write a file, or of a folder files, with the `fingerprint` of another one, which is not
    there."""
    if original.is_dir():
        for file in filter(Path.is_file, original.rglob("*")):
            write_pointer(path / file.relative_to(original), file)
    else:
        write_atomically(path, POINTER + fingerprint(original).encode("ascii"))
