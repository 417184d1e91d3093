"""What the launch buttons open: notebooks that equal their chapters; their first cell finds the library."""

import re
import subprocess
import sys

import nbformat
import torch
import yaml
from clones import CAPTURED, ROOT, clone
from notebooks import chapters, main

CHAPTERS = chapters(ROOT)
REPOSITORY = yaml.safe_load((ROOT / "_config.yml").read_text())["repository"]
MYST = re.compile(r"\{[\w:]+\}`|^\s*:{3,}|^\([\w-]+\)=|^```\{", re.MULTILINE)
FAKES = """
import subprocess, sys, types
sys.modules["google"] = types.ModuleType("google")
sys.modules["google.colab"] = sys.modules["google"].colab = types.ModuleType("google.colab")
real = subprocess.run
def run(command, **options):
    if "pip" in command:
        print("pip", command[command.index("-c") + 1], *command[-2:])
        return print(open(command[command.index("-c") + 1]).read())
    return real(command, **options)
subprocess.run = run
"""


def test_the_committed_notebooks_are_what_their_chapters_give():
    assert main(ROOT, check=True) == 0, "run scripts/notebooks.py"
    for chapter in CHAPTERS:
        committed = nbformat.read(chapter.with_suffix(".ipynb"), as_version=nbformat.NO_CONVERT)
        nbformat.validate(committed)
        assert "google.colab" in committed.cells[0].source
        assert not any(MYST.search(cell.source) for cell in committed.cells if cell.cell_type != "code")


def first_cell_run(folder, modules=""):
    """Run the first cell of a notebook in a new process, after some lines that stand for modules."""
    source = nbformat.read(ROOT / "book" / "theory.ipynb", as_version=4).cells[0].source
    told = "print(os.environ['WHENPOOL_DEVICE'], Path.cwd(), sys.path[0])"
    (folder / "cell.py").write_text(f"{source}\n{told}\n")
    command = [sys.executable, "-c", f"{modules}\nexec(open('cell.py').read())"]
    done = subprocess.run(command, cwd=folder, **CAPTURED)
    assert done.returncode == 0, done.stderr
    return done.stdout


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
    assert f"pip kept.txt -e {content}/whenpool[notebook]" in said
    device = "cuda" if torch.cuda.is_available() else "cpu"
    assert said.splitlines()[-1] == f"{device} {content}/whenpool/book {content}/whenpool/lib"
    (content / "whenpool" / "mine").touch()
    first_cell_run(content, FAKES)  # again, as after a restart
    assert (content / "whenpool" / "mine").exists()
