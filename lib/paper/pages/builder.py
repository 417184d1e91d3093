"""From sources to pages: missing runs are computed, chapters executed, and pages rendered.

A chapter is executed again when something that it depends on has changed: its text and parameters,
packages and corpora, the small tables of ``data``, the modules that its kernel has imported from
the library or from beside it, the runs of its request, and the answers that the finished runs gave
to what it asked of them. Hashes of all these stay in ``executed.json`` beside the executed
notebooks. The pages are rendered again when one of their sources has changed.
"""

import json
import os
import re
import shutil
import sys
import time
from ast import literal_eval
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jupytext
import nbformat
import papermill
import psutil
import yaml
from jupytext.myst import MystMetadataParsingError
from papermill.exceptions import PapermillExecutionError

import whenpool
from paper import chapter_named
from paper.chapter import planned
from paper.pages.finish import render
from paper.runs.compute import compute, standing
from paper.runs.engine import Workforce
from paper.runs.kinds import KINDS
from paper.runs.request import NARROWING, Request
from paper.runs.run import Place
from paper.tables import COMPUTED, duration
from paper.verdicts.claims import claims, decide
from paper.verdicts.measures import results
from paper.verdicts.results import READS, Runs
from whenpool.base.devices import processors
from whenpool.base.errors import BookError
from whenpool.base.files import hash_of, write_atomically

AT_ONCE = 2  # So many chapters are executed at a time; each has a kernel of its own, of about 1 GB
STATUS = "status"  # The page that reports on the chapters
CELL_SECONDS = 3600  # A cell that takes longer is stopped: the runs it needs were computed before
LIBRARY = Path(whenpool.__file__).resolve().parents[1]  # and the paper beside it
LAST_CELL = "from paper.verdicts.results import used\nprint(used())"
"""What a chapter's kernel executes last."""


def is_notebook(source: Path) -> bool:
    """Whether a page has cells to execute."""
    return "\nkernelspec:" in source.read_text("utf-8")


