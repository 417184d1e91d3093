"""What the launch buttons open: notebooks that equal their chapters, and an image without CUDA; and pages
that lose what nothing uses."""

import re
import subprocess
import sys
from html import unescape
from urllib.parse import unquote, urlparse

import nbformat
import pytest
import torch
from clones import CAPTURED, HEAD, ROOT, builder, clone, code_cell
from notebooks import Plain, chapters, configured, made, main, stale, write

from whenpool.book.build import with_own_repository
from whenpool.book.chapter import Provenance, glue
from whenpool.book.pages import lighten

CHAPTERS = chapters(ROOT)
REPOSITORY = configured(ROOT)
MYST = re.compile(r"\{[\w:]+\}`|^\s*:{3,}|^\([\w-]+\)=|^```\{", re.MULTILINE)
FORK = "github.com/someone/fork"
SAME = f"https://{FORK}.git", "git@github.com:someone/fork.git", f"ssh://git@{FORK}", f"https://{FORK}/"
OTHER = None, "/srv/fork", "https://example.org/someone/fork.git"
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
GLOSSARY = (
    '<body><dl class="simple glossary"><dt id="term-left">left</dt><dt id="term-mid">mid<a>#</a></dt>'
    "<dd><p>Among <em>filler</em>\n&amp; more.</p></dd></dl><dl><dt id='x'></dt><dd>other</dd></dl>"
)
LINK = '<a class="{0}" href="terms.html#term-{0}"><span class="xref std std-term">a</span></a>'
DRAWING = (
    "<svg>\n <metadata>\n  <dc:date>2026</dc:date>\n </metadata>\n <!-- 0.12345 -->\n"
    ' <g transform="scale(0.015625 -0.015625)"><path d="M 1.98765 -2.5 \nL 30.04999 4"/></g></svg>'
)


def test_the_committed_notebooks_are_what_their_chapters_give():
    assert [path.name for path in stale(ROOT)] == [], "run scripts/notebooks.py"
    assert len(CHAPTERS) >= 10


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_a_notebook_is_valid_bare_and_readable(chapter):
    notebook = nbformat.read(chapter.with_suffix(".ipynb"), as_version=nbformat.NO_CONVERT)
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert (cell.outputs, cell.execution_count) == ([], None)
        else:
            assert not MYST.search(cell.source), cell.source
    assert "google.colab" in notebook.cells[0].source


def test_an_edited_chapter_changes_the_cells_that_were_edited_alone(tmp_path):
    folder = clone(tmp_path)
    chapter = folder / "book" / "theory.md"

    def ids():
        return {cell.id for cell in nbformat.reads(made(chapter, folder), as_version=4).cells}

    before = ids()
    chapter.write_text(chapter.read_text().replace("# What theory says", "# What a theory says"))
    assert len(before ^ ids()) == 2


def test_roles_and_directives_become_plain_words():
    plain = Plain(
        {"fig-a": "Figure 1"},
        {"there": "A heading"},
        {"corpora": ("Corpora", True), "bibliography": ("Bibliography", False)},
        {"a2020": ("Maini et al.", "2020"), "b2019": ("Chen", "2019")},
    )
    for written, read in {
        "see {numref}`fig-a` and {numref}`fig-b`": "see Figure 1 and the figure",
        "{doc}`corpora`, {doc}`these <corpora>`": "[Corpora](corpora.ipynb), [these](corpora.ipynb)",
        "{doc}`bibliography`": "[Bibliography](bibliography.md)",
        "{ref}`there`, {ref}`this <there>`": "“A heading”, this",
        "{cite:p}`a2020,b2019`": "(Maini et al., 2020; Chen, 2019)",
        "{cite:t}`a2020`": "Maini et al. (2020)",
        "{glue:text}`gain:.1f` points": "`gain` points",
        "{term}`mid`, {term}`runs <reference run>`": "mid, runs",
        "(there)=\n## A heading": "## A heading",
        ":::{note} Mind\n:class: x\n\nthis\n:::\nafter": "> **Mind**\n>\n>\n> this\nafter",
        "```{bibliography}\n:all:\n```": "",
        "```{literalinclude} a.py\n:language: python\n```": "[a.py](a.py)",
        '```{raw} html\n<script defer src="a.js"></script>\n```\n\nText.': "Text.",
        '```{figure} a.svg\n---\nname: fig-a\nalt: "A ring."\n---\nA ring ({numref}`fig-a`).\n```': (
            "![A ring.](a.svg)\n\n**Figure 1.** A ring (Figure 1)."
        ),
        "```python\ncode()\n```": "```python\ncode()\n```",
        "$$\nx\n$$ (eq-x)": "$$\nx\n$$",
    }.items():
        assert plain.markdown(written) == read


def test_without_the_book_values_are_said_and_provenance_is_plain(capsys, monkeypatch):
    monkeypatch.delenv("WHENPOOL_COMPUTED", raising=False)
    monkeypatch.setitem(sys.modules, "myst_nb", None)  # as on Colab
    glue("gain", "3.2")
    assert capsys.readouterr().out == "gain = 3.2\n"
    shown = Provenance("Provenance: a < b.")._repr_mimebundle_()
    assert shown["text/html"] == "<p><small>Provenance: a &lt; b.</small></p>"


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


def test_elsewhere_the_first_cell_only_finds_the_book_and_chooses_the_device(tmp_path, monkeypatch):
    folder = clone(tmp_path)
    monkeypatch.setenv("WHENPOOL_DEVICE", "cuda:1")
    assert first_cell_run(folder) == f"cuda:1 {folder}/book {folder}/lib\n"


