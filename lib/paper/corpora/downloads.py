"""The publishers' files: downloaded by pooch, with their checksums. A file that the user has put
there is used as it is, and `listing` says when it is not the publisher's."""

import os
import shutil
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

from whenpool.base.errors import InputError, check_known
from whenpool.base.files import fingerprint, whole_file
from whenpool.corpora.published import AMAZON_CATEGORIES


@dataclass(frozen=True)
class Download:
    """One file of a publisher's."""

    file: str  # its place under the data directory
    url: str
    sha256: str | None  # of what is downloaded, where it is known
    member: str | None = None  # the file that is wanted of a zip archive

    def verdict(self, directory: Path) -> str:
        """Whether the file that is there is the publisher's."""
        if self.member:
            return "unpacked from an archive, which alone has a checksum"
        if self.sha256 is None:
            return "no checksum is published for it"
        if (sha256 := fingerprint(directory / self.file)) == self.sha256:
            return "the publisher's, checksum verified"
        return f"not the publisher's file (sha256 {sha256[:16]}...); it is used as it is"


_AMAZON = "https://mcauleylab.ucsd.edu/public_datasets/data/amazon_v2/categoryFilesSmall"
_FILES = [f"{category}_5.json.gz" for category in AMAZON_CATEGORIES]
_TABLE = tomllib.loads(Path(__file__).with_name("downloads.toml").read_text("utf-8"))
DOWNLOADS = {name: [Download(**facts)] for name, facts in _TABLE.items()}
DOWNLOADS["amazon"] = [Download(f"amazon/{file}", f"{_AMAZON}/{file}", None) for file in _FILES]
"""What can be fetched, by name."""


def fetch(name: str, directory: Path) -> list[Path]:
    """Download what is not there yet; returns the files. Raises `InputError` where that fails."""
    check_known("download", name, DOWNLOADS)
    import pooch  # brings requests along, which takes its time

    bar = pooch.HTTPDownloader(progressbar=sys.stderr.isatty())
    mirror = os.environ.get("WHENPOOL_MIRROR")  # files are looked for right below this address
    for download in DOWNLOADS[name]:
        target = directory / download.file
        if target.is_file():
            continue
        file = download.url.rsplit("/", 1)[1]
        url = f"{mirror.rstrip('/')}/{file}" if mirror else download.url
        checksum = f"sha256:{download.sha256}" if download.sha256 else None
        try:
            folder = directory if download.member else target.parent
            archive = Path(pooch.retrieve(url, checksum, file, folder, downloader=bar))
            if download.member:
                with ZipFile(archive) as zipped, whole_file(target) as out:
                    shutil.copyfileobj(zipped.open(download.member), out)
                archive.unlink()
        except (
            Exception
        ) as error:  # whatever the network, the server, the disk or a checksum brought
            reason = f"{type(error).__name__}: {error!s:.200}"
            advice = f"try again, set WHENPOOL_MIRROR, or put {target.name} into {target.parent}"
            raise InputError(f"{url} could not be downloaded ({reason}); {advice}") from None
    return [directory / download.file for download in DOWNLOADS[name]]


def listing(directory: Path) -> Iterator[str]:
    """A line for each file that can be downloaded: whether it is there, and the publisher's."""
    yield f"Data folder: {directory}{'' if directory.is_dir() else ', which does not exist yet'}"
    for name, downloads in DOWNLOADS.items():
        here = [download for download in downloads if (directory / download.file).is_file()]
        if not here:
            yield (
                f"{name:8} not there; `whenpool data fetch {name}` downloads it from "
                f"{downloads[0].url}"
            )
        for download in here:
            yield f"{name:8} {download.file} ({download.verdict(directory)})"


def notes_on_files(name: str, directory: Path) -> tuple[str, ...]:
    """A sentence for each file of a corpus that is there but is not what its publisher gives."""
    files = (d for d in DOWNLOADS.get(name, ()) if (directory / d.file).is_file())
    verdicts = ((download.file, download.verdict(directory)) for download in files)
    return tuple(f"{file} is {verdict}." for file, verdict in verdicts if verdict.startswith("not"))
