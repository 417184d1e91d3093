"""From sources to pages: chapters are executed (jupytext, papermill) and rendered (jupyter-book)."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import papermill
import yaml
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from papermill.exceptions import PapermillExecutionError

from whenpool.base.errors import BookError, InputError
from whenpool.base.paths import variables
from whenpool.book.chapter import COMPUTED
from whenpool.book.pages import lighten
from whenpool.book.report.tables import duration
from whenpool.runs.compute import compute, fetch_encoders, standing
from whenpool.runs.engine import Workforce
from whenpool.runs.estimates import Pace
from whenpool.runs.filter import Only
from whenpool.runs.plans.chapters import PLANS, needed, plan
from whenpool.runs.request import NARROWING, Choice
from whenpool.runs.run import Place, Run

_ASSIGNMENT = re.compile(r"(?P<name>\w+) = (?P<value>[^#]*?)(?P<remark>\s*#.*)?")
CELL_SECONDS = 3600
"""A cell that takes longer is stopped: the runs it needs were computed before."""
ALIASES = {"nwi": "word_importance", "tricks": "learnability", "gradients": "gradient_propagation"}
"""Short names of chapters, beside every part of a name that no other chapter has."""


def chapter_named(name: str, names: Sequence[str]) -> str:
    """The chapter that is meant by its name, an alias or a part of its name.

    Raises:
        InputError: when there is none, or several.
    """
    name = Path(name).stem if name.endswith(".md") else name
    if name in names:
        return name
    if (alias := ALIASES.get(name, "")) in names:
        return alias
    found = [chapter for chapter in names if name in chapter]
    if not name or len(found) != 1:
        several = f" and {name!r} is in the names of several" if name and found else ""
        raise InputError(f"there is no chapter {name!r}{several}; the book has {', '.join(names)}")
    return found[0]


def is_notebook(source: Path) -> bool:
    """Whether a page has cells to execute."""
    return "\nkernelspec:" in source.read_text("utf-8")


def execute(
    source: Path, target: Path, parameters: Mapping[str, Any], environment: dict[str, str]
) -> None:
    """Execute a chapter and put the notebook where the pages are rendered from.

    Args:
        parameters: values for the chapter's parameters cell; those it does not have are left out.
        environment: variables of the kernel.

    Raises:
        BookError: when a cell fails; the notebook as far as it got stays beside ``target``.
    """
    notebook = jupytext.read(source)
    unexecuted, executing = target.with_suffix(".source.ipynb"), target.with_suffix(".executing.ipynb")
    jupytext.write(notebook, unexecuted)
    try:
        with variables(environment):
            asked = papermill.inspect_notebook(unexecuted)
            papermill.execute_notebook(
                unexecuted,
                executing,
                parameters={name: value for name, value in parameters.items() if name in asked},
                cwd=target.parent,
                kernel_name="python3",
                execution_timeout=CELL_SECONDS,
                extra_arguments=["--IPKernelApp.log_level=50"],  # its errors are told below
                progress_bar={
                    "desc": "    cells",
                    "bar_format": "{desc} {n_fmt}/{total_fmt} |{bar:20}| {elapsed}",
                },
            )
    except PapermillExecutionError as error:
        sources = [cell.source for cell in notebook.cells]
        known = error.source in sources
        number = sources.index(error.source) + 1 if known else error.cell_index + 1
        line = error.source.partition("\n")[0]
        raise BookError(
            f"chapter {source.stem}, cell {number} ({line}): {error.ename}: {error.evalue}\n"
            f"The notebook as far as it got: {executing}"
        ) from None
    except (CellTimeoutError, DeadKernelError) as error:
        raise BookError(f"chapter {source.stem}: {error}") from None
    finally:
        unexecuted.unlink()
    _tidy(executing, parameters)
    executing.replace(target)


def _tidy(notebook: Path, parameters: Mapping[str, Any]) -> None:
    """Show the parameters that were used in the chapter's own cell rather than in papermill's, and
    keep folders of this machine out of the file."""
    content = nbformat.read(notebook, as_version=4)
    for cell in content.cells:
        tags = cell.metadata.get("tags", [])
        if "injected-parameters" in tags:
            tags.append("remove-cell")
        elif "parameters" in tags:
            cell.source = "\n".join(_with_value(line, parameters) for line in cell.source.splitlines())
    for name in ("input_path", "output_path"):
        content.metadata.papermill.pop(name, None)
    nbformat.write(content, notebook)


def _with_value(line: str, parameters: Mapping[str, Any]) -> str:
    """``name = default  # remark`` with the value that was used."""
    match = _ASSIGNMENT.fullmatch(line)
    if not match or match["name"] not in parameters:
        return line
    value = parameters[match["name"]]
    if isinstance(value, str):  # in double quotes, whatever it holds: a file can have any name
        shown = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace").decode()
    else:
        shown = repr(value)
    return f"{match['name']} = {shown.ljust(len(match['value']))}{match['remark'] or ''}"


