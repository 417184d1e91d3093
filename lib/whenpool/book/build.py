"""From the sources of the book to its pages: jupytext, papermill, jupyter-book.

Chapters are MyST Markdown. Those with code become notebooks, are executed by papermill in a staging
folder, and rendered from there with execution off. The runs that a chapter needs are computed
before it is executed, where their progress can be seen.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from whenpool.book.chapter import COMPUTED
from whenpool.runs.request import NARROWING, Choice
from whenpool.runs.engine import Workforce
from whenpool.base.errors import BookError, InputError
from whenpool.runs.estimates import Pace
from whenpool.book.launch.repository import with_own_repository
from whenpool.book.notebooks import chapter_named, execute, is_notebook
from whenpool.book.pages import lighten
from whenpool.runs.plans.chapters import PLANS, needed, plan
from whenpool.book.rendering import render
from whenpool.book.report.provenance import duration
from whenpool.runs.compute import compute, fetch_encoders, standing
from whenpool.runs.training_run import Place, Run
from whenpool.runs.filter import Only


@dataclass(frozen=True)
class Builder:
    """Builds the book of a clone.

    Attributes:
        root: the clone.
        choice: what the chapters show.
        place: where runs find data and leave results.
        workforce: who executes runs, see `whenpool.runs.engine.run_all`.
        only: which of a chapter's runs are executed; the pages show all that are stored.
        say: told what happens, a line at a time.
        failed: runs that failed while chapters were executed, and what they said.
    """

    root: Path
    choice: Choice
    place: Place
    workforce: Workforce = field(default_factory=Workforce.default)
    only: Only = field(default_factory=Only)
    say: Callable[[str], None] = print
    failed: dict[Run, str] = field(default_factory=dict)

    @property
    def output(self) -> Path:
        """The folder that `jupyter-book` writes ``_build/html`` into.

        Pages with smoke-sized runs never stand where the published ones do.
        """
        return self.root / "_build" / "smoke" if self.choice.profile == "smoke" else self.root

    @property
    def stage(self) -> Path:
        return self.output / "_build" / "stage"

    def build(self, only: Sequence[str] = ()) -> Path:
        """Execute the chapters and render the pages; returns the first page.

        Args:
            only: the chapters to execute again, see `chapter_named`, the others staying as they were
                executed last; none: all.

        Raises:
            BookError: when a chapter fails or the pages cannot be rendered.
            InputError: for data that are missing, or an unknown chapter.
        """
        started = time.perf_counter()
        files = self._files()
        names = [Path(file).name for file in files]
        only = [chapter_named(name, names) for name in only]
        self._check_data(names)
        self._copy_sources()
        chapters = [file for file in files if is_notebook(self.root / f"{file}.md")]
        chapters.sort(key=lambda file: file.endswith("/status"))  # it reports on the others
        again = [
            file
            for file in chapters
            if not only or Path(file).name in (*only, "status") or not self._executed(file).exists()
        ]
        log = {name: entry for name, entry in self._read_log().items() if name in names}
        for number, file in enumerate(again, 1):
            name = Path(file).name
            self.say(f"[{number}/{len(again)}] {name}")
            log[name] = {"seconds": self._execute(file), "profile": self.choice.profile}
            self._log_file.write_text(json.dumps(log, indent=1))
        page = self._render()
        self.say(f"The book was built in {duration(time.perf_counter() - started)}: {page}")
        if self.failed:
            raise BookError(f"{len(self.failed)} runs failed; the pages show the others")
        return page

    @cached_property
    def _needed(self) -> set[Any]:
        return needed(self.choice, self.place)

    @cached_property
    def _pace(self) -> Pace:
        """What runs take, which matters where there is a deadline alone."""
        return Pace.measured(self.place, self.workforce) if self.workforce.until else Pace()

    def _runs(self, chapter: str) -> list[Run]:
        """Those that a chapter draws from and that are asked for."""
        runs = plan(chapter, self.choice, self.place) if chapter in PLANS else []
        return [run for run in runs if self.only.admits(run)]

    def _files(self) -> list[str]:
        """The files of the table of contents, in its order."""

        def files(entry: dict[str, Any]) -> Iterator[str]:
            if "file" in entry:
                yield entry["file"]
            for part in ("parts", "chapters", "sections"):
                for child in entry.get(part, []):
                    yield from files(child)

        toc = yaml.safe_load((self.root / "_toc.yml").read_text("utf-8"))
        return [toc["root"], *files(toc)]

    def _check_data(self, names: Sequence[str]) -> None:
        """Say what is missing before anything is executed."""
        for name in names:
            runs = self._runs(name)
            fetch_encoders(runs, self.place)
            for run, reason in standing(runs, self.place).absent.items():
                if not self.choice.lets_lack(run):
                    raise InputError(reason)

    def _copy_sources(self) -> None:
        """Everything of the book but executed notebooks, which stay until they are replaced."""
        ignore = shutil.ignore_patterns("*.ipynb", ".ipynb_checkpoints")
        shutil.copytree(self.root / "book", self.stage / "book", dirs_exist_ok=True, ignore=ignore)
        shutil.copy(self.root / "_toc.yml", self.stage)
        config = yaml.safe_load((self.root / "_config.yml").read_text("utf-8"))
        config = with_own_repository(config, self.root)
        (self.stage / "_config.yml").write_text(yaml.safe_dump(config, allow_unicode=True), "utf-8")
        for file in self._files():
            if is_notebook(self.root / f"{file}.md"):  # the executed notebook takes its place
                (self.stage / f"{file}.md").unlink(missing_ok=True)
            else:
                self._executed(file).unlink(missing_ok=True)

    def _executed(self, file: str) -> Path:
        return self.stage / f"{file}.ipynb"

    @property
    def _log_file(self) -> Path:
        """What the status page reads: time and profile of each chapter."""
        return self.stage / "executed.json"

    def _read_log(self) -> dict[str, Any]:
        try:
            return json.loads(self._log_file.read_text())
        except (OSError, ValueError):
            return {}

    def _execute(self, file: str) -> float:
        """Compute a chapter's runs, execute it, and return the seconds that took."""
        started = time.perf_counter()
        name = Path(file).name
        if runs := self._runs(name):
            report = compute(
                runs,
                self.place,
                self.workforce,
                skip_absent=self.choice.lets_lack,
                keep_weights=self._needed.__contains__,
                label="    runs",
                say=lambda line: self.say(f"    {line}"),
                seconds=self._pace.seconds,
            )
            self.failed.update(report.failed)
            if report.left:
                self.say(f"    {report.left} runs are left for want of time; the page shows the others")
        execute(self.root / f"{file}.md", self._executed(file), self._parameters(), self._environment())
        return time.perf_counter() - started

    def _parameters(self) -> dict[str, Any]:
        choice = self.choice
        only = {name: getattr(choice, name) for name in (*NARROWING, "paraphrases")}
        only["masked"] = None if choice.masked else False
        return {
            "profile": choice.profile,
            "corpus": list(choice.corpora) if choice.corpora else None,
            "encoder": choice.encoder,
            "only": {
                name: list(value) if isinstance(value, tuple) else value
                for name, value in only.items()
                if value is not None
            },
        }

    @property
    def _store_directory(self) -> Path:
        """The folder that holds the one for smoke-sized runs, which the chapter finds by itself."""
        directory = self.place.store.directory
        return directory.parent if self.choice.profile == "smoke" else directory

    def _environment(self) -> dict[str, str]:
        return {
            "JUPYTER_PREFER_ENV_PATH": "1",  # the kernel of this environment, not one of the user's
            "JUPYTER_PLATFORM_DIRS": "1",
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
            "WHENPOOL_DATA": str(self.place.data.resolve()),
            "WHENPOOL_STORE": str(self._store_directory.resolve()),
            "WHENPOOL_CACHE": str(self.place.cache.resolve()),
            COMPUTED: "1",
            **self.workforce.variables(),
        }

    def _render(self) -> Path:
        self.say("Rendering the pages")
        for page in (self.output / "_build" / "html" / "book").glob("*.html"):
            if f"book/{page.stem}" not in self._files():  # it has left the table of contents
                page.unlink()
        page = render(self.stage, self.output)
        lighten(page.parent)
        return page