def test_each_button_leads_to_a_notebook_of_the_repository(tmp_path, monkeypatch):
    folder = clone(tmp_path, {"index": HEAD + code_cell("print('words')"), "text": "# Only text\n"})
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    builder(folder, []).build()
    write(folder)
    html = folder / "_build" / "smoke" / "_build" / "html" / "book"
    name, branch = urlparse(REPOSITORY["url"]).path.strip("/"), REPOSITORY["branch"]
    begins = {
        "Binder": f"https://mybinder.org/v2/gh/{name}/{branch}?urlpath=lab/tree/",
        "Colab": f"https://colab.research.google.com/github/{name}/blob/{branch}/",
    }
    page = unescape(unquote((html / "index.html").read_text()))
    for site, begin in begins.items():
        [path] = re.findall(f'href="{re.escape(begin)}([^"]+)"', page)
        assert nbformat.read(folder / path, as_version=4).cells[-1].source == "print('words')", site
    assert not re.search("mybinder|colab", (html / "text.html").read_text())


def test_the_buttons_of_a_fork_open_the_fork(tmp_path, monkeypatch):
    def found():
        return with_own_repository({"repository": REPOSITORY}, tmp_path)["repository"]

    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    git = ["git", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "-q"], check=True)
    for origin in (*OTHER, *SAME):
        if origin:
            subprocess.run([*git, "config", "remote.origin.url", origin], check=True)
        assert found() == REPOSITORY | ({"url": f"https://{FORK}"} if origin in SAME else {})
    monkeypatch.setenv("GITHUB_REPOSITORY", "else/where")
    assert found()["url"] == "https://github.com/else/where"
    assert configured(ROOT) == REPOSITORY


def test_stale_notebooks_are_named_then_written_or_removed(tmp_path, monkeypatch, capsys):
    folder = clone(tmp_path, {"index": HEAD + code_cell("1 + 1"), "text": "# Text\n"})
    (folder / "book" / "gone.ipynb").write_text("{}")
    mend = "does not match its chapter; run scripts/notebooks.py\n"
    for words, code, told in (
        (["--check"], 1, f"book/index.ipynb {mend}book/gone.ipynb {mend}"),
        ([], 0, "book/index.ipynb was written\nbook/gone.ipynb was removed\n"),
        (["--check"], 0, ""),
        ([], 0, "the notebooks are up to date\n"),
    ):
        monkeypatch.setattr("sys.argv", ["launch", *words])
        assert (main(folder), capsys.readouterr().out) == (code, told)


@pytest.fixture
def lightened(tmp_path):
    """Writes files of a rendered book, takes out what it does not use, and gives all that are there then."""

    def write(files):
        for name, text in files.items():
            (tmp_path / "html" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "html" / name).write_text(text)
        lighten(tmp_path / "html")
        return {file.name: file.read_text() for file in (tmp_path / "html").rglob("*") if file.is_file()}

    return write


def test_links_bring_definitions_and_drawings_and_roles_show_the_same(lightened):
    links = "".join(map(LINK.format, ("left", "mid")))
    page = f'<body>{links} <a href="#term-mid">#</a><div role="doc-biblioentry">A book.</div>'
    found = lightened({"book/terms.html": GLOSSARY, "book/page.html": page, "_images/own.svg": DRAWING})
    assert re.findall("<a [^>]*data-definition[^>]*>", found["page.html"]) == [
        f'<a class="{term}" href="terms.html#term-{term}" data-definition="Among filler &amp; more.">'
        for term in ("left", "mid")
    ]
    assert '<div role="listitem">A book.</div>' in found["page.html"]
    drawing = '<svg> <g transform="scale(0.015625 -0.015625)"><path d="M 1.9 -2.5 L 30.0 4"/></g></svg>'
    assert re.sub("<style>.*</style>", "", found["own.svg"]).split() == drawing.split()
    assert lightened({}) == found  # once more


def test_rules_of_unknown_classes_and_ids_go_and_come_back_with_a_page_that_has_them(lightened):
    css = (
        '@import "base.css";.fa-bars{color:red}.b,.fa-bars:hover{color:blue}#x .fa-bars{top:0}p>i{left:0}'
        ".fa-bars:not(.b){right:0}@media (min-width:9px){.b{top:1px}.fa-bars{top:2px}}"
        "@media print{.b{top:3px}}.fa-bars:is(.b,.c),.d{top:4px}"
    )
    base, script = ".set-by-script{top:0}.b{top:1px}", "element.className = 'set-by-script'"
    names = ("_static/look.css", "_static/base.css", "_static/own.js", "book/page.html")
    page = '<link rel="stylesheet" href="../_static/look.css?v=1"><body><i class="fa-bars"></i>'
    once = lightened(dict(zip(names, (css, base, script, page), strict=True)))
    assert once["look.css"].endswith(
        '*/\n@import "base.css";.fa-bars{color:red}.fa-bars:hover{color:blue}p>i{left:0}'
        ".fa-bars:not(.b){right:0}@media (min-width:9px){.fa-bars{top:2px}}.fa-bars:is(.b,.c){top:4px}"
    )
    assert once["base.css"].endswith("*/\n.set-by-script{top:0}")
    assert lightened({}) == once
    later = lightened({"book/new.html": '<body><p class="b" id="x">Now used.</p></body>'})["look.css"]
    assert "#x .fa-bars{top:0}" in later
    assert "@media print{.b{top:3px}}" in later
