"""From executed notebooks to pages (jupyter-book), and what these get beyond what Sphinx writes.

The theme gives every page 2,000 icons twice, the typesetter of formulas and the search's index:
megabytes for a page of 25 KB. Here each page keeps the scripts that it needs. A link to a term of
the glossary gets the term's definition, which a script shows without opening the other page; a
number from results shows its interval, and on what it rests, in the same way.
Figures have a narrow layout for phones and colours for a dark page.
"""

import re
import subprocess
import sys
from collections.abc import Set
from html import escape, unescape
from pathlib import Path

from bs4 import BeautifulSoup

from paper import CLOSE, OPEN
from whenpool.base.errors import BookError

PHONE = "-phone"  # What is appended to the name of a file with the layout for a phone
_PIXELS = 342  # What a phone holds of drawings made by hand
_TO_TERM = re.compile(  # also one that an earlier definition was written to
    r'(href="[^"#]*#(term-[^"]+)")(?: data-definition="[^"]*")?(?=><span class="xref std std-term")'
)
_NOTED = re.compile(r'<span class="pasted-text">([^<(]*?) \(([^<]+)\)</span>')
_SUMMARY = (
    '<summary title="Data, runs, and how to compute them again">'
    '<i class="fa-solid fa-circle-info" aria-hidden="true"></i> data and runs</summary>'
)
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


def render(stage: Path, output: Path) -> Path:
    """Render a folder into ``output/_build/html``, and finish the pages; returns the first one.
    Raises `BookError` for all that Sphinx warns of."""
    log = output / "_build" / "render.log"
    # Sphinx reads large pickles of each page, of which usual garbage collection takes half the time
    program = "import gc; gc.set_threshold(200_000, 20, 100); "
    program += "from jupyter_book.cli.main import main; main()"
    options = ["--path-output", str(output), "-W", "--keep-going", "-q"]
    command = [sys.executable, "-c", program, "build", str(stage), *options]
    # what has moved from one page to another is there twice until all pages are read anew
    for more in ([], ["--all"]):
        done = subprocess.run([*command, *more], capture_output=True, text=True, check=False)
        text = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
        log.write_text(text, "utf-8")
        if "duplicate" not in text:
            break
    page = output / "_build" / "html" / "index.html"
    if done.returncode or not page.exists():
        lines = [line for line in text.splitlines() if re.search("warning:|error", line, re.I)]
        raise BookError("\n".join([f"the pages could not be rendered; see {log}", *lines[:8]]))
    lighten(page.parent)
    return page


def lighten(html: Path) -> None:
    """Finish the pages and drawings in ``html``; twice changes nothing more."""
    for file in (html / "_images").glob("*.svg"):
        svg = file.read_text("utf-8")
        if _DARK in svg:
            continue
        wide, narrow = parted(svg)
        file.write_text(with_dark_colours(smaller(wide)), "utf-8")
        if narrow:
            narrow_file = file.with_stem(f"{file.stem}{PHONE}")
            narrow_file.write_text(with_dark_colours(smaller(narrow)), "utf-8")
    narrow_stems = {
        file.stem.removesuffix(PHONE) for file in (html / "_images").glob(f"*{PHONE}.svg")
    }
    files = [file for file in html.rglob("*.html") if "_static" not in file.parts]
    pages = {file: lighter(file.read_text("utf-8")) for file in files}
    terms = {term: text for page in pages.values() for term, text in definitions(page).items()}
    for file, page in pages.items():
        page = _TO_TERM.sub(
            lambda link: f'{link[1]} data-definition="{escape(terms.get(link[2], ""))}"', page
        )
        file.write_text(with_phones(page, narrow_stems), "utf-8")


def lighter(page: str) -> str:
    """A page without the scripts that it does not use, with the notes of its numbers and roles that
    browsers know."""
    for need, pattern in _UNLESS:
        if not re.search(need, page[page.find("<body") :]):
            page = re.sub(rf"[ \t]*{pattern}\n?", "", page, flags=re.DOTALL)
    page = re.sub(
        r"</span>\s%", "</span>\u00a0%", page
    )  # a glued number and its unit stay in one line
    page = _NOTED.sub(with_note, page)
    if banner := re.search(r'<div class="execution .*?</div>\n*', page, re.DOTALL):
        page = page.replace(banner[0], "").replace("</a></h1>\n", f"</a></h1>\n{banner[0]}", 1)
    page = re.sub(
        r'<div class="provenance docutils">(.*?)</div>',
        rf'<details class="provenance">{_SUMMARY}\1</details>',
        page,
        flags=re.DOTALL,
    )
    # The entries of a list of references must be its items, which docutils does not say.
    return page.replace('role="doc-biblioentry"', 'role="listitem"')


