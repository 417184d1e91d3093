"""The project holds together: versions, links, the workflow on GitHub, and notebooks that equal
their chapters, whose first cell finds the library."""

import os
import re
import subprocess
import sys
import tomllib
from itertools import chain

import click
import nbformat
import pytest
import torch
import yaml
from called import python
from clones import CAPTURED, HEAD, PAGES, PROJECT, ROOT, clone, code_cell, source_of
from notebooks import COMMAND, chapters, main, notebook
from packaging.requirements import Requirement

from whenpool import TextClassifier, __version__, save_checkpoint
from whenpool.cli import cli

PINS = {
    Requirement(line).name.lower(): Requirement(line)
    for line in (ROOT / "requirements.txt").read_text().splitlines()
    if line and not line.startswith("#")
}
CHAPTERS, README = sorted((ROOT / "book").glob("*.md")), (ROOT / "README.md").read_text()
TARGETS = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
COMMANDS = set(cli.list_commands(click.Context(cli)))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_versions_are_exact_in_one_place_and_the_package_admits_them_and_older_torch():
    for pin in PINS.values():
        assert [specifier.operator for specifier in pin.specifier] == ["=="], pin
    assert not [name for name in PINS if re.search("nvidia|cuda|triton", name)]  # binder has no GPU
    paper = tomllib.loads((ROOT / "lib" / "paper" / "pyproject.toml").read_text())["project"]
    lists = [project["dependencies"] for project in (PROJECT, paper)]
    lists += [*PROJECT["optional-dependencies"].values(), *paper["optional-dependencies"].values()]
    # an extra that brings another; of a GPU alone
    unpinned = {"whenpool", "triton"}
    admitted = [each for each in map(Requirement, chain(*lists)) if each.name not in unpinned]
    for requirement in admitted:
        [pinned] = PINS[requirement.name.lower()].specifier
        assert requirement.specifier.contains(pinned.version), requirement
    torch = next(each.specifier for each in admitted if each.name == "torch")
    assert all(torch.contains(version) for version in ("2.6.0", "2.8.0", "2.11.0"))


def test_the_papers_package_has_all_its_folders_with_code():
    setup = tomllib.loads((ROOT / "lib" / "paper" / "pyproject.toml").read_text())
    folders = {file.parent for file in (ROOT / "lib" / "paper").rglob("*.py")}
    names = {".".join(folder.relative_to(ROOT / "lib").parts) for folder in folders}
    assert {*setup["tool"]["setuptools"]["packages"]} == names


def test_a_release_that_an_archive_takes_is_of_this_version():
    cited, archived = (
        yaml.safe_load((ROOT / name).read_text()) for name in ("CITATION.cff", ".zenodo.json")
    )
    assert (cited["version"], cited["title"]) == (__version__, archived["title"])
    assert cited["license"] == archived["license"] == "MIT"


def test_every_chapter_of_the_contents_is_there_and_the_other_way_round():
    assert sorted(PAGES) == [f"book/{path.stem}" for path in CHAPTERS]


def test_commands_and_links_of_the_readme_are_there():
    assert {"book", "test"} <= set(re.findall(r"^make ([a-z-]+)", README, re.MULTILINE)) <= TARGETS
    assert set(re.findall(r"^whenpool ([a-z]+)", README, re.MULTILINE)) <= COMMANDS
    for text in (README, (ROOT / "CONTRIBUTING.md").read_text()):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
            assert (ROOT / target).exists(), target


@pytest.mark.parametrize("block", re.findall(r"^```python\n(.*?)^```", README, re.M | re.S))
@pytest.mark.filterwarnings("ignore")  # of the exporter to ONNX
def test_python_of_the_readme_runs_when_it_is_pasted_alone(block, tmp_path, monkeypatch):
    if "PoolingClassifier" in block:
        pytest.importorskip("sklearn")
    if "onnxruntime" in block:
        for package in ("onnx", "onnxscript", "onnxruntime"):
            pytest.importorskip(
                package, reason=f"{package} is missing: pip install 'whenpool[onnx]'"
            )
    monkeypatch.chdir(tmp_path)
    words, classes = ("<unk>", "<pad>", "fine", "waste", "hours"), ("bad", "good")
    model = TextClassifier(5, 2, "max_attention", embedding_size=4, hidden_size=4)
    save_checkpoint("reviews-diagnosis/models/max_attention", model.eval(), words, classes)
    exec(block, {"__name__": "__main__"})