@dataclass(frozen=True)
class Builder:
    """Builds the book of a clone."""

    root: Path  # the clone
    request: Request  # what the chapters show
    place: Place  # where runs find data and leave results
    workforce: Workforce = field(default_factory=Workforce.default)
    say: Callable[[str], None] = print  # called with what happens, a line at a time

    @property
    def output(self) -> Path:
        """What ``_build/html`` is written into: neither smoke-sized runs nor other corpora than the
        profile's replace the published pages."""
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
        """Compute missing runs, execute the chapters that need it (see the module), or all with
        ``force``, or those that are ``asked`` for, and render the pages; returns the first page.
        Raises `BookError` when a chapter fails or the pages cannot be rendered."""
        started = time.perf_counter()
        toc = (self.root / "_toc.yml").read_text("utf-8")
        pages = re.findall(r"(?:root|file): book/(\w+)", toc)
        asked = [chapter_named(name, pages) for name in asked]
        chapters = [name for name in pages if is_notebook(self._source(name))]
        if (
            asked
        ):  # the others that were not executed yet are executed, too, since the pages need them
            again = (*asked, STATUS)
            chapters = [
                name for name in chapters if name in again or not self._executed(name).exists()
            ]
        runs = [run for name in chapters for run in planned(name, self.request, self.place)]
        without = self.request.leaves_out
        report = compute(runs, self.place, self.workforce, skip_absent=without, say=self.say)
        if report.left:
            self.say(f"{report.left} runs are left, since time was up; the pages show the rest")
        self._copy_sources(pages)
        with patch.dict(os.environ, self._environment()):
            self._execute(chapters, pages, pages if force else asked)
        page = self._render()
        self.say(f"The book was built in {duration(time.perf_counter() - started)}: {page}")
        if failed := len(report.failed):
            raise BookError(
                f"{failed} runs failed and are not in the pages; build again to repeat them"
            )
        return page

    def _source(self, name: str) -> Path:
        return self.root / "book" / f"{name}.md"

    def _executed(self, name: str) -> Path:
        return self.stage / "book" / f"{name}.ipynb"

    def _copy_sources(self, pages: Sequence[str]) -> None:
        """Everything of the book but executed notebooks, which stay until they are replaced."""
        ignore = shutil.ignore_patterns("*.ipynb", ".ipynb_checkpoints", "__pycache__")
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

    def _execute(self, chapters: Sequence[str], pages: Sequence[str], asked: Sequence[str]) -> None:
        """Execute the chapters that were asked for or are not fresh, `AT_ONCE` at a time, and the
        status last, which reports on them; ``executed.json`` says when and from what each was
        made."""
        log_file, parameters = self.stage / "executed.json", self._parameters()
        fresh = _Freshness(self, parameters)
        log = json.loads(log_file.read_text()) if log_file.exists() else {}
        todo: dict[str, tuple[str, dict[str, str]]] = {}  # what is reported, and the inputs

        def keep_log() -> None:
            write_atomically(log_file, json.dumps({n: log[n] for n in pages if n in log}, indent=1))

        for number, name in enumerate(sorted(chapters, key=lambda name: name == STATUS), 1):
            runs = planned(name, self.request, self.place)
            keys = standing(runs, self.place).done.values() if runs else ()
            inputs = fresh.inputs(self._source(name), [fresh.state] if name == STATUS else keys)
            before = log.pop(name, {}) if self._executed(name).exists() else {}
            reason = "it was asked for" if name in asked else fresh.changed(inputs, before)
            if name == STATUS and todo:
                reason = "it reports on the other chapters"
            line = f"[{number}/{len(chapters)}] {name}: "
            if reason:  # whatever happens now, the notebook is not what the log says
                todo[name] = f"{line}executing, since {reason}", inputs
            else:
                log[name] = before | {"state": fresh.state}
                self.say(f"{line}unchanged")
        keep_log()

        def execute_chapter(name: str) -> tuple[str, dict[str, Any]]:
            line, inputs = todo[name]
            self.say(line)
            began = time.time()
            kernel = json.loads(execute(self._source(name), self._executed(name), parameters))
            files = {file: fresh.code[file] for file in kernel["files"] if file in fresh.code}
            record = {"seconds": time.time() - began, "profile": self.request.profile}
            record |= {"inputs": inputs, "files": files, "asked": kernel["asked"]}
            return name, record | {"state": fresh.state}

        with ThreadPoolExecutor(AT_ONCE) as pool:
            try:
                for group in ([name for name in todo if name != STATUS], {STATUS} & todo.keys()):
                    for future in as_completed(
                        [pool.submit(execute_chapter, name) for name in group]
                    ):
                        name, log[name] = future.result()  # or the error of a chapter
                        keep_log()
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
        only = {key: value for key, value in narrowing.items() if value is not None}
        parameters: dict[str, Any] = {"profile": request.profile, "corpus": request.corpora or None}
        parameters |= {"only": only, "encoder": request.encoder}
        if request.profile == "smoke":  # the sections that train on the page take seconds
            parameters |= {"texts": 44, "epochs": 1}
        return json.loads(json.dumps(parameters))  # lists, not tuples

    def _environment(self) -> dict[str, str]:
        """Where a chapter finds data, runs (or the folder of smoke-sized ones) and caches."""
        store = self.place.store.directory
        store = store.parent if self.request.profile == "smoke" else store
        folders = {"DATA": self.place.data, "STORE": store, "CACHE": self.place.cache}
        # With more threads than processors, those of one kernel would wait for those of another.
        threads = max(1, processors() // AT_ONCE)
        return {
            "JUPYTER_PREFER_ENV_PATH": "1",  # the kernel of this environment, not one of the user's
            "JUPYTER_PLATFORM_DIRS": "1",
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
            **{f"WHENPOOL_{name}": str(folder.resolve()) for name, folder in folders.items()},
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(threads)),
            COMPUTED: "1",
        }

    def _render(self) -> Path:
        """Render the pages unless their sources are those of the last time; returns the first
        page."""
        folder = self.output / "_build"
        log, page = folder / "rendered.txt", folder / "html" / "index.html"
        files = [file for file in self.stage.rglob("*") if file.is_file() and file.suffix != ".pyc"]
        files = [file for file in files if file.name != "executed.json"]
        files += [Path(__file__), Path(__file__).with_name("finish.py")]
        sources = hash_of(*(f"{file} {digest(file)}" for file in sorted(files)))
        if page.exists() and log.exists() and log.read_text() == sources:
            self.say("The pages are unchanged")
            return page
        self.say("Rendering the pages")
        for source in (self.stage / "book").glob("*.md"):
            if "{bibliography}" in source.read_text("utf-8"):
                # it changes when another page cites another work, which Sphinx does not see
                source.touch()
        log.unlink(missing_ok=True)
        page = render(self.stage, self.output)
        write_atomically(log, sources)
        return page


