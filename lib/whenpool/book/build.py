"""From sources to pages: chapters are executed (jupytext, papermill) and rendered (jupyter-book)."""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import papermill
import psutil
import yaml
from jupyter_client.kernelspec import NoSuchKernel
from jupytext.myst import MystMetadataParsingError
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from papermill.exceptions import PapermillExecutionError

from whenpool.base.errors import BookError, InputError
from whenpool.base.files import hash_of, write_atomically
from whenpool.base.paths import variables
from whenpool.book.chapter import COMPUTED
from whenpool.book.fresh import Freshness, sources_of_pages
from whenpool.book.pages import lighten
from whenpool.book.report.tables import duration
from whenpool.corpora.published import PUBLICATIONS
from whenpool.corpora.tagged import PUBLISHED
from whenpool.runs.compute import compute, standing
from whenpool.runs.engine import Workforce, processors
from whenpool.runs.estimates import Pace
from whenpool.runs.filter import Only
from whenpool.runs.plans import PLANS, chapter_named, needed, plan
from whenpool.runs.request import NARROWING, Request
from whenpool.runs.run import Place
from whenpool.runs.store import Store

CELL_SECONDS = 3600  # A cell that takes longer is stopped: the runs it needs were computed before
AT_ONCE = 2  # So many chapters are executed at a time; each has a kernel of its own, of about 1 GB
STATUS = "status"  # The page that reports on the chapters


def is_notebook(source: Path) -> bool:
    """Whether a page has cells to execute."""
    return "\nkernelspec:" in source.read_text("utf-8")


def execute(
    source: Path, target: Path, parameters: Mapping[str, Any], notes: Path | None = None
) -> None:
    """Execute a chapter in a kernel, which writes the names of the files that it opens into ``notes``, and
    put the notebook where pages are rendered from. papermill sets ``parameters`` after the chapter's
    parameters cell; those that it does not have are left out. Raises `BookError` when a cell fails; the
    notebook as far as it got stays beside ``target``."""
    executing = target.with_suffix(".executing.ipynb")
    with valid_yaml(source):
        jupytext.write(jupytext.read(source), executing)
    known = papermill.inspect_notebook(executing)
    given = {name: value for name, value in parameters.items() if name in known}
    kernel = ["--IPKernelApp.log_level=50"]  # its errors are told below
    if notes:
        watching = f"from whenpool.book.fresh import watch; watch({str(notes)!a})"
        kernel.append(f"--IPKernelApp.exec_lines={watching}")
    try:
        executed = papermill.execute_notebook(
            executing,
            executing,
            given,
            # not papermill's cwd, which changes the folder of this whole process
            resources={"metadata": {"path": str(target.parent.resolve())}},
            kernel_name="python3",
            execution_timeout=CELL_SECONDS,
            extra_arguments=kernel,
            progress_bar=False,
        )
    except (PapermillExecutionError, DeadKernelError, CellTimeoutError) as error:
        if isinstance(error, PapermillExecutionError):
            code, why = error.source, f"{error.ename}: {error.evalue}"
        else:
            begun = [c for c in nbformat.read(executing, 4).cells if c.metadata.papermill.start_time]
            code, why = begun[-1].source, f"it took longer than {duration(CELL_SECONDS)}"
            if isinstance(error, DeadKernelError):
                free = f"free some, or execute the chapter alone with --chapter {source.stem}"
                why = f"the kernel died: it was killed, or memory ran out; {free}"
        text, first = source.read_text("utf-8"), code.partition("\n")[0]
        line = text.count("\n", 0, text.find(f"\n{code}\n```") + 1) + 1
        raise BookError(
            f"book/{source.name}, the cell at line {line} ({first}): {why}\n"
            f"The notebook up to this cell is {executing}"
        ) from None
    except UnicodeError:
        raise BookError(f"chapter {source.stem}: a name in {given} is not UTF-8; rename it") from None
    except (NoSuchKernel, RuntimeError, OSError) as error:
        why = str(InputError(str(error)))  # in one line
        raise BookError(f"chapter {source.stem}: the kernel does not start or answer: {why}") from None
    record = executed.metadata.papermill
    del record["input_path"], record["output_path"]  # folders of this machine
    # who opens the notebook changes its own parameters cell; each figure says which runs it has
    executed.cells = [
        c for c in executed.cells if "injected-parameters" not in c.metadata.get("tags", [])
    ]
    nbformat.write(executed, executing)
    executing.replace(target)