def render(stage: Path, output: Path) -> Path:
    """Render the chapters of a staging folder; returns the first page.

    Args:
        stage: the folder of sources and executed notebooks, with ``_config.yml`` and ``_toc.yml``.
        output: the pages go into its folder ``_build/html``.

    Raises:
        BookError: for anything that jupyter-book or Sphinx warns of, with what they say.
    """
    log = output / "_build" / "render.log"
    command = [
        sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build",
        str(stage), "--path-output", str(output), "-W", "--keep-going", "-q",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    log.write_text(said)
    page = output / "_build" / "html" / "index.html"
    if done.returncode or not page.exists():
        told = [line for line in said.splitlines() if re.search("warning:|error", line, re.I)][:8]
        raise BookError("\n".join([f"the pages could not be rendered; the whole log is {log}", *told]))
    return page


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
        """What runs take, which matters only before a deadline."""
        return Pace.measured(self.place, self.workforce) if self.workforce.until else Pace()

    def _runs(self, chapter: str) -> list[Run]:
        """Those that a chapter draws from and that are asked for."""
        runs = plan(chapter, self.choice, self.place) if chapter in PLANS else []
        return [run for run in runs if self.only.admits(run)]

    def _files(self) -> list[str]:
        """The files of the table of contents, in its order."""
        toc = yaml.safe_load((self.root / "_toc.yml").read_text("utf-8"))
        parts = [toc, *toc.get("parts", [])]
        return [toc["root"], *(page["file"] for part in parts for page in part.get("chapters", []))]

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
        config = yaml.safe_dump(with_own_repository(config, self.root), allow_unicode=True)
        (self.stage / "_config.yml").write_text(config, "utf-8")
        for file in self._files():  # the executed notebook takes the place of its source
            executed = is_notebook(self.root / f"{file}.md")
            (self.stage / f"{file}.md" if executed else self._executed(file)).unlink(missing_ok=True)

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

    def _environment(self) -> dict[str, str]:
        store = self.place.store.directory  # a chapter finds the folder of smoke-sized runs in it
        store = store.parent if self.choice.profile == "smoke" else store
        return {
            "JUPYTER_PREFER_ENV_PATH": "1",  # the kernel of this environment, not one of the user's
            "JUPYTER_PLATFORM_DIRS": "1",
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
            "WHENPOOL_DATA": str(self.place.data.resolve()),
            "WHENPOOL_STORE": str(store.resolve()),
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


def configured(root: Path) -> dict[str, str]:
    """The entry ``repository`` of a clone's ``_config.yml``: ``url`` and ``branch``."""
    return yaml.safe_load((root / "_config.yml").read_text("utf-8"))["repository"]


def with_own_repository(config: dict[str, Any], root: Path) -> dict[str, Any]:
    """A book's configuration whose buttons open this clone's own repository, where that is on GitHub:
    what ``GITHUB_REPOSITORY`` (set by its workflows) or the remote "origin" names, so that the buttons
    of a fork open the fork; else the one that is configured."""
    name = os.environ.get("GITHUB_REPOSITORY")
    if not name and shutil.which("git") and (root / ".git").exists():  # else another's clone around it
        command = ["git", "remote", "get-url", "origin"]
        said = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False).stdout
        found = re.search(r"[@/]github\.com[/:]([\w.-]+/[\w.-]+?)(?:\.git)?/?$", said.strip())
        name = found and found[1]
    if not name or not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        return config
    return config | {"repository": config["repository"] | {"url": f"https://github.com/{name}"}}
