"""Rendered pages load only what they use.

The theme gives every page all of its stylesheets, 2,000 icons twice, the typesetter of formulas and the
index of the search: 3.6 MB for a page of 25 KB. Here each page keeps the scripts that it needs, the
stylesheets keep the rules that some page or script can match, and the font of icons keeps those shown.
"""

import re
from itertools import chain
from pathlib import Path
from collections.abc import Collection, Iterator, Mapping



_PRUNED = "/* pruned: rules that no page uses are left out */\n"
_IMPORT = re.compile(r'@import (?:url\()?"?([\w./-]+\.css)')
_WORD = re.compile(r"[\w-]+")
_NAMES = re.compile(r'(?:class|id)="([^"]*)"|<script[^>]*>(.*?)</script>', re.DOTALL)
_ICON = re.compile("[\ue000-\uf8ff]")  # the private use area of Unicode
_USED_OF_BOOTSTRAP = re.compile("(?:bs-)?(?:tooltip|dropdown|collaps|show|fade|active|disabled|hid)")
_INDENT = re.compile(r"\s*\n\s*")
_ICONS = "fa-solid-900"

_NEVER = (
    r'<script[^>]*src="[^"]*scripts/fontawesome\.js[^"]*"[^>]*></script>',  # icons come from the font
    r'<script[^>]*src="[^"]*sphinx-thebe\.js[^"]*"[^>]*></script>',  # cells are not run on the page
    r"<script>const THEBE_JS_URL.*?</script>",
    r'<script type="text/x-thebe-config">.*?</script>',
    r"<script>kernelName = .*?</script>",
    r'<link[^>]*href="[^"]*sphinx-thebe\.css[^"]*"[^>]*>',
)
_FOLDED = r'class="(?:[^"]* )?(?:toggle[ "]|admonition[^"]* dropdown[ "])'
_MATH = r'class="[^"]*\bmath\b|\$\$|\\\(|\\\['
_UNLESS = (
    # what a page has, and the scripts, styles and buttons that serve nothing else
    (_MATH, r'<script[^>]*src="[^"]*mathjax/[^"]*"[^>]*></script>'),
    (_MATH, r"<script>window\.MathJax = .*?</script>"),
    (_FOLDED, r'<script[^>]*src="[^"]*togglebutton\.js[^"]*"[^>]*></script>'),
    (_FOLDED, r'<link[^>]*href="[^"]*togglebutton\.css[^"]*"[^>]*>'),
    (_FOLDED, r"<script>(?:let toggle|var toggle).*?</script>"),
    (r'class="[^"]*\bsd-tab-set\b', r'<script[^>]*src="[^"]*design-tabs\.js[^"]*"[^>]*></script>'),
    (r'class="[^"]*\bsd-', r'<link[^>]*href="[^"]*sphinx-design\.min\.css[^"]*"[^>]*>'),
    (
        r'id="pst-secondary-sidebar"',
        r'<button[^>]*class="[^"]*secondary-toggle[^>]*>.*?</button>',
    ),
    (
        r'id="search-results"',
        r'<script[^>]*src="[^"]*(?:searchtools|language_data|searchindex)\.js[^"]*"[^>]*></script>',
    ),
)


def lighten(html: Path) -> None:
    """Take out of rendered pages what they load without need; doing it twice changes nothing more.

    Args:
        html: the folder that Sphinx has written.
    """
    pages = sorted(html.rglob("*.html"))
    texts = {page: page.read_text("utf-8") for page in pages if "_static" not in page.parts}
    for page, text in texts.items():
        texts[page] = lighter(text)
        if texts[page] != text:
            page.write_text(texts[page], "utf-8")
    for figure in (html / "_images").glob("*.svg"):
        figure.write_text(smaller(figure.read_text("utf-8")), "utf-8")
    scripts = _scripts(html)
    named = chain(*(chain(*_NAMES.findall(text)) for text in texts.values()))
    known = set(_WORD.findall(" ".join((*named, *scripts.values()))))
    known |= set(filter(_USED_OF_BOOTSTRAP.match, _WORD.findall(_bootstrap(html))))
    sheets = {str(sheet.relative_to(html.resolve())): sheet for sheet in _sheets(html, texts)}
    whole = {name: _whole(name, sheet, html) for name, sheet in sheets.items()}
    known |= set(re.findall(r"bs-tooltip-\w+", " ".join(whole.values())))  # put together by Bootstrap
    short = pruned(
        whole,
        known,
        " ".join((*texts.values(), *scripts.values(), _bootstrap(html))),
    )
    for name, sheet in sheets.items():
        sheet.write_text(_PRUNED + _with_small_font(short[name]), "utf-8")
    _write_small_font(html, set(_ICON.findall(" ".join(short.values()))))


def lighter(page: str) -> str:
    """A page without the scripts and styles that it does not use, with roles that browsers know."""
    for pattern in _NEVER:
        page = re.sub(rf"[ \t]*{pattern}\n?", "", page, flags=re.DOTALL)
    for need, pattern in _UNLESS:
        body = page[page.find("<body") :]
        if not re.search(need, body):
            page = re.sub(rf"[ \t]*{pattern}\n?", "", page, flags=re.DOTALL)
    # The entries of a list of references must be its items, which docutils does not say.
    page = page.replace('role="doc-biblioentry"', 'role="listitem"')
    kept = re.split(r"(<pre.*?</pre>|<textarea.*?</textarea>)", page, flags=re.DOTALL)
    return "".join(part if part[:4] in ("<pre", "<tex") else _INDENT.sub("\n", part) for part in kept)


