"""Rendered pages load less of what they do not use.

The theme gives every page all of its stylesheets, 2,000 icons twice, the typesetter of formulas and the
index of the search: 3.6 MB for a page of 25 KB. Here each page keeps the scripts that it needs, and the
stylesheets keep the rules that some page or script can match. A link to a term of the glossary gets the
term's definition, which a script shows without opening the other page. Figures have a narrow layout for
phones and colours for a dark page.
"""

import re
from collections.abc import Iterator, Mapping, Set
from html import escape, unescape
from pathlib import Path

import tinycss2

from whenpool.book.report.phones import PHONE, parted

_PRUNED = "/* pruned: rules that no page uses are left out */\n"
_IMPORT = re.compile(r'@import (?:url\()?"?([\w./-]+\.css)')
_WORD = re.compile(r"[\w-]+")
_CLASS_OR_ID = re.compile(r"[.#]((?:[\w-]|\\.)+)")
_WITHOUT = re.compile(r":(?:not|is|where|has)\([^()]*(?:\([^()]*\)[^()]*)*\)")
_COMMA = re.compile(r",(?![^(\[]*[)\]])")  # outside of brackets
_GLOSSARY = re.compile(r'<dl class="[^"]*\bglossary\b.*?</dl>', re.DOTALL)
_TERM = re.compile(r'<dt id="(term-[^"]+)">|<dd>(.*?)</dd>', re.DOTALL)
_TO_TERM = re.compile(r'href="[^"#]*#(term-[^"]+)"(?=><span class="xref std std-term")')
_FIGURE = re.compile(r'(?<!-phone\.svg">)<img [^>]*src="([\w./-]*_images/([\w-]+))\.svg"[^>]*>')
_DARK = "@media (prefers-color-scheme:dark)"  # of the page around a drawing
_PAINT = re.compile(r'((?:fill|stroke)(?:: ?|="))#([\da-f]{6})\b')
_SCRIPT = r'<script[^>]*src="[^"]*%s[^"]*"[^>]*></script>'
_MATH = r'class="[^"]*\bmath\b|\$\$|\\\(|\\\['
_UNLESS = (
    # what a page has, and the scripts and buttons that serve nothing else
    ("<fontawesome>", _SCRIPT % r"scripts/fontawesome\.js"),  # no page: icons come from the font
    ("<thebe>", _SCRIPT % r"sphinx-thebe\.js"),  # no page: cells are not run on it
    ("<thebe>", r"<script>(?:const THEBE_JS_URL|kernelName = ).*?</script>"),
    ("<thebe>", r'<script type="text/x-thebe-config">.*?</script>'),
    (_MATH, _SCRIPT % "mathjax/"),
    (_MATH, r"<script>window\.MathJax = .*?</script>"),
    (r'id="search-results"', _SCRIPT % r"(?:searchtools|language_data|searchindex)\.js"),
    (r'id="pst-secondary-sidebar"', r'<button[^>]*class="[^"]*secondary-toggle[^>]*>.*?</button>'),
)


def lighten(html: Path) -> None:
    """Take out of the pages in ``html`` what they load without need; twice changes nothing more."""
    pages = [page for page in html.rglob("*.html") if "_static" not in page.parts]
    texts = {page: lighter(page.read_text("utf-8")) for page in pages}
    terms = {term: said for text in texts.values() for term, said in defined(text).items()}
    for figure in (html / "_images").glob("*.svg"):
        wide, narrow = parted(figure.read_text("utf-8"))
        for file, svg in ((figure, wide), (figure.with_stem(f"{figure.stem}{PHONE}"), narrow)):
            if svg:
                file.write_text(with_dark_colours(smaller(svg)), "utf-8")
    twice = {file.stem.removesuffix(PHONE) for file in (html / "_images").glob(f"*{PHONE}.svg")}
    for page, text in texts.items():
        page.write_text(with_phones(explained(text, terms), twice), "utf-8")
    no_names = {"mathjax", "locales", "fontawesome.js", "weights.js"}
    scripts = [file for file in (html / "_static").rglob("*.js") if not no_names & set(file.parts)]
    known = {word for file in (*pages, *scripts) for word in _WORD.findall(file.read_text("utf-8"))}
    sheets = set()  # those that some page loads
    for page in pages:
        for link in re.findall(r'<link[^>]*href="([^"?]+\.css)[^"]*"', page.read_text("utf-8")):
            sheet = (page.parent / link).resolve()
            imported = _IMPORT.findall(sheet.read_text("utf-8"))
            sheets |= {sheet, *((sheet.parent / name).resolve() for name in imported)}
    for sheet in sheets:
        whole = html.parent / "whole" / sheet.relative_to(html.resolve())  # as Sphinx wrote it
        text = sheet.read_text("utf-8")
        if text.startswith(_PRUNED):
            text = whole.read_text("utf-8")
        whole.parent.mkdir(parents=True, exist_ok=True)
        whole.write_text(text, "utf-8")
        rules = tinycss2.parse_stylesheet(text, skip_comments=True, skip_whitespace=True)
        sheet.write_text(_PRUNED + "".join(_used(rules, known)), "utf-8")