@pytest.mark.slow
@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_follow_the_published_schema_and_call_what_there_is(path):
    schema = ["--builtin-schema", "vendor.github-workflows"]  # which the package brings along
    done = subprocess.run([sys.executable, "-m", "check_jsonschema", *schema, path], **CAPTURED)
    assert done.returncode == 0, done.stdout + done.stderr
    steps = [
        step for job in yaml.safe_load(path.read_text())["jobs"].values() for step in job["steps"]
    ]
    lines = "\n".join(step["run"] for step in steps if "run" in step).splitlines()
    for program, *words in map(str.split, lines):
        if program == "make":
            assert {word for word in words if "=" not in word} <= TARGETS, words
        elif program == "whenpool":
            assert words[0] in COMMANDS, words
        elif program not in ("git", "tar"):
            assert os.access(ROOT / program, os.X_OK), program


REPOSITORY = yaml.safe_load((ROOT / "_config.yml").read_text())["repository"]
MYST = re.compile(r"\{[\w:]+\}`|^\s*:{3,}|^\([\w-]+\)=|^```\{", re.MULTILINE)
FAKES = """
import subprocess, sys, types
sys.modules["paper"] = None  # pip has just installed it: this process does not see it yet
sys.modules["google"] = types.ModuleType("google")
sys.modules["google.colab"] = sys.modules["google"].colab = types.ModuleType("google.colab")
real = subprocess.run
def run(command, **options):
    if "pip" in command:
        print("pip", command[command.index("-c") + 1], *command[-4:])
        return print(open(command[command.index("-c") + 1]).read())
    return real(command, **options)
subprocess.run = run
"""


def test_the_committed_notebooks_are_what_their_chapters_give():
    assert main(ROOT, check=True) == 0, "run scripts/notebooks.py"
    for chapter in chapters(ROOT):
        committed = nbformat.read(chapter.with_suffix(".ipynb"), as_version=nbformat.NO_CONVERT)
        nbformat.validate(committed)
        assert "google.colab" in committed.cells[0].source
        assert not any(
            MYST.search(cell.source) for cell in committed.cells if cell.cell_type != "code"
        )


def first_cell_run(folder, modules="", code=0):
    """Run the first cell of a notebook in a new process, after some lines that stand for
    modules."""
    made = nbformat.reads(notebook(ROOT / "book" / "theory.md", ROOT), 4)
    printed = "print(os.environ['WHENPOOL_DEVICE'], Path.cwd(), sys.path[0])"
    (folder / "cell.py").write_text(f"{made.cells[0].source}\n{printed}\n")
    done = python(f"{modules}\nexec(open('cell.py').read())", cwd=folder)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def test_outside_the_clone_a_notebook_goes_where_the_package_is_or_says_where_to_start(tmp_path):
    [line] = first_cell_run(tmp_path).splitlines()
    assert line.split()[1] == str(ROOT / "book")
    alone = "import importlib.util\nimportlib.util.find_spec = lambda name: None"
    said = f"no clone of the book is around {tmp_path}; start in one: papermill --cwd book\n"
    assert first_cell_run(tmp_path, alone, code=1) == said


def test_a_notebook_that_is_older_than_its_text_names_the_command_that_executes_the_text(tmp_path):
    folder = clone(tmp_path / "clone", {"theory": HEAD + code_cell("print('as the text is now')")})
    warning, command, _ = first_cell_run(folder / "book").splitlines()
    assert warning.startswith("This notebook is older than its text; run scripts/notebooks.py")
    assert command == COMMAND.format(name="theory")
    assert COMMAND.format(name="natural_bias") in source_of("run_it_yourself")
    path = {"PATH": f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    words = ["bash", "-o", "pipefail", "-c", f"{command} -p profile quick"]
    done = subprocess.run(words, cwd=folder, env=os.environ | path, **CAPTURED)
    assert done.returncode == 0, done.stderr
    executed = nbformat.read(folder / "mine.ipynb", 4)
    assert executed.cells[-1].outputs[0]["text"] == "as the text is now\n"


def test_on_colab_the_repository_is_cloned_once_and_its_torch_kept(tmp_path, monkeypatch):
    origin, content = clone(tmp_path / "origin"), tmp_path / "content"
    content.mkdir()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(origin)]
    for words in (f"init -q -b {REPOSITORY['branch']}", "add -A", "commit -qm one"):
        subprocess.run([*git, *words.split()], check=True)
    monkeypatch.setenv("WHENPOOL_REPOSITORY", origin.as_uri())
    monkeypatch.delenv("WHENPOOL_DEVICE", raising=False)
    said = first_cell_run(content, FAKES)
    assert f"torch=={torch.__version__}\n" in said
    assert f"pip kept.txt -e {content}/whenpool -e {content}/whenpool/lib/paper" in said
    device = "cuda" if torch.cuda.is_available() else "cpu"
    assert said.splitlines()[-1] == f"{device} {content}/whenpool/book {content}/whenpool/lib"
    (content / "whenpool" / "mine").touch()
    first_cell_run(content, FAKES)  # again, as after a restart
    assert (content / "whenpool" / "mine").exists()