def with_note(number: re.Match[str]) -> str:
    """A number from results, whose brackets become its note; where they name a claim, the number
    is a link to it in the ledger."""
    shown, note = number.groups()
    claim = re.search(r", claim ([\w-]+): ", note)
    link = f'href="ledger.html#claim-{claim[1]}"' if claim else 'tabindex="0"'
    if claim:
        note = f"{note.replace(claim[0], '. Verdict by our rule: ')}. A click leads to the claim."
    return f'<a class="noted" {link} data-definition="{note}">{shown}</a>'


def definitions(page: str) -> dict[str, str]:
    """The definitions of a page's glossary, as plain text by the anchors of their terms."""
    if not re.search(r'<dl class="[^"]*\bglossary', page):
        return {}
    terms = BeautifulSoup(page, "html.parser").select("dl.glossary > dt[id]")
    texts = {
        str(term["id"]): term.find_next_sibling("dd") for term in terms
    }  # several may share one
    return {term: " ".join(text.get_text().split()) for term, text in texts.items() if text}


def with_phones(page: str, narrow: Set[str]) -> str:
    """A page on which a phone loads the narrow layout of the figures that have one, by the stems of
    files."""

    def with_source(image: re.Match[str]) -> str:
        if image[2] not in narrow:
            return image[0]
        file = f"{image[1]}{PHONE}.svg"
        return (
            '<picture><source media="screen and (max-width: 575px)" '
            f'srcset="{file}">{image[0]}</picture>'
        )

    return _FIGURE.sub(with_source, page)


def parted(svg: str) -> tuple[str, str | None]:
    """A drawing as it is wide, and its layout for a phone, None where there is none."""
    wide, _, rest = svg.partition(OPEN)
    narrow, _, end = rest.partition(CLOSE)
    return (f"{wide}</svg>{end}", unescape(narrow)) if narrow else (svg, _panels_in_lines(svg))


def _panels_in_lines(svg: str) -> str | None:
    """The panels that a drawing names, in lines as wide as a phone, each as large as it is in the
    whole."""
    whole = (
        r'<svg(.*?)( width="\d+")? viewBox="\d+ \d+ (\d+) \d+" data-phone="(.*?)"(.*?)>(.*)</svg>'
    )
    if not (match := re.search(whole, svg, re.DOTALL)):
        return None
    before, shown, units, boxes, after, content = match.groups()
    scale = int(shown[8:-1]) / int(units) if shown else 1
    x, y, line, widest, parts = 0, 0, 0, 0, []
    for left, top, width, height in (map(int, box.split()) for box in boxes.split(";")):
        if x and (x + width) * scale > _PIXELS:
            x, y = 0, line
        view = f'viewBox="{left} {top} {width} {height}"'
        parts.append(
            f'<svg x="{x}" y="{y}" width="{width}" height="{height}" {view}>{content}</svg>'
        )
        x, line, widest = x + width, max(line, y + height), max(widest, x + width)
    before += f' width="{widest * scale:.0f}"' * bool(shown)
    return f'<svg{before} viewBox="0 0 {widest} {line}"{after}>{"".join(parts)}</svg>'


def smaller(svg: str) -> str:
    """A drawing without a date, and without digits of its lines that are far below a pixel."""
    svg = re.sub(r"\s*(?:<metadata>.*?</metadata>|<!--.*?-->)", "", svg, flags=re.DOTALL)
    return re.sub(r' d="[^"]*"', lambda line: re.sub(r"(\.\d)\d+", r"\1", line[0]), svg)


def with_dark_colours(svg: str) -> str:
    """A drawing with a second set of colours, for a dark page: light and dark change places in
    greys, pastels and what is too dark to be seen there; other colours stay."""
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
    names = "".join(f"--{colour}:#{dark};" for colour, dark in darks.items())
    style = f"<style>{_DARK}{{:root{{fill:#ffffff;{names}}}}}</style>"
    return re.sub(r"<svg\b[^>]*>", rf"\g<0>{style}", drawn, count=1)