def lighter(page: str) -> str:
    """A page without the scripts that it does not use, with roles that browsers know."""
    for need, pattern in _UNLESS:
        if not re.search(need, page[page.find("<body") :]):
            page = re.sub(rf"[ \t]*{pattern}\n?", "", page, flags=re.DOTALL)
    page = re.sub(r"</span>\s%", "</span>\u00a0%", page)  # a glued number and its unit stay in one line
    # The entries of a list of references must be its items, which docutils does not say.
    return page.replace('role="doc-biblioentry"', 'role="listitem"')


def defined(page: str) -> dict[str, str]:
    """The definitions of a page's glossary, as plain text by the anchors of their terms."""
    found: dict[str, str] = {}
    waiting: list[str] = []  # terms that share the next definition
    for glossary in _GLOSSARY.findall(page):
        for term, text in _TERM.findall(glossary):
            if term:
                waiting.append(term)
            else:
                said = " ".join(unescape(re.sub(r"<[^>]+>", "", text)).split())
                found |= dict.fromkeys(waiting, said)
                waiting = []
    return found


def explained(page: str, terms: Mapping[str, str]) -> str:
    """A page whose links to terms bring what these mean."""
    return _TO_TERM.sub(
        lambda link: f'{link[0]} data-definition="{escape(terms.get(link[1], ""))}"', page
    )


def with_phones(page: str, narrow: Set[str]) -> str:
    """A page on which a phone loads the narrow layout of the figures that have one, by the stems of files."""

    def with_source(image: re.Match[str]) -> str:
        if image[2] not in narrow:
            return image[0]
        file = f"{image[1]}{PHONE}.svg"
        return f'<picture><source media="screen and (max-width: 575px)" srcset="{file}">{image[0]}</picture>'

    return _FIGURE.sub(with_source, page)


def smaller(svg: str) -> str:
    """A drawing without a date, and without digits of its lines that are far below a pixel."""
    svg = re.sub(r"\s*(?:<metadata>.*?</metadata>|<!--.*?-->)", "", svg, flags=re.DOTALL)
    return re.sub(r' d="[^"]*"', lambda line: re.sub(r"(\.\d)\d+", r"\1", line[0]), svg)


def with_dark_colours(svg: str) -> str:
    """A drawing with a second set of colours, for a dark page: light and dark change places in greys,
    pastels and what is too dark to be seen there; other colours stay."""
    darks = {"000000": "ffffff"}

    def variable(paint: re.Match[str]) -> str:
        parts = bytes.fromhex(paint[2])
        light = 0.3 * parts[0] + 0.59 * parts[1] + 0.11 * parts[2]
        if light >= 84 and max(parts) - min(parts) >= 80:
            return paint[0]
        flipped = (round(min(255, max(0, part + 255 - 2 * light))) for part in parts)
        darks[paint[2]] = bytes(flipped).hex()
        return f"{paint[1]}var(--{paint[2]},#{paint[2]})"

    drawn = _PAINT.sub(variable, svg)
    named = "".join(f"--{colour}:#{dark};" for colour, dark in darks.items())
    style = f"<style>{_DARK}{{:root{{fill:#ffffff;{named}}}}}</style>"
    return svg if _DARK in svg else re.sub(r"<svg\b[^>]*>", rf"\g<0>{style}", drawn, count=1)


def _used(rules: list, known: Set[str]) -> Iterator[str]:
    """The rules of a stylesheet but those that need a class or id which is not among the ``known`` words."""
    for rule in rules:
        if rule.type == "qualified-rule":
            selectors = _COMMA.split(tinycss2.serialize(rule.prelude))
            named = ((one.strip(), _CLASS_OR_ID.findall(_WITHOUT.sub("", one))) for one in selectors)
            used = [one for one, names in named if {name.replace("\\", "") for name in names} <= known]
            if used:
                yield f"{','.join(used)}{{{tinycss2.serialize(rule.content).strip()}}}"
        elif rule.type == "at-rule" and rule.content and rule.lower_at_keyword in ("media", "supports"):
            inner = tinycss2.parse_rule_list(rule.content, skip_comments=True, skip_whitespace=True)
            if kept := "".join(_used(inner, known)):
                yield f"@{rule.at_keyword}{tinycss2.serialize(rule.prelude)}{{{kept}}}"
        elif rule.type != "error":
            yield rule.serialize()
