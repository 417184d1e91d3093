"""Small archives like those of the publishers."""

import csv
import io
import tarfile
from itertools import product

WORDS = "word " * 101


def add(archive, name, content):
    info = tarfile.TarInfo(name)
    info.size = len(content)
    archive.addfile(info, io.BytesIO(content))


def make_imdb(folder, reviews=12):
    with tarfile.open(folder / "aclImdb_v1.tar.gz", "w:gz") as archive:
        add(archive, "aclImdb/README", b"not a review")
        add(archive, "aclImdb/train/unsup/0_0.txt", b"no label")
        for part, label, i in product(("train", "test"), ("neg", "pos"), range(reviews)):
            text = f"{WORDS}{part} {label} {i}".encode()
            add(archive, f"aclImdb/{part}/{label}/{i}_{i % 10}.txt", text)


def make_zhang(folder, name, rows):
    lines = io.StringIO()
    csv.writer(lines, quoting=csv.QUOTE_ALL).writerows(rows)
    with tarfile.open(folder / f"{name}.tgz", "w:gz") as archive:
        add(archive, f"{name}/train.csv", lines.getvalue().encode())
        add(archive, f"{name}/test.csv", lines.getvalue().replace("word ", "term ").encode())