@contextmanager
def valid_yaml(file: Path) -> Iterator[str]:
    """The text of a file; raises `BookError` where what reads its YAML, inside, cannot."""
    try:
        yield file.read_text("utf-8")
    except (yaml.YAMLError, MystMetadataParsingError) as error:
        raise BookError(f"{file} has YAML that is not valid: {' '.join(str(error).split())}") from None


def render(stage: Path, output: Path) -> Path:
    """Render a folder into ``output/_build/html``; raises `BookError` for all that Sphinx warns of."""
    log = output / "_build" / "render.log"
    command = [
        sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build",
        str(stage), "--path-output", str(output), "-W", "--keep-going", "-q",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    log.write_text(said, "utf-8")
    page = output / "_build" / "html" / "index.html"
    if done.returncode or not page.exists():
        told = [line for line in said.splitlines() if re.search("warning:|error", line, re.I)][:8]
        raise BookError("\n".join([f"the pages could not be rendered; see {log}", *told]))
    return page


@dataclass(frozen=True)
class Builder:
    """Builds the book of a clone."""

    root: Path  # the clone
    request: Request  # what the chapters show
    place: Place  # where runs find data and leave results
    workforce: Workforce = field(default_factory=Workforce.default)
    only: Only = field(default_factory=Only)  # which runs are executed; the pages show all
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

    def build(self, only: Sequence[str] = (), force: bool = False) -> Path:
        """Compute missing runs, execute the chapters that need it (`whenpool.book.fresh`), or all with
        ``force``, or ``only`` some, and render the pages; returns the first page. Raises `BookError` when a
        chapter fails or the pages cannot be rendered."""
        started = time.perf_counter()
        with valid_yaml(self.root / "_toc.yml") as text:
            toc = yaml.safe_load(text)
        parts = [toc, *toc.get("parts", [])]
        files = [toc["root"], *(page["file"] for part in parts for page in part.get("chapters", []))]
        pages = [Path(file).name for file in files]  # all are in the folder "book"
        only = [chapter_named(name, pages) for name in only]
        chapters = [name for name in pages if is_notebook(self._source(name))]
        if only:
            again = (*only, STATUS)
            chapters = [n for n in chapters if n in again or not self._executed(n).exists()]
            if missing := [name for name in chapters if name not in again]:
                self.say(f"{len(missing)} chapters were not executed yet; they are now, too")
        failed = self._compute(chapters)
        self._copy_sources(pages)
        self._execute(chapters, pages, pages if force else only)
        page = self._render(pages)
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
        planned = [plan(name, self.request, self.place) for name in chapters if name in PLANS]
        runs = list(dict.fromkeys(run for runs in planned for run in runs if self.only.admits(run)))
        if not runs:
            return 0
        pace = Pace.measured(self.place, self.workforce) if self.workforce.until else Pace()
        report = compute(
            runs, self.place, self.workforce, skip_absent=self.request.leaves_out,
            keep_weights=needed(self.request, self.place).__contains__, say=self.say,
            seconds=pace.seconds,
        )  # fmt: skip
        if report.left:
            self.say(f"{report.left} runs are left: they would not end in time; the pages show the rest")
        return len(report.failed)

    def _copy_sources(self, pages: Sequence[str]) -> None:
        """Everything of the book but executed notebooks, which stay until they are replaced."""
        ignore = shutil.ignore_patterns("*.ipynb", ".ipynb_checkpoints", "__pycache__")
        shutil.copytree(self.root / "book", self.stage / "book", dirs_exist_ok=True, ignore=ignore)
        shutil.copy(self.root / "_toc.yml", self.stage)
        with valid_yaml(self.root / "_config.yml") as text:
            config = yaml.safe_load(text)
        config = yaml.safe_dump(with_own_repository(config, self.root), allow_unicode=True)
        (self.stage / "_config.yml").write_text(config, "utf-8")
        for name in pages:  # the executed notebook takes the place of its source
            executed = self._executed(name)
            unused = executed.with_suffix(".md") if is_notebook(self._source(name)) else executed
            unused.unlink(missing_ok=True)

    def _execute(self, chapters: Sequence[str], pages: Sequence[str], asked: Sequence[str]) -> None:
        """Execute the chapters that were asked for or are not fresh, `AT_ONCE` at a time, and the status
        last, which reports on them; ``executed.json`` says when and from what each was made."""
        log_file, parameters = self.stage / "executed.json", self._parameters()
        fresh = Freshness(self.root, parameters, *self._folders().values())
        try:
            log = json.loads(log_file.read_text())
        except (OSError, ValueError):
            log = {}
        todo: dict[str, tuple[str, dict[str, str]]] = {}  # what is said, and the inputs
        for number, name in enumerate(sorted(chapters, key=lambda name: name == STATUS), 1):
            place = f"[{number}/{len(chapters)}] {name}"
            before = log.get(name, {}) if self._executed(name).exists() else {}
            inputs = fresh.inputs(self._source(name), None if name == STATUS else self._shown(name))
            reason = "it was asked for" if name in asked else fresh.changed(inputs, before)
            if name == STATUS and todo:
                reason = "it reports on the other chapters"
            if reason:
                todo[name] = f"{place}: executing, since {reason}", inputs
                log.pop(name, None)  # whatever happens now, the notebook is not what the log says
            else:
                self.say(f"{place}: unchanged")
        write_atomically(log_file, json.dumps(log, indent=1))
        failed, writing = threading.Event(), threading.Lock()

        def executed(name: str) -> None:
            if failed.is_set():
                return
            line, inputs = todo[name]
            self.say(line)
            notes, began = self._executed(name).with_suffix(".opened"), time.time()
            try:
                execute(self._source(name), self._executed(name), parameters, notes)
                record = {"seconds": time.time() - began, "profile": self.request.profile}
                record |= fresh.record(inputs, notes, began)
                with writing:
                    log[name] = record
                    in_order = {page: log[page] for page in pages if page in log}
                    write_atomically(log_file, json.dumps(in_order, indent=1))
            except BaseException:
                failed.set()
                raise
            finally:
                notes.unlink(missing_ok=True)

        with variables(self._environment()), ThreadPoolExecutor(AT_ONCE) as pool:
            for last in (False, True):
                futures = [pool.submit(executed, name) for name in todo if (name == STATUS) == last]
                try:
                    wait(futures)
                except BaseException:  # ctrl-C: no chapter is waited for
                    failed.set()
                    for kernel in psutil.Process().children(recursive=True):
                        with suppress(psutil.NoSuchProcess):
                            kernel.kill()
                    raise
                for future in futures:
                    future.result()  # raises the error of a chapter

    def _shown(self, name: str) -> set[str]:
        """Keys of the stored runs that a chapter may show: those that it needs, and any that may be a
        reference run, since those are on published corpora; the status counts all."""
        runs = plan(name, self.request, self.place) if name in PLANS else []
        store = Store(self._folders()["WHENPOOL_STORE"])
        return {*standing(runs, self.place).done.values(), *store.keys_on({*PUBLICATIONS, *PUBLISHED})}

    def _parameters(self) -> dict[str, Any]:
        request = self.request
        only = {name: getattr(request, name) for name in (*NARROWING, "paraphrases")}
        only["masked"] = None if request.masked else False
        given = {key: value for key, value in only.items() if value is not None}
        parameters = {"profile": request.profile, "corpus": request.corpora or None, "only": given}
        return json.loads(json.dumps(parameters | {"encoder": request.encoder}))  # lists, not tuples

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

    def _render(self, pages: Sequence[str]) -> Path:
        """Render the pages unless their sources are those of the last time; returns the first page."""
        rendered, sources = self.output / "_build" / "rendered.txt", sources_of_pages(self.stage)
        page = self.output / "_build" / "html" / "index.html"
        if page.exists() and rendered.exists() and rendered.read_text() == sources:
            self.say("The pages are unchanged")
            return page
        self.say("Rendering the pages")
        rendered.unlink(missing_ok=True)
        for old in (page.parent / "book").glob("*.html"):
            if old.stem not in pages:  # it has left the table of contents
                old.unlink()
        page = render(self.stage, self.output)
        lighten(page.parent)
        write_atomically(rendered, sources)
        return page


def with_own_repository(config: dict[str, Any], root: Path) -> dict[str, Any]:
    """A book's configuration whose buttons open this clone's own repository: what ``GITHUB_REPOSITORY``
    or the remote "origin" names, so that those of a fork open the fork; else the one that is configured."""
    name = os.environ.get("GITHUB_REPOSITORY")
    if not name and shutil.which("git") and (root / ".git").exists():  # else another's clone around it
        command = ["git", "remote", "get-url", "origin"]
        said = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout
        found = re.search(r"[@/]github\.com[/:]([\w.-]+/[\w.-]+?)(?:\.git)?/?$", said.strip())
        name = found and found[1]
    if not name or not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        return config
    return config | {"repository": config["repository"] | {"url": f"https://github.com/{name}"}}
