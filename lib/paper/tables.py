"""Tables with a number and a caption; names and numbers as sentences have them."""

import math
import os
import re
from dataclasses import dataclass
from html import escape, unescape
from pathlib import Path
from typing import Any

from pandas import DataFrame, Series

from paper.runs.run import commit

COMPUTED = "WHENPOOL_COMPUTED"  # Set for chapters whose runs were computed before they are executed
CORPUS_NAMES = {"imdb": "IMDb", "yahoo": "Yahoo", "amazon": "Amazon", "yelp": "Yelp"}
SHOWN = "key seed model corpus setting size system per_class encoding value test_accuracy".split()
"""Columns of runs that the file of a figure's rows has, too."""


def number_text(value: float) -> str:
    """A number as a reader sees it: 0.0003 -> 3·10⁻⁴, 12.34 -> 12.3, 1234.5 -> 1,234."""
    if math.isinf(value):
        return "∞"
    if value != 0 and not 1e-3 <= abs(value) < 1e4:
        mantissa, exponent = f"{value:.1e}".split("e")
        raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        mantissa = mantissa.removesuffix(".0").replace("-", "−")
        return f"10{raised}" if mantissa == "1" else f"{mantissa}·10{raised}"
    form = (
        ",.0f"
        if value == round(value) or abs(value) >= 99.95
        else ".3g"
        if abs(value) < 1
        else ".1f"
    )
    return format(value, form).replace("-", "−")


def spoken_number(value: float) -> str:
    """A number as one says it, in two digits: 0.0164 -> 0.016, 30.47 -> 30."""
    text = f"{float(f'{value:.2g}'):g}" if 1e-3 <= abs(value) < 1e4 else number_text(value)
    return text.replace("-", "−")


def mean_text(mean: float, std: float, n: int) -> str:
    """Mean ± standard deviation (n); a single run has no deviation. Nothing for none."""
    if not n:
        return ""
    return f"{mean:.1f} ± {std:.1f} ({n})" if n > 1 else f"{mean:.1f} ({n})"


def spread(values: Series) -> str:
    """The same of the values of several seeds."""
    return mean_text(values.mean(), values.std(), values.count())


def duration(seconds: float) -> str:
    """Seconds in the two largest units: "62 days 3 h", "2 h 5 min", "3 min 20 s"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24} days {hours % 24} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


@dataclass(frozen=True)
class Note:
    """Small type below a figure or table: Markdown, in which what a user wrote has its marks
    escaped."""

    line: str
    kind: str = "provenance"  # or "legend"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        html = as_html(re.sub(r"&amp;(#\d+;)", r"&\1", escape(self.line, quote=False)))
        return {
            "text/markdown": f":::{{div}} {self.kind}\n{self.line}\n:::\n",
            "text/html": f"<p><small>{html}</small></p>",
            "text/plain": unescape(self.line),
        }


@dataclass(frozen=True)
class CaptionedTable:
    """A table that the book numbers and refers to by name, and that a notebook shows as it is.
    Cells and caption are Markdown, as in a `Note`."""

    frame: DataFrame
    caption: str  # one sentence
    name: str  # for ``{numref}``
    provenance: str = ""  # where its numbers come from, a line below
    legend: str = ""  # what its marks mean, above that
    prose: bool = False  # whether cells hold sentences, whose lines may break

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        frame = self.frame if len(self.frame) else DataFrame({"": ["no such runs yet"]})
        table = frame.to_markdown(
            index=False, stralign="left", numalign="left", disable_numparse=True
        )
        options = f":name: {self.name}\n" + ":class: prose\n" * self.prose
        markdown = (
            f":::{{table}} {self.caption}\n{options}\n{table.replace('± ', '±&nbsp;')}\n:::\n"
        )
        html = f"<p>{escape(self.caption)}</p>{as_html(frame.to_html(index=False, escape=False))}"
        legend = self.legend
        if "±" in table and not re.search("deviation|interval", self.caption + legend):
            legend = f"±: standard deviation over seeds. {legend}".strip()
        for note in (Note(legend, "legend"), Note(self.provenance)):
            if note.line:
                below = note._repr_mimebundle_()
                markdown += "\n" + below["text/markdown"]
                html += below["text/html"]
        plain = unescape(frame.to_string(index=False))
        return {"text/markdown": markdown, "text/html": html, "text/plain": plain}


def as_html(text: str) -> str:
    """As a notebook that is no book shows it: bold, code, and the words of references and links to
    pages."""
    text = re.sub(r'<a href="[\w-]+\.html[^"]*">(.*?)</a>', r"\1", text)
    text = re.sub(r"\{\w+\}`([^`<&]+?)\s*(?:(?:<|&lt;)[\w-]+(?:>|&gt;))?`", r"\1", text)
    text = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text)
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text)


def _same(values: Series, others: Series) -> bool:
    """Whether all are equal where there is one."""
    one, other = values.reset_index(drop=True), others.reset_index(drop=True)
    return bool((one.eq(other) | one.isna()).all())


def doors(page: str, name: str, rows: DataFrame, runs: DataFrame) -> str:
    """The line below the figure or table ``name`` of a page: on how many ``runs`` it rests, a file
    with its ``rows``, one with the runs, and how to compute these again. The files lie beside the
    page; a notebook that is opened by itself has none."""
    if runs.empty:
        return "No runs yet."
    plural, last = "s" * (len(runs) > 1), str(runs["finished"].max())[:10]
    count = f"{len(runs):,} run{plural}, the last of {last}"
    if COMPUTED not in os.environ:
        return f"{count}."
    (folder := Path("rows")).mkdir(exist_ok=True)
    files = {f"{name}-runs": runs.replace({"vectors": {"random": None}})}  # which have no name
    # what a row has beside its run's columns: what was measured or computed of the run
    beside = runs.drop_duplicates("key").set_index("key", drop=False).reindex(rows.get("key"))
    own = [name for name in rows if name not in runs or not _same(rows[name], beside[name])]
    if own:
        files[name] = rows[[column for column in rows if column in own or column in SHOWN]]
    for file, frame in files.items():
        filled = frame.dropna(axis=1, how="all")
        filled.to_csv(folder / f"{file}.csv", index=False, float_format="%.8g", lineterminator="\n")
    data = f"{{download}}`data <rows/{name}.csv>`, " * (name in files)
    url = re.findall(r"(?m)^  url: *(\S+)", Path("..", "_config.yml").read_text("utf-8"))[0]
    place = (
        f"{url.partition('github.com/')[2]}/blob/{commit().rstrip('+') or 'main'}/book/{page}.ipynb"
    )
    return (
        f"{count}: {data}{{download}}`runs <rows/{name}-runs.csv>`, {{ref}}`what they "
        "decide <ledger-runs>`. "
        f"Redo: `whenpool run --redo {name}-runs.csv`, or the "
        f"[page on Colab](https://colab.research.google.com/github/{place})."
    )