class _Freshness:
    """Compares what chapters depend on with what they depended on when they were executed."""

    def __init__(self, builder: Builder, parameters: Mapping[str, Any]) -> None:
        root, folder = builder.root, builder.root / "data"
        # smoke-sized runs are not among the finished ones
        self.runs = Runs(Place.default() if builder.request.profile == "smoke" else builder.place)
        modules = [*LIBRARY.rglob("*.py"), *(builder.stage.resolve() / "book").rglob("*.py")]
        self.code = {str(file): digest(file) for file in modules}  # before any chapter imports it
        written = [*folder.glob("*/*.csv"), *folder.glob("*/*.yml")]
        self.state = hash_of_states([*self.runs.store.directory.glob("*.json"), *written])
        """Changes whenever a run is stored or published, or a claim is edited."""
        of_runs = tuple(kind.table for kind in KINDS.values())  # of which is asked again
        tables = [file for file in folder.glob("*/*.csv") if not file.stem.startswith(of_runs)]
        tables += [folder / "paper" / "advice.yml", root / "book" / "_static" / "ledger_table.html"]
        self.shared = {
            "parameters": hash_of(json.dumps(parameters, sort_keys=True)),
            "packages": hash_of(sys.version, digest(root / "requirements.txt")),
            "corpora": hash_of_states(builder.place.data.resolve().rglob("*")),
            "tables": hash_of(*map(digest, sorted(tables))),
        }
        self.answers: dict[str, str] = {}  # of today, as far as they were asked for again

    def inputs(self, source: Path, keys: Iterable[str]) -> dict[str, str]:
        """Hashes of what a chapter depends on, apart from what its kernel used; ``keys``: of its
        runs."""
        return {"text": digest(source), **self.shared, "runs": hash_of(*sorted(keys))}

    def changed(self, inputs: Mapping[str, str], record: Mapping[str, Any]) -> str:
        """Why a chapter has to be executed again, or nothing."""
        if not record:
            return "it has not been executed yet"
        now, before = {**inputs, **self.code}, {**record["inputs"], **record["files"]}
        for name, value in before.items():
            if value != now.get(name):
                return f"its {Path(name).name} changed"
        if record["state"] != self.state:
            self.answers |= ask_again(self.runs, record["asked"].keys() - self.answers.keys())
            for query, answer in record["asked"].items():
                if answer != self.answers[query]:
                    return f"the answer to {query} changed"
        return ""


def ask_again(runs: Runs, queries: Iterable[str]) -> dict[str, str]:
    """The answers of today, as `READS` has them, to queries that a page has asked."""
    by_id, answers = {claim.id: claim for claim in claims()}, {}
    for query in queries:
        match literal_eval(query):
            case "claim", name:
                if name in by_id:
                    decide(by_id[name], runs)
            case what, scale, selection:
                results(runs, what, scale, **selection)
        answers[query] = READS.get(query, "")
    return answers


def hash_of_states(files: Iterable[Path]) -> str:
    """The SHA-256 of the names, sizes and times of change of files; hidden files do not count."""
    states = sorted(
        (str(file), file.stat()) for file in files if file.is_file() and file.name[0] != "."
    )
    return hash_of(*(f"{name} {state.st_size} {state.st_mtime_ns}" for name, state in states))


def digest(file: Path) -> str:
    """The SHA-256 of a file; nothing where there is none."""
    return sha256(file.read_bytes()).hexdigest() if file.is_file() else ""


def execute(source: Path, target: Path, parameters: Mapping[str, Any]) -> str:
    """Execute a chapter in a kernel and put the notebook where pages are rendered from; returns
    what the kernel prints in `LAST_CELL`. papermill sets those ``parameters`` that the chapter's
    parameters cell has.
    Raises `BookError` when a cell fails; the notebook as far as it got stays beside ``target``."""
    executing = target.with_suffix(".executing.ipynb")
    try:
        notebook = jupytext.read(source)
        notebook.cells.append(nbformat.v4.new_code_cell(LAST_CELL))
        jupytext.write(notebook, executing)
    except (yaml.YAMLError, MystMetadataParsingError) as error:
        raise BookError(
            f"{source} has YAML that is not valid: {' '.join(str(error).split())}"
        ) from None
    known = papermill.inspect_notebook(executing)
    try:
        executed = papermill.execute_notebook(
            executing,
            executing,
            {name: value for name, value in parameters.items() if name in known},
            # not papermill's cwd, which changes the folder of this whole process
            resources={"metadata": {"path": str(target.parent.resolve())}},
            kernel_name="python3",
            execution_timeout=CELL_SECONDS,
            progress_bar=False,
            extra_arguments=["--IPKernelApp.log_level=50"],  # its errors are reported below
        )
    except (PapermillExecutionError, RuntimeError, OSError) as error:
        kind, message = (
            getattr(error, "ename", type(error).__name__),
            getattr(error, "evalue", error),
        )
        why, where = f"{kind}: {' '.join(str(message).split())}", ""
        cells = nbformat.read(executing, 4).cells
        begun = [cell for cell in cells if cell.metadata.get("papermill", {}).get("start_time")]
        if begun:  # else the kernel has not started
            text, code = source.read_text("utf-8"), begun[-1].source
            line = text.count("\n", 0, text.find(f"\n{code}\n```") + 1) + 1
            where = f", the cell at line {line} ({code.partition(chr(10))[0]})"
            why += f"\nThe notebook up to this cell is {executing}"
        raise BookError(f"book/{source.name}{where}: {why}") from None
    printed = "".join(output["text"] for output in executed.cells.pop()["outputs"])
    del executed.metadata.papermill["input_path"], executed.metadata.papermill["output_path"]
    # who opens the notebook changes its own parameters cell; each figure says which runs it has
    executed.cells = [
        cell
        for cell in executed.cells
        if "injected-parameters" not in cell.metadata.get("tags", [])
    ]
    nbformat.write(executed, executing)
    executing.replace(target)
    return printed