def smaller(svg: str) -> str:
    """A drawing without a date, and without digits of its lines that are far below a pixel."""
    svg = re.sub(r"\s*(?:<metadata>.*?</metadata>|<!--.*?-->)", "", svg, flags=re.DOTALL)
    svg = re.sub(r"\s*\n\s*", "\n", svg)
    return re.sub(r' d="[^"]*"', lambda line: re.sub(r"(\.\d)\d+", r"\1", line[0]), svg)


def _scripts(html: Path) -> dict[Path, str]:
    """The scripts that may name classes of a page: not the typesetter, which brings its own styles, nor
    what no page loads; Bootstrap's is looked at by itself."""
    found = {}
    for script in (html / "_static").rglob("*.js"):
        inside = script.relative_to(html / "_static").parts
        unread = {"mathjax", "locales"} & set(inside)
        if not unread and script.name not in ("fontawesome.js", "bootstrap.js"):
            found[script] = script.read_text("utf-8")
    return found


def _bootstrap(html: Path) -> str:
    return "".join(file.read_text("utf-8") for file in html.glob("_static/scripts/bootstrap.js"))


def _sheets(html: Path, pages: dict[Path, str]) -> list[Path]:
    """The stylesheets that some page loads."""
    found = set()
    for page, text in pages.items():
        for link in re.findall(r'<link[^>]*href="([^"?]+\.css)[^"]*"', text):
            sheet = (page.parent / link).resolve()
            found |= {
                sheet,
                *(sheet.parent / name for name in _IMPORT.findall(sheet.read_text("utf-8"))),
            }
    return sorted(file.resolve() for file in found)


def _whole(name: str, sheet: Path, html: Path) -> str:
    """A stylesheet as Sphinx wrote it, which is kept beside the pages."""
    kept, text = html.parent / "whole" / name, sheet.read_text("utf-8")
    if text.startswith(_PRUNED):
        return kept.read_text("utf-8")
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(text, "utf-8")
    return text


def _with_small_font(sheet: str) -> str:
    sheet = re.sub(rf"url\([^()]*{_ICONS}\.ttf\) format\(\"truetype\"\),?", "", sheet)
    return re.sub(rf"({_ICONS})\.woff2\) format\(\"woff2\"\),?", r'\1.woff) format("woff")', sheet)


def _write_small_font(html: Path, icons: set[str]) -> None:
    """The font of icons with those that a stylesheet shows."""
    from fontTools import subset
    from fontTools.ttLib import TTFont

    for whole in html.glob(f"_static/vendor/*/webfonts/{_ICONS}.ttf"):
        font = TTFont(whole)
        wanted = subset.Subsetter()
        wanted.populate(unicodes=map(ord, icons))
        wanted.subset(font)
        font.flavor = "woff"
        font.save(whole.with_suffix(".woff"))


_NAME = re.compile(r"[.#]((?:[\w-]|\\.)+)")
_VARIABLE = re.compile(r"(?<=[{;])--([\w-]+):(?:\"[^\"]*\"|\([^()]*\)|[^;{}\"()])*(?:;|(?=}))")
_WITHOUT = re.compile(r":(?:not|is|where|has)\([^()]*(?:\([^()]*\)[^()]*)*\)")


def pruned(sheets: Mapping[str, str], known: Collection[str], others: str) -> dict[str, str]:
    """Stylesheets that look the same on all pages and are shorter.

    Args:
        sheets: each by a name.
        known: the classes and ids of the pages, and every word of the scripts that may set some.
        others: scripts and pages, which may read variables of the stylesheets.
    """
    import tinycss2

    found = {}
    for name, sheet in sheets.items():
        rules = tinycss2.parse_stylesheet(sheet, skip_comments=True, skip_whitespace=True)
        found[name] = "".join(_used(rules, known))
    together = "".join(found.values())
    for animation in set(re.findall(r"@keyframes ([\w-]+)", together)):
        if not re.search(rf"animation[\w-]*:[^;}}]*\b{animation}\b", together):
            frames = re.compile(rf"@keyframes {animation}{{(?:[^{{}}]*{{[^{{}}]*}})*[^{{}}]*}}")
            found = {name: frames.sub("", sheet) for name, sheet in found.items()}
    read_elsewhere = set(re.findall(r"--([\w-]+)", others))
    while True:  # a variable may be read by one that nothing reads
        read = read_elsewhere | set(re.findall(r"var\(\s*--([\w-]+)", "".join(found.values())))
        shorter = {name: _with_variables(sheet, read) for name, sheet in found.items()}
        if shorter == found:
            return found
        found = shorter


def _with_variables(sheet: str, read: Collection[str]) -> str:
    return _VARIABLE.sub(lambda match: match[0] if match[1] in read else "", sheet)


def _used(rules: list, known: Collection[str]) -> Iterator[str]:
    import tinycss2

    for rule in rules:
        if rule.type == "qualified-rule":
            selectors = _selectors(tinycss2.serialize(rule.prelude))
            used = [selector for selector in selectors if _can_match(selector, known)]
            if used:
                yield f"{','.join(used)}{{{tinycss2.serialize(rule.content).strip()}}}"
        elif rule.type == "at-rule" and rule.content and rule.lower_at_keyword in ("media", "supports"):
            inner = tinycss2.parse_rule_list(rule.content, skip_comments=True, skip_whitespace=True)
            if kept := "".join(_used(inner, known)):
                yield f"@{rule.at_keyword}{tinycss2.serialize(rule.prelude)}{{{kept}}}"
        elif rule.type != "error":
            yield rule.serialize()


def _selectors(prelude: str) -> list[str]:
    """The selectors of a rule, cut at commas outside of brackets."""
    parts, depth = [""], 0
    for letter in prelude.strip():
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def _can_match(selector: str, known: Collection[str]) -> bool:
    return all(name.replace("\\", "") in known for name in _NAME.findall(_WITHOUT.sub("", selector)))
