"""Pages, drawings and stylesheets lose what nothing uses, and keep what something does."""

import re

import pytest

from whenpool.book.pages import lighten, lighter, pruned, smaller

PAGE = """<html><head>
<script defer src="../_static/scripts/fontawesome.js?digest=1"></script>
<script src="../_static/design-tabs.js"></script>
<script>window.MathJax = {"options": {}}</script>
<script defer="defer" src="../_static/mathjax/tex-chtml.js?v=1"></script>
<script src="../searchindex.js"></script>
<script src="../_static/copybutton.js"></script>
<link rel="stylesheet" href="../_static/look.css?v=1" />
</head><body>
<i class="fa-solid fa-bars"></i>
<button class="sidebar-toggle secondary-toggle" title="Contents">
<i class="fa-solid fa-list"></i>
</button>
<pre>
 kept   as

   it is
</pre>
BODY
</body></html>"""
SOMETIMES = (
    "fontawesome.js", "window.MathJax", "tex-chtml.js", "design-tabs.js", "searchindex.js",
    "secondary-toggle",
)  # fmt: skip


def sheet(text, known=(), others=""):
    return pruned({"one": text}, set(known), others)["one"]


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ("", set()),
        ('<span class="math notranslate nohighlight">x</span>', {"window.MathJax", "tex-chtml.js"}),
        (r"<div>\(x\)</div>", {"window.MathJax", "tex-chtml.js"}),
        ('<div class="sd-tab-set docutils">tabs</div>', {"design-tabs.js"}),
        ('<div id="search-results"></div>', {"searchindex.js"}),
        ('<div id="pst-secondary-sidebar"></div>', {"secondary-toggle"}),
    ],
)
def test_a_page_keeps_the_scripts_that_serve_what_it_has(body, kept):
    light = lighter(PAGE.replace("BODY", body))
    for script in (
        "fontawesome.js",
        "window.MathJax",
        "tex-chtml.js",
        "design-tabs.js",
        "searchindex.js",
    ):
        assert (script in light) == (script in kept), script
    assert "copybutton.js" in light
    assert "\n kept   as\n\n   it is\n" in light
    assert lighter(light) == light


def test_entries_of_a_list_of_references_are_its_items():
    page = '<div role="list"><div role="doc-biblioentry">A book.</div></div>'
    assert lighter(page) == '<div role="list"><div role="listitem">A book.</div></div>'


def test_a_drawing_loses_its_date_and_invisible_digits_but_not_its_scales():
    svg = (
        "<svg>\n <metadata>\n  <dc:date>2026</dc:date>\n </metadata>\n <!-- 0.12345 -->\n"
        ' <g transform="scale(0.015625 -0.015625)">\n'
        '  <path d="M 1.98765 -2.5 \nL 30.04999 4"/>\n </g>\n</svg>'
    )
    small = smaller(svg)
    assert "2026" not in small
    assert "<!--" not in small
    assert 'd="M 1.9 -2.5\nL 30.0 4"' in small
    assert "scale(0.015625 -0.015625)" in small
    assert smaller(small) == small


def test_rules_of_unknown_classes_and_ids_go_and_others_stay():
    css = (
        ".a{color:red}.b,.a:hover{color:blue}#x .a{top:0}p>a{left:0}.a:not(.b){right:0}"
        "@media (min-width:9px){.b{top:1px}.a{top:2px}}@media print{.b{top:3px}}"
    )
    assert sheet(css, {"a"}) == (
        ".a{color:red}.a:hover{color:blue}p>a{left:0}.a:not(.b){right:0}"
        "@media (min-width:9px){.a{top:2px}}"
    )
    assert "#x .a{top:0}" in sheet(css, {"a", "x"})


def test_a_comma_within_brackets_does_not_part_selectors():
    css = ".a:is(.b,.c),.d{color:red}"
    assert sheet(css, {"a"}) == ".a:is(.b,.c){color:red}"


def test_animations_and_variables_that_nothing_reads_go():
    css = (
        ".a{--used:1px;--chain:var(--end);--unused:url(x,y);top:var(--used);animation:turn 1s}"
        "@keyframes turn{from{top:0}to{top:1px}}@keyframes jump{from{top:0}to{top:1px}}"
        ':root{--end:2px;--script:3px;--text:";"}'
    )
    short = sheet(css, {"a"}, others="style.getPropertyValue('--script')")
    assert "--used:1px" in short
    assert "--script:3px" in short
    assert "@keyframes turn" in short
    for gone in ("--unused", "--chain", "--end", "--text", "jump"):
        assert gone not in short, gone


def test_a_variable_may_be_read_in_another_stylesheet():
    short = pruned({"one": ":root{--a:1px;--b:2px}", "two": "p{top:var(--a)}"}, set(), "")
    assert short == {"one": ":root{--a:1px;}", "two": "p{top:var(--a)}"}


@pytest.fixture
def html(tmp_path):
    folder = tmp_path / "html"
    for name in ("book", "_static", "_images"):
        (folder / name).mkdir(parents=True)
    (folder / "_static" / "look.css").write_text('@import "base.css";.fa-bars{top:0}.unused{top:1px}')
    (folder / "_static" / "base.css").write_text(".set-by-script{top:0}.unused{top:1px}")
    (folder / "_static" / "own.js").write_text("element.className = 'set-by-script'")
    (folder / "book" / "page.html").write_text(PAGE)
    return folder


def look(folder):
    return {file.name: file.read_text() for file in folder.rglob("*") if file.is_file()}


def test_doing_it_twice_changes_nothing_more(html):
    lighten(html)
    once = look(html)
    assert ".unused" not in once["look.css"] + once["base.css"]
    assert ".fa-bars" in once["look.css"]
    assert ".set-by-script" in once["base.css"]
    assert '@import "base.css"' in once["look.css"]
    lighten(html)
    assert look(html) == once


def test_what_a_new_page_uses_comes_back(html):
    lighten(html)
    (html / "book" / "new.html").write_text(PAGE.replace("BODY", '<p class="unused">Now used.</p>'))
    lighten(html)
    assert ".unused{top:1px}" in look(html)["look.css"]


@pytest.mark.xdist_group("book")
def test_the_font_keeps_the_icons_that_are_shown(built):
    from fontTools.ttLib import TTFont

    html = built[1].parent
    [font] = html.glob("_static/vendor/*/webfonts/fa-solid-900.woff")
    icons = set(TTFont(font).getBestCmap())
    assert 10 < len(icons) < 60
    page = (html / "book" / "theory.html").read_text()
    css = "".join(file.read_text() for file in html.glob("_static/styles/*.css"))
    shown = {
        name: icon[1]
        for name in set(re.findall(r'class="[^"]*\b(fa-[\w-]+)"', page))
        if (icon := re.search(rf"\.{name}:before{{content:\"(.)\"}}", css))
    }
    assert {"fa-bars", "fa-rocket", "fa-expand"} <= set(shown)
    assert {ord(icon) for icon in shown.values()} <= icons
    assert "fa-solid-900.woff)" in css
