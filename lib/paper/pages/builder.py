"""From sources to pages: missing runs are computed, chapters executed side by side, and pages
rendered.

A chapter is executed again when something that it is made from has changed, as
``paper.pages.freshness`` says. ``executed.json`` beside the executed notebooks has what each was
made from. The pages are rendered again when one of their sources has changed. The usual book loads
no torch here: the chapters do, each in a kernel of its own.
"""

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jupytext
import nbformat
import papermill
import psutil
import yaml
from jupytext.myst import MystMetadataParsingError
from papermill.exceptions import PapermillExecutionError

from paper import chapter_named
from paper.pages import finish
from paper.pages.freshness import (
    LOG,
    STATUS,
    changed,
    contents_digest,
    inputs,
    is_notebook,
    pages_of,
    read_log,
    text_digest,
)
from whenpool.base.devices import processors
from whenpool.base.errors import BookError, check
from whenpool.base.files import hash_of, write_atomically
from whenpool.base.paths import cache_directory, data_directory, store_directory

if TYPE_CHECKING:  # what needs torch
    from paper.runs.engine import Workforce
    from paper.runs.request import Request
    from paper.runs.run import Place

COMPUTED = "WHENPOOL_COMPUTED"  # as `paper.tables.COMPUTED`
MOST_KERNELS = 8  # at a time; each takes about 1 GB
CELL_SECONDS = 3600  # A cell that takes longer is stopped: the runs it needs were computed before


@dataclass(frozen=True)
class Asked:
    """Runs that a request needs for the book: which, where, and who computes them."""

    request: "Request"
    place: "Place"
    workforce: "Workforce"

    def compute(self, chapters: Sequence[str], say: Callable[[str], None]) -> int:
        """Compute the missing runs of some chapters; returns how many failed."""
        from paper.chapter import planned
        from paper.runs.compute import compute

        runs = [run for name in chapters for run in planned(name, self.request, self.place)]
        without = self.request.leaves_out
        report = compute(runs, self.place, self.workforce, skip_absent=without, say=say)
        if report.left:
            say(f"{report.left} runs are left, since time was up; the pages show the rest")
        return len(report.failed)

    @property
    def parameters(self) -> dict[str, Any]:
        """What papermill sets in the parameters cell of each chapter."""
        request = self.request
        parameters: dict[str, Any] = {"profile": request.profile, "corpus": request.corpora or None}
        parameters |= {"only": request.only, "encoder": request.encoder}
        if request.profile == "smoke":  # the sections that train on the page take seconds
            parameters |= {"texts": 44, "epochs": 1}
        return json.loads(json.dumps(parameters))  # lists, not tuples

    @property
    def about(self) -> dict[str, str]:
        """On which device the chapters are executed, and from which commit."""
        from paper.runs.run import provenance

        facts = provenance(self.workforce.device)
        return {name: facts[name] for name in ("device", "commit")}


