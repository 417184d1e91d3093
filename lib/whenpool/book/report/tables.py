"""Tables with a number and a caption, ours beside the thesis's; names and numbers as sentences have them."""

import math
import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from html import escape, unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pandas import DataFrame

from whenpool.book.report.verdicts import MARKS, Cell, judge, mean_text
from whenpool.models.registry import POOLING_NAMES

_MARKS = re.compile(r"[\\`*_{}\[\]<>|&$~#]|:(?=:)|^\W|(?<=^\d)[.)]")
_ESCAPED = re.compile(r"&amp;(#\d+;)")


def literal(text: Any) -> str:
    """A text of which nothing is markup, neither in Markdown, nor in its tables, nor in HTML: each mark
    is a numbered character reference, and there are no ends of lines.

    Examples:
        >>> literal("a|b <i>")
        'a&#124;b &#60;i&#62;'
    """
    return _MARKS.sub(lambda mark: f"&#{ord(mark[0])};", " ".join(str(text).split()))


def html_of(text: str) -> str:
    """A text as HTML, where what `literal` wrote stays as it is."""
    return _ESCAPED.sub(r"&\1", escape(text, quote=False))


def plain(text: str) -> str:
    """The same for a terminal."""
    return unescape(text)


def corpus_name(name: Any) -> str:
    """A corpus as a page names it: literally, and without the folder of a file."""
    file, colon, options = str(name).partition(":")
    return literal(f"{Path(file).name}{colon}{options}")


def together(names: Sequence[str]) -> str:
    """One name, or several with commas and an "and"; of none, nothing."""
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def number_text(value: float) -> str:
    """A number as a reader sees it: 0.0003 -> 3·10⁻⁴, 12.34 -> 12.3, 100 -> 100."""
    if math.isinf(value):
        return "∞"
    if value != 0 and not 1e-3 <= abs(value) < 1e4:
        mantissa, exponent = f"{value:.1e}".split("e")
        raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        mantissa = mantissa.removesuffix(".0")
        return f"10{raised}" if mantissa == "1" else f"{mantissa}·10{raised}"
    if value == round(value):
        return f"{value:.0f}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:.1f}"


@dataclass(frozen=True)
class Sentences:
    """Sentences of Markdown with links to the ledger, for a page of the book. A notebook that is opened
    by itself has no ledger beside it, and shows them without links."""

    paragraphs: tuple[str, ...]

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        bare = [re.sub(r"</?a\b[^>]*>", "", text) for text in self.paragraphs]
        return {
            "text/markdown": "\n\n".join(self.paragraphs),
            "text/html": "".join(f"<p>{as_html(html_of(text))}</p>" for text in bare),
            "text/plain": plain("\n\n".join(bare)),
        }


LEGEND = (
    "In bold ours at the thesis's scale, mean ± standard deviation (number of seeds); below it the compact "
    "replication (64 units, 8 epochs, texts cut at 140 words; * on a part of the corpus or a stand-in); the "
    f"thesis's number last. {MARKS['reproduced']} reproduced, {MARKS['differs']} differs, "
    f"{MARKS['undecided']} undecided, {MARKS['so far']} fewer than three seeds, {MARKS['pilot']} a pilot "
    "from other word vectors ({ref}`the rule <verdicts>`)."
)


@dataclass(frozen=True)
class CaptionedTable:
    """A table that the book numbers and refers to by name, and that a notebook shows as it is.

    Cells, caption, legend and provenance are Markdown: what a user wrote comes into them by `literal`.

    Attributes:
        caption: one sentence.
        name: for ``{numref}``.
        provenance: where its numbers come from, a line below.
        legend: what its marks mean, above that.
        prose: whether cells hold sentences, whose lines may break.
    """

    frame: DataFrame
    caption: str
    name: str
    provenance: str = ""
    legend: str = ""
    prose: bool = False

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        table = self.frame.to_markdown(
            index=False, stralign="left", numalign="left", disable_numparse=True
        )
        below = {"legend": self.legend, "provenance": self.provenance}
        options = f":name: {self.name}\n" + (":class: prose\n" if self.prose else "")
        markdown = f":::{{table}} {self.caption}\n{options}\n{table}\n:::\n" + "".join(
            f"\n:::{{div}} {kind}\n{text}\n:::\n" for kind, text in below.items() if text
        )
        html = as_html(self.frame.to_html(index=False, escape=False))
        notes = "".join(
            f"<p><small>{as_html(html_of(text))}</small></p>" for text in below.values() if text
        )
        return {
            "text/markdown": markdown,
            "text/html": f"<p>{escape(self.caption)}</p>{html}{notes}",
            "text/plain": plain(self.frame.to_string(index=False)),
        }


