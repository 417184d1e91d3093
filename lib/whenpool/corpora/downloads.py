"""Fetching the published corpora. A file that is downloaded here must have its checksum (by pooch); a file
that the user has put there is used as it is, and `listing` says when it is not the publisher's."""

import os
import shutil
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from whenpool.base.errors import InputError, check_known
from whenpool.base.files import fingerprint
from whenpool.corpora.published import AMAZON_CATEGORIES
from whenpool.corpora.settings import FILES as FILLER_FILES


@dataclass(frozen=True)
class Download:
    """One file of a publisher's."""

    file: str  # its place under the data directory
    url: str
    sha256: str | None  # of its bytes, where it is known
    member: str | None = None  # the file that is wanted of a zip archive, whose place it takes


_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_AMAZON = "https://mcauleylab.ucsd.edu/public_datasets/data/amazon_v2/categoryFilesSmall"
SOURCES = {name: [Download(**facts)] for name, facts in _TABLE.items()} | {
    "amazon": [
        Download(f"amazon/{category}_5.json.gz", f"{_AMAZON}/{category}_5.json.gz", None)
        for category in AMAZON_CATEGORIES
    ]
}
"""What can be fetched, by name."""


def fetch(name: str, directory: Path) -> list[Path]:
    """Download what is not there yet; returns the files. Raises `InputError` where that fails."""
    check_known("download", name, SOURCES)
    import pooch  # brings requests along, which takes its time

    targets = [directory / download.file for download in SOURCES[name]]
    bar = pooch.HTTPDownloader(progressbar=sys.stderr.isatty())
    mirror = os.environ.get("WHENPOOL_MIRROR")  # files are looked for right below this address
    for download, target in zip(SOURCES[name], targets, strict=True):
        if target.is_file():
            continue
        file = download.url.rsplit("/", 1)[1]
        url = f"{mirror.rstrip('/')}/{file}" if mirror else download.url
        folder = directory if download.member else target.parent
        checksum = f"sha256:{download.sha256}" if download.sha256 else None
        unpacked = folder / f"{file}.unpacked"
        shutil.rmtree(unpacked, ignore_errors=True)  # what an interrupted try has left
        unzip = pooch.Unzip([download.member], unpacked.name) if download.member else None
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            pooch.retrieve(url, checksum, file, folder, processor=unzip, downloader=bar)
            if download.member:  # moved in one step, so that what is there is whole
                (unpacked / download.member).replace(target)
                shutil.rmtree(unpacked)
                (folder / file).unlink()
        except Exception as error:  # whatever the network, the server, the disk or a checksum brought
            reason = f"{type(error).__name__}: {error!s:.200}"
            advice = f"try again, set WHENPOOL_MIRROR, or put {target.name} into {target.parent}"
            raise InputError(f"{url} could not be downloaded ({reason}); {advice}") from None
    return targets


def listing(directory: Path, verify: bool = False) -> Iterator[str]:
    """A line for each file that the book can use: whether it is there and, if asked, the publisher's."""
    yield f"Data folder: {directory}{'' if directory.is_dir() else ', which does not exist yet'}"
    for name, downloads in SOURCES.items():
        here = [download for download in downloads if (directory / download.file).is_file()]
        if not here:
            yield f"{name:8} not there; `whenpool data fetch {name}` downloads it from {downloads[0].url}"
        elif len(downloads) > 1:
            yield f"{name:8} {len(here)} of {len(downloads)} files in {Path(here[0].file).parent}/"
        for download in here if verify or len(downloads) == 1 else ():
            yield f"{name:8} {download.file}{_verdict(download, directory) if verify else ''}"
    fetched = {download.file for downloads in SOURCES.values() for download in downloads}
    vectors = [file.relative_to(directory).as_posix() for file in (directory / "vectors").glob("*.txt*")]
    for kind, files in (("filler", FILLER_FILES), ("vectors", sorted(vectors))):
        for file in files:
            if file not in fetched and (path := directory / file).is_file():
                yield f"{kind:8} {file}" + (f" (sha256 {fingerprint(path)[:16]}...)" if verify else "")
    if not any((directory / file).is_file() for file in FILLER_FILES):
        yield "filler   not there; `whenpool data fetch wikitext` downloads it"


def notes(name: str, directory: Path) -> tuple[str, ...]:
    """A sentence for each file of a corpus that is there but is not what its publisher gives."""
    return tuple(
        f"{download.file} is not the publisher's file (sha256 {sha256[:16]}...); it is used as it is."
        for download in SOURCES.get(name, ())
        if download.sha256 and not download.member and (directory / download.file).is_file()
        if (sha256 := fingerprint(directory / download.file)) != download.sha256
    )


def _verdict(download: Download, directory: Path) -> str:
    sha256 = fingerprint(directory / download.file)
    if download.member or download.sha256 is None:
        return f" (no checksum is published for it; sha256 {sha256[:16]}...)"
    if sha256 == download.sha256:
        return " (the publisher's, checksum verified)"
    return f" (not the publisher's file, used as it is: sha256 {sha256[:16]}...)"