@dataclass(frozen=True)
class Builder:
    """Builds the book of a clone."""

    root: Path  # the clone
    asked: Asked | None = None  # None: the usual book, which shows what is recorded
    say: Callable[[str], None] = print  # called with what happens, a line at a time

    @property
    def output(self) -> Path:
        """What ``_build/html`` is written into: neither smoke-sized runs nor other corpora than the
        profile's replace the published pages."""
        if self._is_smoke:
            return self.root / "_build" / "smoke"
        if not self.asked or not (names := self.asked.request.corpora):
            return self.root
        plain = "-".join(re.sub(r"\W+", "-", Path(name).name) for name in names)[:60]
        return self.root / "_build" / "corpora" / f"{plain}-{hash_of(*names)[:8]}"

    @property
    def stage(self) -> Path:
        """Where the pages are rendered from: copies of the book's files, and executed notebooks."""
        return self.output / "_build" / "stage"

    def build(self, only: Sequence[str] = (), force: bool = False) -> Path:
        """Execute the chapters that need it (see the module), or all with ``force``, or ``only``
        some, and render the pages; returns the first page. Raises `BookError` when a chapter fails
        or the pages cannot be rendered."""
        started = time.perf_counter()
        failed = self.execute(only, force)
        page = self._render()
        pages = pages_of(self.root)
        shown = [page.parent / "book" / f"{chapter_named(name, pages)}.html" for name in only]
        seconds = time.perf_counter() - started
        self.say(f"The book was built in {seconds:.0f} s: {' '.join(map(str, shown or [page]))}")
        if failed:
            raise BookError(
                f"{failed} runs failed and are not in the pages; build again to repeat them"
            )
        return page

    def execute(self, only: Sequence[str] = (), force: bool = False) -> int:
        """Compute missing runs and execute the chapters, and render nothing; returns how many runs
        failed."""
        pages = pages_of(self.root)
        named = [chapter_named(name, pages) for name in only]
        chapters = self._chapters()
        usual = Builder(self.root, None, self.say)
        if named and not self._is_smoke and not read_log(usual.stage) and self.output != self.root:
            usual.execute()  # lends the others, since not every chapter can read every corpus
        if named:  # the pages need the others, too, where they were not executed yet
            others = self._as_usual([name for name in chapters if name not in named])
            chapters = [name for name in chapters if name in named] + others
            if others:
                self.say(f"Never executed before, so now, too: {', '.join(others)}")
        failed = self.asked.compute(chapters, self.say) if self.asked else 0
        self._copy_sources(pages)
        with environment(self._environment()):
            self._execute(chapters, chapters if force else named)
        return failed

    def _as_usual(self, chapters: Sequence[str]) -> list[str]:
        """Show those of some chapters that this book has not executed itself as the usual book
        does, where it was built, and say so on their pages; but not the status, which reports on
        this book. Returns those that are still to be executed."""
        usual, log = Builder(self.root), read_log(self.stage)
        own = {name for name in chapters if self._executed(name).exists()}
        own -= {name for name in log if log[name].get("borrowed")}
        known = {} if usual.stage == self.stage else read_log(usual.stage)
        borrowed = [name for name in chapters if name in known and name not in own | {STATUS}]
        borrowed = [name for name in borrowed if usual._executed(name).exists()]
        if borrowed:
            self.say(f"Not asked for, so as in the usual book: {', '.join(borrowed)}")
            usual.hand_on(self.stage / "book", borrowed)
            for name in borrowed:
                notebook = nbformat.read(self._executed(name), 4)
                line = "Nothing was asked for on this page: it is that of the usual book."
                notebook.cells.insert(1, _markdown("note", line))
                nbformat.write(notebook, self._executed(name))
            log |= {name: known[name] | {"borrowed": True} for name in borrowed}
            write_atomically(self.stage / LOG, json.dumps(log, indent=1))
        return [name for name in chapters if not self._executed(name).exists()]

    def hand_on(self, folder: Path, chapters: Sequence[str] = ()) -> None:
        """Copy the executed notebooks, or some, and the tables that they link to, for
        `build_executed`."""
        (folder / "rows").mkdir(parents=True, exist_ok=True)
        for name in chapters or self._chapters():
            executed = self._executed(name)
            shutil.copy(executed, folder)
            for table in {*re.findall(r"rows/[\w.-]+\.csv", executed.read_text("utf-8"))}:
                shutil.copy(executed.parent / table, folder / table)

    def build_executed(self, folder: Path) -> Path:
        """Render the pages from notebooks that were executed elsewhere, see `hand_on`; returns the
        first page. Each names its device and commit. Raises `InputError` for a notebook that is
        missing, failed, smoke-sized, or executed from another text than that of this clone."""
        self._copy_sources(pages_of(self.root))
        write_atomically(self.stage / LOG, "{}")  # what is executed here next begins anew
        for name in self._chapters():
            file = folder / f"{name}.ipynb"
            check(file.exists(), f"{file} is not there; execute the chapter {name}")
            notebook = nbformat.read(file, 4)
            about = notebook.metadata.get("whenpool", {})
            text = text_digest(self._source(name))
            again = f"execute the chapter {name} again"
            check(about.get("text") == text, f"{file} has another text than here; {again}")
            made = notebook.metadata.papermill
            check(not made.get("exception"), f"a cell of {file} failed; {again}")
            profile = made.parameters.get("profile", "quick")
            smoke = profile == "smoke" and self.output == self.root
            check(not smoke, f"{file} is smoke-sized and is not published")
            device, commit = about.get("device"), about.get("commit") or "unknown"
            line = f"Executed on {device}, commit {commit}, profile {profile}."
            notebook.cells.append(_markdown("div", line, "provenance"))
            nbformat.write(notebook, self._executed(name))
        if (folder / "rows").exists():
            shutil.copytree(folder / "rows", self.stage / "book" / "rows", dirs_exist_ok=True)
        return self._render()

    def _chapters(self) -> list[str]:
        """The pages with cells; the status comes last, which reports on the others."""
        names = [name for name in pages_of(self.root) if is_notebook(self._source(name))]
        return sorted(names, key=lambda name: name == STATUS)

    def _source(self, name: str) -> Path:
        return self.root / "book" / f"{name}.md"

    def _executed(self, name: str) -> Path:
        return self.stage / "book" / f"{name}.ipynb"

    def _copy_sources(self, pages: Sequence[str]) -> None:
        """Everything of the book but executed notebooks, which stay until they are replaced."""
        ignore = shutil.ignore_patterns("*.ipynb", ".*", "__pycache__")
        for module in (self.stage / "book").glob("*.py"):  # one that is gone must not be imported
            module.unlink()
        shutil.copytree(self.root / "book", self.stage / "book", dirs_exist_ok=True, ignore=ignore)
        shutil.copy(self.root / "_toc.yml", self.stage)
        config = (self.root / "_config.yml").read_text("utf-8")
        if name := os.environ.get("GITHUB_REPOSITORY"):  # the buttons of a fork open the fork
            config = re.sub(r"(?m)^(  url:) .*$", rf"\1 https://github.com/{name}", config)
        (self.stage / "_config.yml").write_text(config, "utf-8")
        for name in pages:  # the executed notebook takes the place of its source
            executed = self._executed(name)
            unused = executed.with_suffix(".md") if is_notebook(self._source(name)) else executed
            unused.unlink(missing_ok=True)

    def _execute(self, chapters: Sequence[str], named: Sequence[str]) -> None:
        """Execute the chapters that are named or not fresh, one for each processor at a time, then
        the status. ``executed.json`` has what each was made from, and when."""
        log = read_log(self.stage)
        parameters = self.asked.parameters if self.asked else {}
        profile = parameters.get("profile", "quick")
        about = self.asked.about if self.asked else {}

        errors: list[BookError] = []

        def keep_log() -> None:
            write_atomically(self.stage / LOG, json.dumps(dict(log), indent=1))

        def execute_chapter(name: str, line: str, made: dict[str, str]) -> None:
            if errors:  # no chapter begins after an error, and those that have begun are finished
                return
            self.say(line)
            began = time.time()
            try:
                execute(self._source(name), self._executed(name), parameters, **about)
            except BookError as error:
                errors.append(error)
                self.say(f"{name} failed: {error}")
                return
            log[name] = {"seconds": time.time() - began, "profile": profile, "inputs": made}

        numbers = {name: number for number, name in enumerate(chapters, 1)}
        for group in ([name for name in chapters if name != STATUS], {STATUS} & {*chapters}):
            todo = []
            for name in group:
                made = self._inputs(name, parameters, log)
                before = log.get(name, {}) if self._executed(name).exists() else {}
                reason = "it was asked for" if name in named else changed(made, before)
                line = f"[{numbers[name]}/{len(chapters)}] {name}: "
                if reason:  # whatever happens now, the notebook is not what the log says
                    log.pop(name, None)
                    todo.append((name, f"{line}executing, since {reason}", made))
                else:
                    self.say(f"{line}unchanged")
            keep_log()
            with kernel_pool() as pool:
                for future in as_completed([pool.submit(execute_chapter, *each) for each in todo]):
                    future.result()
                    keep_log()
            if errors:
                raise errors[0]

    @property
    def _folders(self) -> tuple[Path, Path, Path]:
        """Those of corpora, of finished runs, and of caches."""
        if self.asked is None:
            return data_directory(), store_directory(), cache_directory()
        place, store = self.asked.place, self.asked.place.store.directory
        # smoke-sized runs lie below the finished ones
        return place.data, store.parent if self._is_smoke else store, place.cache

    @property
    def _is_smoke(self) -> bool:
        return self.asked is not None and self.asked.request.profile == "smoke"

    def _inputs(self, name: str, parameters: Any, log: Mapping[str, Any]) -> dict[str, str]:
        data, store, _ = self._folders
        stores = [store, store / "smoke"] if self._is_smoke else [store]
        made = inputs(self.root, name, stores, data)
        made["parameters"] = json.dumps(parameters, sort_keys=True)
        if name == STATUS:
            others = {other: log[other] for other in sorted(log) if other != name}
            made["list of chapters"] = hash_of(json.dumps(others, sort_keys=True))
        return made

    def _environment(self) -> dict[str, str]:
        """Where a chapter finds data, runs (or the folder of smoke-sized ones) and caches."""
        data, store, cache = self._folders
        # With more threads than processors, those of one kernel would wait for those of another.
        threads = max(1, processors() // kernels_at_once())
        return {
            "JUPYTER_PREFER_ENV_PATH": "1",  # the kernel of this environment, not one of the user's
            "JUPYTER_PLATFORM_DIRS": "1",
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
            "WHENPOOL_DATA": str(data.resolve()),
            "WHENPOOL_STORE": str(store.resolve()),
            "WHENPOOL_CACHE": str(cache.resolve()),
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(threads)),
            COMPUTED: "1",
        }

    def _render(self) -> Path:
        """Render the pages unless their sources are those of the last time; returns the first
        page."""
        folder = self.output / "_build"
        log, page = folder / "rendered.txt", folder / "html" / "index.html"
        files = [file for file in self.stage.rglob("*") if file.suffix != ".pyc"]
        files = [file for file in files if file.name != LOG and ".executing." not in file.name]
        library = (self.root / "lib" / "whenpool").rglob("*.py")  # whose docstrings are pages
        sources = contents_digest([*files, *library, Path(__file__), Path(finish.__file__)])
        if page.exists() and log.exists() and log.read_text() == sources:
            self.say("The pages are unchanged")
            return page
        self.say("Rendering the pages")
        for source in (self.stage / "book").glob("[!.]*.md"):
            if "{bibliography}" in source.read_text("utf-8"):
                # it changes when another page cites another work, which Sphinx does not see
                source.touch()
        log.unlink(missing_ok=True)
        page = finish.render(self.stage, self.output)
        write_atomically(log, sources)
        return page


