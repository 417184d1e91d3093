"""From sources to pages: missing runs are computed, chapters executed, and pages rendered."""

import json
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import yaml

from whenpool.base.errors import BookError
from whenpool.base.files import hash_of, write_atomically
from whenpool.base.paths import variables
from whenpool.book.chapter import COMPUTED, planned
from whenpool.book.execute import execute, is_notebook
from whenpool.book.fresh import Freshness, sources_of_pages
from whenpool.book.pages import render
from whenpool.book.report.measures import Runs
from whenpool.book.report.tables import duration
from whenpool.runs.compute import compute, standing
from whenpool.runs.engine import Workforce, processors
from whenpool.runs.plans import chapter_named, needed
from whenpool.runs.request import NARROWING, Request
from whenpool.runs.run import Place

AT_ONCE = 2  # So many chapters are executed at a time; each has a kernel of its own, of about 1 GB
STATUS = "status"  # The page that reports on the chapters


def read_yaml(file: Path) -> Any:
    """What a file of YAML holds; raises `BookError` where it is not valid."""
    try:
        return yaml.safe_load(file.read_text("utf-8"))
    except yaml.YAMLError as error:
        raise BookError(f"{file} has YAML that is not valid: {' '.join(str(error).split())}") from None


@dataclass(frozen=True)
class Builder:
    """Builds the book of a clone."""

    root: Path  # the clone
    request: Request  # what the chapters show
    place: Place  # where runs find data and leave results
    workforce: Workforce = field(default_factory=Workforce.default)
    say: Callable[[str], None] = print  # told what happens, a line at a time

    @property
    def output(self) -> Path:
        """What ``_build/html`` is written into: neither smoke-sized runs nor other corpora than the profile's
        replace the published pages."""
        if self.request.profile == "smoke":
            return self.root / "_build" / "smoke"
        if not (names := self.request.corpora):
            return self.root
        plain = "-".join(re.sub(r"\W+", "-", Path(name).name) for name in names)[:60]
        return self.root / "_build" / "corpora" / f"{plain}-{hash_of(*names)[:8]}"

    @property
    def stage(self) -> Path:
        """Where the pages are rendered from: copies of the book's files, and executed notebooks."""
        return self.output / "_build" / "stage"

    def build(self, asked: Sequence[str] = (), force: bool = False) -> Path:
        """Compute missing runs, execute the chapters that need it (`whenpool.book.fresh`), or all with
        ``force``, or those that are ``asked`` for, and render the pages; returns the first page. Raises
        `BookError` when a chapter fails or the pages cannot be rendered."""
        started = time.perf_counter()
        toc = read_yaml(self.root / "_toc.yml")
        parts = [toc, *toc.get("parts", [])]
        files = [toc["root"], *(page["file"] for part in parts for page in part.get("chapters", []))]
        pages = [Path(file).name for file in files]  # all are in the folder "book"
        asked = [chapter_named(name, pages) for name in asked]
        chapters = [name for name in pages if is_notebook(self._source(name))]
        if asked:  # the others that were not executed yet are executed, too, since the pages need them
            again = (*asked, STATUS)
            chapters = [name for name in chapters if name in again or not self._executed(name).exists()]
        failed = self._compute(chapters)
        self._copy_sources(pages)
        self._execute(chapters, pages, pages if force else asked)
        page = self._render()
        self.say(f"The book was built in {duration(time.perf_counter() - started)}: {page}")
        if failed:
            raise BookError(f"{failed} runs failed and are not in the pages; build again to repeat them")
        return page

    def _source(self, name: str) -> Path:
        return self.root / "book" / f"{name}.md"

    def _executed(self, name: str) -> Path:
        return self.stage / "book" / f"{name}.ipynb"

    def _compute(self, chapters: Sequence[str]) -> int:
        """Compute what chapters draw from and what is asked for; returns how many runs failed."""
        runs_of = (planned(name, self.request, self.place) for name in chapters)
        runs = list(dict.fromkeys(run for runs in runs_of for run in runs))
        if not runs:
            return 0
        report = compute(
            runs, self.place, self.workforce, skip_absent=self.request.leaves_out,
            keep_weights=needed(self.request, self.place).__contains__, say=self.say,
        )  # fmt: skip
        if report.left:
            self.say(f"{report.left} runs are left: they would not end in time; the pages show the rest")
        return len(report.failed)

    def _copy_sources(self, pages: Sequence[str]) -> None:
        """Everything of the book but executed notebooks, which stay until they are replaced."""
        ignore = shutil.ignore_patterns("*.ipynb", ".ipynb_checkpoints", "__pycache__")
        shutil.copytree(self.root / "book", self.stage / "book", dirs_exist_ok=True, ignore=ignore)
        shutil.copy(self.root / "_toc.yml", self.stage)
        config = read_yaml(self.root / "_config.yml")
        if name := os.environ.get("GITHUB_REPOSITORY"):  # the buttons of a fork open the fork
            config["repository"]["url"] = f"https://github.com/{name}"
        text = yaml.safe_dump(config, allow_unicode=True)
        (self.stage / "_config.yml").write_text(text, "utf-8")
        for name in pages:  # the executed notebook takes the place of its source
            executed = self._executed(name)
            unused = executed.with_suffix(".md") if is_notebook(self._source(name)) else executed
            unused.unlink(missing_ok=True)

    def _execute(self, chapters: Sequence[str], pages: Sequence[str], asked: Sequence[str]) -> None:
        """Execute the chapters that were asked for or are not fresh, `AT_ONCE` at a time, and the status
        last, which reports on them; ``executed.json`` says when and from what each was made."""
        log_file, parameters = self.stage / "executed.json", self._parameters()
        with variables(self._environment()):  # smoke-sized runs are not among the finished ones
            runs = Runs(Place.default() if self.request.profile == "smoke" else self.place)
        fresh = Freshness(self.root, parameters, self.place.data.resolve(), runs)
        try:
            log = json.loads(log_file.read_text())
        except (OSError, ValueError):
            log = {}
        todo: dict[str, tuple[str, dict[str, str]]] = {}  # what is reported, and the inputs
        for number, name in enumerate(sorted(chapters, key=lambda name: name == STATUS), 1):
            before = log.get(name, {}) if self._executed(name).exists() else {}
            runs_of_page = planned(name, self.request, self.place)
            keys = standing(runs_of_page, self.place).done.values() if runs_of_page else ()
            inputs = fresh.inputs(self._source(name), [fresh.state] if name == STATUS else keys)
            reason = "it was asked for" if name in asked else fresh.changed(inputs, before)
            if name == STATUS and todo:
                reason = "it reports on the other chapters"
            if reason:
                todo[name] = f"[{number}/{len(chapters)}] {name}: executing, since {reason}", inputs
                log.pop(name, None)  # whatever happens now, the notebook is not what the log says
            else:
                log[name]["state"] = fresh.state
                self.say(f"[{number}/{len(chapters)}] {name}: unchanged")
        write_atomically(log_file, json.dumps(log, indent=1))
        writing = threading.Lock()

        def execute_chapter(name: str) -> None:
            line, inputs = todo[name]
            self.say(line)
            began = time.time()
            used = execute(self._source(name), self._executed(name), parameters)
            record = {"seconds": time.time() - began, "profile": self.request.profile}
            record |= fresh.record(inputs, used, began)
            with writing:
                log[name] = record
                in_order = {page: log[page] for page in pages if page in log}
                write_atomically(log_file, json.dumps(in_order, indent=1))

        with variables(self._environment()), ThreadPoolExecutor(AT_ONCE) as pool:
            try:
                for group in ([name for name in todo if name != STATUS], {STATUS} & todo.keys()):
                    for future in as_completed([pool.submit(execute_chapter, name) for name in group]):
                        future.result()  # raises the error of a chapter
            except BaseException as error:
                pool.shutdown(wait=False, cancel_futures=True)
                if not isinstance(error, BookError):  # ctrl-C: no chapter is waited for
                    for kernel in psutil.Process().children(recursive=True):
                        with suppress(psutil.NoSuchProcess):
                            kernel.kill()
                raise

    def _parameters(self) -> dict[str, Any]:
        request = self.request
        narrowing = {name: getattr(request, name) for name in (*NARROWING, "paraphrases")}
        narrowing["masked"] = None if request.masked else False
        narrowing = {key: value for key, value in narrowing.items() if value is not None}
        parameters: dict[str, Any] = {"profile": request.profile, "corpus": request.corpora or None}
        parameters["only"] = narrowing
        parameters["encoder"] = request.encoder
        if request.profile == "smoke":  # the sections that train on the page take seconds
            parameters |= {"texts": 44, "epochs": 1}
        return json.loads(json.dumps(parameters))  # lists, not tuples

    def _folders(self) -> dict[str, Path]:
        """Where a chapter finds data, runs (or the folder of smoke-sized ones) and caches, by variable."""
        store = self.place.store.directory
        store = store.parent if self.request.profile == "smoke" else store
        folders = {"DATA": self.place.data, "STORE": store, "CACHE": self.place.cache}
        return {f"WHENPOOL_{name}": folder.resolve() for name, folder in folders.items()}

    def _environment(self) -> dict[str, str]:
        # With more threads than processors, those of one kernel would wait for those of another.
        threads = max(1, processors() // AT_ONCE)
        return {
            "JUPYTER_PREFER_ENV_PATH": "1",  # the kernel of this environment, not one of the user's
            "JUPYTER_PLATFORM_DIRS": "1",
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
            **{name: str(folder) for name, folder in self._folders().items()},
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(threads)),
            COMPUTED: "1",
            **self.workforce.variables(),
        }

    def _render(self) -> Path:
        """Render the pages unless their sources are those of the last time; returns the first page."""
        rendered, sources = self.output / "_build" / "rendered.txt", sources_of_pages(self.stage)
        page = self.output / "_build" / "html" / "index.html"
        if page.exists() and rendered.exists() and rendered.read_text() == sources:
            self.say("The pages are unchanged")
            return page
        self.say("Rendering the pages")
        rendered.unlink(missing_ok=True)
        page = render(self.stage, self.output)
        write_atomically(rendered, sources)
        return page