def as_html(text: str) -> str:
    """Bold, code, and references and links to pages by their words alone, as a notebook that is no book
    shows them."""
    text = re.sub(r'<a href="[\w-]+\.html[^"]*">(.*?)</a>', r"\1", text)
    text = re.sub(r"\{\w+\}`([^`<&]+?)\s*(?:(?:<|&lt;)[\w-]+(?:>|&gt;))?`", r"\1", text)
    text = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text)
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text)


def judged(runs: DataFrame, published: DataFrame) -> DataFrame:
    """The published cells with ours beside: columns ``ours``, ``ours_std``, ``n``, ``verdict``, ``keys``,
    of the runs, and ``compact``, the compact replication as text."""
    keys = ["corpus", "length", "setting", "size", "pooling"]
    groups = dict(iter(runs.groupby(keys))) if len(runs) else {}
    rows = (row for _, row in published.iterrows())
    return beside(published, [judge(groups.get(tuple(row[keys]), runs.head(0)), row) for row in rows])


def beside(published: DataFrame, cells: Sequence[Cell]) -> DataFrame:
    """Published cells with ours as the columns that `judged` names."""
    return published.assign(
        ours=[cell.mean for cell in cells],
        ours_std=[cell.std for cell in cells],
        n=[cell.runs for cell in cells],
        verdict=[cell.verdict for cell in cells],
        keys=[cell.keys for cell in cells],
        compact=[cell.compact for cell in cells],
    )


def cell_text(row: Any) -> str:
    """A judged cell as text, ours above the thesis's; a row that brings a ``text`` is that text."""
    if isinstance(row.get("text"), str):
        return row["text"]
    lines = []
    if row["n"]:
        ours = mean_text(Cell(row["ours"], row["ours_std"], int(row["n"]), row["verdict"]))
        lines.append(f"**{ours}** {MARKS[row['verdict']]}")
    lines += [f"compact {row['compact']}"] if row.get("compact") else []
    return "<br>".join([*lines, f"{row['mean']:.1f} ± {row['std']:.1f}"])


def grid(
    cells: DataFrame,
    rows: Sequence[str],
    columns: Sequence[str],
    text: Callable[[Any], str],
    heads: dict[str, Callable[[Hashable], str]] | None = None,
) -> DataFrame:
    """Cells laid out in a table, in the order in which their row and column values first occur.

    Args:
        cells: a row for each cell.
        rows, columns: the columns of ``cells`` whose values name a row, and a column, of the table.
        text: writes a cell.
        heads: how a value of a column is written where it names a row or column.
    """
    written: dict[str, Callable[[Any], str]] = {
        "pooling": lambda name: POOLING_NAMES.get(str(name), str(name)),
        "size": size_text,
        "corpus": corpus_name,
        **(heads or {}),
    }
    table: dict[tuple[str, ...], dict[str, str]] = {}
    for _, row in cells.iterrows():
        named = {name: written.get(name, str)(row[name]) for name in (*rows, *columns)}
        line = table.setdefault(
            tuple(named[name] for name in rows), {name: named[name] for name in rows}
        )
        line[" ".join(named[name] for name in columns)] = text(row)
    frame = DataFrame(list(table.values())).fillna("")
    heads_only = frame[list(rows)]
    for place, name in enumerate(rows[:-1], 1):  # a repeated head is written once
        outer = heads_only.iloc[:, :place]
        frame[name] = frame[name].where((outer != outer.shift()).any(axis=1), "")
    return frame


def size_text(size: Hashable) -> str:
    """1000 -> 1K."""
    number = int(size)  # type: ignore[call-overload]
    return f"{number // 1000}K" if number % 1000 == 0 else str(number)


def wins(cells: DataFrame, value: str) -> DataFrame:
    """How often each pooling has the highest mean of its column, ties counted for each.

    Args:
        cells: judged cells; a column is one corpus, length, setting and size.
        value: "mean" (the thesis's) or "ours".

    Returns:
        Columns ``pooling``, ``wins``, ``columns``: of how many columns, those where every pooling
        has a value.
    """
    columns = cells.groupby(["corpus", "length", "setting", "size"])[value]
    whole = columns.transform(lambda own: own.notna().all()).astype(bool)
    best = cells[whole & np.isclose(cells[value], columns.transform("max"))]
    found = pd.Series(0, index=cells["pooling"].unique()).add(
        best["pooling"].value_counts(), fill_value=0
    )
    found = found[cells["pooling"].unique()].astype(int)
    count = int(columns.agg(lambda own: own.notna().all()).sum())
    return DataFrame({"pooling": found.index, "wins": found.tolist(), "columns": count})
