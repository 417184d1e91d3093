"""Pages, drawings and stylesheets lose what nothing uses, and keep what something does."""

import pytest

from whenpool.book.pages import defined, explained, lighten, lighter, pruned, smaller

PAGE = """<html><head>
<script defer src="../_static/scripts/fontawesome.js?digest=1"></script>
<script>window.MathJax = {"options": {}}</script>
<script defer="defer" src="../_static/mathjax/tex-chtml.js?v=1"></script>
<script src="../searchindex.js"></script>
<script src="../_static/copybutton.js"></script>
<link rel="stylesheet" href="../_static/look.css?v=1" />
</head><body>
<i class="fa-solid fa-bars"></i>
<button class="sidebar-toggle secondary-toggle" title="Contents"></button>
BODY
</body></html>"""
FORMULAS = {"window.MathJax", "tex-chtml.js"}
SOMETIMES = {"fontawesome.js", "searchindex.js", "secondary-toggle", *FORMULAS}


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ("", set()),
        ('<span class="math notranslate nohighlight">x</span>', FORMULAS),
        (r"<div>\(x\)</div>", FORMULAS),
        ('<div id="search-results"></div>', {"searchindex.js"}),
        ('<div id="pst-secondary-sidebar"></div>', {"secondary-toggle"}),
    ],
)
def test_a_page_keeps_the_scripts_that_serve_what_it_has(body, kept):
    light = lighter(PAGE.replace("BODY", body))
    assert {name for name in SOMETIMES if name in light} == kept
    assert "copybutton.js" in light
    assert lighter(light) == light


def test_what_is_smaller_or_has_another_role_shows_the_same():
    assert lighter('<div role="doc-biblioentry">A book.</div>') == '<div role="listitem">A book.</div>'
    drawing = (
        "<svg>\n <metadata>\n  <dc:date>2026</dc:date>\n </metadata>\n <!-- 0.12345 -->\n"
        ' <g transform="scale(0.015625 -0.015625)"><path d="M 1.98765 -2.5 \nL 30.04999 4"/></g></svg>'
    )
    assert smaller(drawing).split() == (
        '<svg> <g transform="scale(0.015625 -0.015625)"><path d="M 1.9 -2.5 L 30.0 4"/></g></svg>'.split()
    )


def test_a_link_to_a_term_brings_its_definition_once():
    terms = defined(
        '<dl class="simple glossary"><dt id="term-left">left</dt><dt id="term-mid">mid<a>#</a>'
        "</dt><dd><p>Among <em>filler</em>\n&amp; more.</p></dd></dl><dl><dt id='x'></dt><dd>other</dd></dl>"
    )
    assert terms == dict.fromkeys(("term-left", "term-mid"), "Among filler & more.")
    link = '<a class="x" href="five_models.html#term-mid"><span class="xref std std-term">mid</span></a>'
    page = explained(f"{link} <a href='#term-mid'>#</a>", terms)
    assert page.count('#term-mid" data-definition="Among filler &amp; more."><span') == 1
    assert page.count("data-definition") == 1
    assert explained(page, terms) == page


def test_rules_of_unknown_classes_and_ids_go_and_others_stay():
    css = (
        ".a{color:red}.b,.a:hover{color:blue}#x .a{top:0}p>a{left:0}.a:not(.b){right:0}"
        "@media (min-width:9px){.b{top:1px}.a{top:2px}}@media print{.b{top:3px}}.a:is(.b,.c),.d{top:4px}"
    )
    assert pruned(css, {"a"}) == (
        ".a{color:red}.a:hover{color:blue}p>a{left:0}.a:not(.b){right:0}"
        "@media (min-width:9px){.a{top:2px}}.a:is(.b,.c){top:4px}"
    )
    assert "#x .a{top:0}" in pruned(css, {"a", "x"})


def test_stylesheets_are_pruned_once_and_what_a_new_page_uses_comes_back(tmp_path):
    html = tmp_path / "html"
    for name, text in {
        "_static/look.css": '@import "base.css";.fa-bars{top:0}.unused{top:1px}',
        "_static/base.css": ".set-by-script{top:0}.unused{top:1px}",
        "_static/own.js": "element.className = 'set-by-script'",
        "book/page.html": PAGE,
    }.items():
        (html / name).parent.mkdir(parents=True, exist_ok=True)
        (html / name).write_text(text)

    def look():
        return {file.name: file.read_text() for file in html.rglob("*") if file.is_file()}

    lighten(html)
    once = look()
    assert once["look.css"].endswith('@import "base.css";.fa-bars{top:0}')
    assert once["base.css"].endswith("*/\n.set-by-script{top:0}")
    lighten(html)
    assert look() == once
    (html / "book" / "new.html").write_text('<body><p class="unused">Now used.</p></body>')
    lighten(html)
    assert ".unused{top:1px}" in look()["look.css"]