def _markdown(directive: str, text: str, argument: str = "") -> Any:
    """A cell with a directive around a text. Its number is that of its text, so that the same page
    is the same file."""
    cell = nbformat.v4.new_markdown_cell(f":::{{{directive}}} {argument}\n{text}\n:::")
    cell["id"] = hash_of(cell["source"])[:8]
    return cell


def kernels_at_once() -> int:
    """How many chapters are executed at a time."""
    return min(processors(), MOST_KERNELS)


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Variables of the environment of this process and its kernels, for a while."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def kernel_pool() -> Iterator[ThreadPoolExecutor]:
    """For the chapters that are executed at a time. After ctrl-C, or an error that is no chapter's,
    none that has begun is waited for."""
    pool = ThreadPoolExecutor(kernels_at_once())
    try:
        yield pool
        pool.shutdown()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for kernel in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                kernel.kill()
        raise


def execute(source: Path, target: Path, parameters: Mapping[str, Any], **about: str) -> None:
    """Execute a chapter in a kernel and put the notebook where pages are rendered from. papermill
    sets those ``parameters`` that the chapter's parameters cell has; the notebook keeps what it is
    made from, and what is ``about`` its execution.
    Raises `BookError` when a cell fails; the notebook as far as it got stays beside ``target``."""
    executing = target.with_suffix(".executing.ipynb")
    try:
        notebook = jupytext.read(source)
    except (yaml.YAMLError, MystMetadataParsingError) as error:
        raise BookError(
            f"{source} has YAML that is not valid: {' '.join(str(error).split())}"
        ) from None
    notebook.metadata["whenpool"] = {"text": text_digest(source), **about}
    nbformat.write(notebook, executing)
    accepted = papermill.inspect_notebook(executing)
    try:
        executed = papermill.execute_notebook(
            executing,
            executing,
            {name: value for name, value in parameters.items() if name in accepted},
            # not papermill's cwd, which changes the folder of this whole process
            resources={"metadata": {"path": str(target.parent.resolve())}},
            kernel_name="python3",
            execution_timeout=CELL_SECONDS,
            iopub_timeout=CELL_SECONDS,  # on a busy machine a kernel answers late
            progress_bar=False,
            extra_arguments=["--IPKernelApp.log_level=50"],  # its errors are reported below
        )
    except (PapermillExecutionError, RuntimeError, OSError) as error:
        raise BookError(failure(error, source, executing)) from None
    del executed.metadata.papermill["input_path"], executed.metadata.papermill["output_path"]
    # who opens the notebook changes its own parameters cell; each figure says which runs it has
    executed.cells = [
        cell
        for cell in executed.cells
        if "injected-parameters" not in cell.metadata.get("tags", [])
    ]
    nbformat.write(executed, executing)
    executing.replace(target)


def failure(error: Exception, source: Path, executing: Path) -> str:
    """What is said of a chapter that failed: its cell, by line, and why."""
    kind = getattr(error, "ename", type(error).__name__)
    why = f"{kind}: {' '.join(str(getattr(error, 'evalue', error)).split())}"
    cells = nbformat.read(executing, 4).cells
    begun = [cell for cell in cells if cell.metadata.get("papermill", {}).get("start_time")]
    if not begun:  # the kernel has not started
        return f"book/{source.name}: {why}"
    text, code = source.read_text("utf-8"), begun[-1].source
    line = text.count("\n", 0, text.find(f"\n{code}\n```") + 1) + 1
    first = code.partition("\n")[0]
    return (
        f"book/{source.name}, the cell at line {line} ({first}): {why}\n"
        f"The notebook up to this cell is {executing}"
    )
