"""Tables with a number and a caption, ours beside the thesis's; what they rest on; names and numbers as
sentences have them."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape, unescape
from pathlib import Path
from typing import Any

import pandas as pd
from pandas import DataFrame

from whenpool.book.report.verdicts import MARKS, NOT_RUN, judge, mean_text, of_record, published, spread
from whenpool.corpora.settings import SETTINGS
from whenpool.models.registry import LISTED_CELLS, POOLING_NAMES

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
    """A text as HTML, where what `literal` wrote stays as it is; for a terminal `html.unescape` reads it."""
    return _ESCAPED.sub(r"&\1", escape(text, quote=False))


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


def spoken_number(value: float) -> str:
    """A number as one says it, in two digits: 0.0164 -> 0.016, 30.47 -> 30."""
    text = f"{float(f'{value:.2g}'):g}" if 1e-3 <= abs(value) < 1e4 else number_text(value)
    return text.replace("-", "−")


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
            "text/plain": unescape("\n\n".join(bare)),
        }


LEGEND = (
    "Each pooling has a line for the thesis's mean ± standard deviation, one for our runs at its scale (in "
    "bold, with the number of seeds), and one for the compact replication (64 units, 8 epochs, texts cut at "
    f"140 words; * on a part of the corpus or a stand-in). {MARKS['reproduced']} reproduced, "
    f"{MARKS['differs']} differs, {MARKS['undecided']} undecided, {MARKS['so far']} fewer than three seeds, "
    f"{MARKS['pilot']} a pilot from other word vectors ({{ref}}`the rule <verdicts>`)."
)


@dataclass(frozen=True)
class CaptionedTable:
    """A table that the book numbers and refers to by name, and that a notebook shows as it is; one without
    rows says that there are no runs yet.

    Cells, caption, legend and provenance are Markdown: what a user wrote comes into them by `literal`.
    """

    frame: DataFrame
    caption: str  # one sentence
    name: str  # for ``{numref}``
    provenance: str = ""  # where its numbers come from, a line below
    legend: str = ""  # what its marks mean, above that
    prose: bool = False  # whether cells hold sentences, whose lines may break

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        frame = self.frame if len(self.frame) else DataFrame({"": ["no such runs yet"]})
        table = frame.to_markdown(index=False, stralign="left", numalign="left", disable_numparse=True)
        below = {"legend": self.legend, "provenance": self.provenance}
        options = f":name: {self.name}\n" + (":class: prose\n" if self.prose else "")
        markdown = f":::{{table}} {self.caption}\n{options}\n{table}\n:::\n" + "".join(
            f"\n:::{{div}} {kind}\n{text}\n:::\n" for kind, text in below.items() if text
        )
        html = as_html(frame.to_html(index=False, escape=False))
        notes = "".join(
            f"<p><small>{as_html(html_of(text))}</small></p>" for text in below.values() if text
        )
        return {
            "text/markdown": markdown,
            "text/html": f"<p>{escape(self.caption)}</p>{html}{notes}",
            "text/plain": unescape(frame.to_string(index=False)),
        }


def as_html(text: str) -> str:
    """Bold, code, and references and links to pages by their words alone, as a notebook that is no book
    shows them."""
    text = re.sub(r'<a href="[\w-]+\.html[^"]*">(.*?)</a>', r"\1", text)
    text = re.sub(r"\{\w+\}`([^`<&]+?)\s*(?:(?:<|&lt;)[\w-]+(?:>|&gt;))?`", r"\1", text)
    text = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text)
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text)


def judged(runs: DataFrame, theirs: DataFrame) -> DataFrame:
    """The published cells with ours beside, in the columns that `whenpool.book.report.verdicts.cell_of`
    names."""
    keys = ["corpus", "length", "setting", "size", "pooling"]
    groups = dict(iter(runs.groupby(keys))) if len(runs) else {}
    rows = (row for _, row in theirs.iterrows())
    cells = [judge(groups.get(tuple(row[keys]), runs.head(0)), row) for row in rows]
    return theirs.join(DataFrame(cells, theirs.index, list(NOT_RUN)))


def _ours(row: Any) -> str:
    if not row["n"]:
        return ""
    return f"**{mean_text(row['ours'], row['ours_std'], int(row['n']))}** {MARKS[row['verdict']]}"


SOURCES: dict[str, Callable[[Any], str]] = {
    "thesis": lambda row: f"{row['mean']:.1f} ± {row['std']:.1f}".removesuffix(" ± nan"),
    "ours": _ours,
    "compact": lambda row: row.get("compact") or "",
}
"""Whose numbers a line of a table holds, and how it writes those of a judged cell."""


def by_source(cells: DataFrame, rows: Sequence[str]) -> DataFrame:
    """Judged cells as texts, those of each of `SOURCES` below each other, where a line of the table has any;
    cells that bring a ``text`` keep it."""
    parts = []
    for _, line in cells.groupby(list(rows), sort=False):
        if "text" in line and line["text"].notna().all():
            parts.append(line.assign(source=""))
            continue
        for source, text in SOURCES.items():
            written = line.assign(source=source, text=[text(row) for _, row in line.iterrows()])
            if written["text"].any():
                parts.append(written)
    return pd.concat(parts)


def grid(
    cells: DataFrame,
    rows: Sequence[str],
    columns: Sequence[str],
    text: Callable[[Any], str],
    heads: dict[str, Any] | None = None,
) -> DataFrame:
    """Cells, a row for each, laid out in a table, in the order in which their values of ``rows`` and
    ``columns`` first occur; ``heads`` says how a value of a column is written as a head."""
    written: dict[str, Callable[[Any], str]] = {
        "pooling": lambda name: POOLING_NAMES.get(str(name), str(name)),
        "size": size_text,
        "corpus": corpus_name,
        **(heads or {}),
    }
    named = DataFrame({name: cells[name].map(written.get(name, str)) for name in (*rows, *columns)})
    heads_above = named[list(columns)].agg(" ".join, axis=1)
    named = named.assign(head=heads_above, text=[text(cell) for _, cell in cells.iterrows()])
    laid_out = named.pivot_table("text", list(rows), "head", aggfunc="last", sort=False)
    frame = laid_out.fillna("").reset_index().rename_axis(columns=None)
    heads_only = frame[list(rows)]
    for place, name in enumerate(rows[:-1], 1):  # a repeated head is written once
        outer = heads_only.iloc[:, :place]
        frame[name] = frame[name].where((outer != outer.shift()).any(axis=1), "")
    return frame


def size_text(size: Any) -> str:
    """1000 -> 1K."""
    number = int(size)
    return f"{number // 1000}K" if number % 1000 == 0 else str(number)


MAJORITY = "majority class"  # What the row is called that says how often guessing is right


def in_order(rows: DataFrame, **orders: Iterable[Any]) -> DataFrame:
    """The rows whose columns have one of the values that are given, sorted by these as they are given."""
    if rows.empty:
        return rows
    places = {name: {value: at for at, value in enumerate(order)} for name, order in orders.items()}
    kept = rows[rows[list(orders)].isin({name: list(own) for name, own in places.items()}).all(axis=1)]
    return kept.sort_values(list(orders), key=lambda own: own.map(places[own.name]), kind="stable")


def settings_of(rows: DataFrame) -> list[str]:
    """The settings that occur, in the thesis's order."""
    return [setting for setting in SETTINGS if len(rows) and setting in set(rows["setting"])]


def accuracy_table(
    runs: DataFrame,
    rows: Sequence[str],
    columns: Sequence[str] = ("setting",),
    heads: dict[str, Any] | None = None,
    text: Callable[[DataFrame], str] = lambda runs: spread(runs["test_accuracy"]),
    outer: int = 0,
) -> DataFrame:
    """Test accuracies by some columns of ``runs``, in their order, and below them how often guessing is
    right, for each of the first ``outer`` of the ``rows``; ``text`` writes the cell of some runs. See
    `grid`."""
    if runs.empty:
        return runs
    columns, blocks = list(columns), list(rows[:outer])
    order = {"setting": SETTINGS.index}
    places = runs[columns].drop_duplicates().sort_values(
        columns, key=lambda own: own.map(order[own.name]) if own.name in order else own
    )  # fmt: skip
    first = runs[list(rows)].iloc[0].to_dict()
    cells = [first | place | {"text": ""} for place in places.to_dict("records")]
    for _, block in runs.groupby(blocks, sort=False) if blocks else [((), runs)]:
        names = [*rows, *columns]
        for key, own in block.groupby(names, sort=False):
            cells.append(dict(zip(names, key, strict=True)) | {"text": text(own)})
        guessing = dict.fromkeys(rows, "") | {rows[outer]: MAJORITY}
        for key, own in block.groupby([*blocks, *columns], sort=False):
            place = dict(zip([*blocks, *columns], key, strict=True))
            cells.append(guessing | place | {"text": f"{own['majority_accuracy'].mean():.1f}"})
    return grid(DataFrame(cells), rows, columns, lambda cell: cell["text"], heads)


def beside_thesis(
    cells: DataFrame,
    stored: DataFrame,
    rows: Sequence[str],
    columns: Sequence[str],
    caption: str,
    name: str,
    heads: dict[str, Any] | None = None,
    legend: str = LEGEND,
) -> CaptionedTable:
    """A table of the thesis with ours in its cells, which `judged` gives, and where ours come from, the runs
    ``stored`` that they were judged by; see `grid`."""
    shown = {key for keys in cells["keys"].dropna() for key in keys}
    runs = stored[stored["key"].isin(shown)] if shown else stored.head(0)
    line = provenance_line(runs, "the thesis alone; none of it has been run here")
    rows = [*rows, "source"]
    frame = grid(by_source(cells, rows[:-1]), rows, columns, lambda cell: cell["text"], heads)
    return CaptionedTable(frame, caption, name, line, legend)


CORPUS_NAMES = {"imdb": "IMDb", "yahoo": "Yahoo", "amazon": "Amazon", "yelp": "Yelp"}


def record_runs(stored: DataFrame) -> DataFrame:
    """The runs that follow the thesis's protocol on a whole corpus of its."""
    if stored.empty:
        return stored
    return stored[of_record(stored) & stored["masked"].astype(bool)].reset_index(drop=True)


def thesis_table(stored: DataFrame, table: str, corpus: str | None = None) -> CaptionedTable:
    """A table of §1.8: Table 1.3 or 1.4 in the thesis's shape, settings and sizes side by side, or one
    corpus of Table 1.5, 1.6 or 1.8, settings below each other; how often guessing is right below each
    block. Where there are many columns, deviations are below the means."""
    cells = published("accuracy").query("table == @table")
    block, columns = "corpus", ["setting", "size"]
    if corpus:
        cells, block, columns = cells[cells["corpus"] == corpus], "setting", ["size"]
    kind = f"texts of {'at most' if table in ('1.4', '1.8') else 'over'} 100 words"
    caption = f"Table {table} of the thesis, {kind}: test accuracy in %."
    name = f"tab-thesis-{table.replace('.', '-')}"
    shown = beside_thesis(
        _with_majority(cells, stored, block),
        stored,
        [block, "pooling"],
        columns,
        f"{CORPUS_NAMES[corpus]} in {caption}" if corpus else caption,
        f"{name}-{corpus}" if corpus else name,
        {"corpus": lambda name: CORPUS_NAMES[name]},
    )
    many = len(cells[columns].drop_duplicates()) > 4
    return replace(shown, frame=shown.frame.replace(" ± ", "<br>± ", regex=True)) if many else shown


def _with_majority(cells: DataFrame, stored: DataFrame, block: str) -> DataFrame:
    """Published cells with ours, and below each block how often guessing is right where that is known."""
    keys = ["corpus", "length", "setting", "size"]
    evidence = record_runs(stored)
    known = evidence.groupby(keys)["majority_accuracy"].first().to_dict() if len(evidence) else {}
    parts = []
    for _, rows in judged(stored, cells).groupby(block, sort=False):
        chance = rows[keys].drop_duplicates()
        texts = [f"{known[key]:.1f}" if key in known else "" for key in chance.itertuples(False, None)]
        parts += [rows, chance.assign(pooling=MAJORITY, text=texts)] if any(texts) else [rows]
    return pd.concat(parts, ignore_index=True)


def provenance_line(runs: DataFrame, nothing: str = "no runs yet") -> str:
    """Number of runs, corpus, cells and layers where they are not the thesis's, device, precision where
    it is not float32, commit, computing time and date of the newest; ``nothing`` where there are none."""
    if runs.empty:
        return f"Provenance: {nothing}."
    corpora = sorted({corpus_name(str(name).split(":")[0]) for name in runs["corpus"]})
    sizes = [f"{int(size):,}" for size in sorted(set(runs["size"]))]
    commits = [str(value) or "unknown" for value in runs["commit"].astype(object).fillna("")]
    used = {name: runs[name].dropna() for name in ("encoder", "vectors", "filler") if name in runs}
    passes = [name for name in runs if str(name).startswith("filler_passes")]
    most = runs[passes].max().max() if passes else 0  # how often a split's filler sentences were begun
    parts = [
        f"{len(runs)} run{'s' if len(runs) > 1 else ''}",
        f"corpus {_listed(corpora)}",
        f"{_listed(sizes)} training {'sentences' if 'unseen_accuracy' in runs else 'texts'}",
        *_models(runs),
        *(f"{name} {_listed(map(literal, values))}" for name, values in used.items() if len(values)),
        _listed(map(literal, runs["device"])),
        *_precisions(runs),
        f"torch {_listed(runs['torch'])}",
        f"commit {_listed(commits)}",
        *([f"filler sentences used up to {int(most)} times"] if most > 1 else []),
        f"{duration(runs['seconds'].sum())} of computing",
        f"finished {str(runs['finished'].max())[:10]}",
    ]
    return "Provenance: " + "; ".join(parts) + "."


def _models(runs: DataFrame) -> list[str]:
    """The cells and numbers of layers, where they are not one layer of LSTMs."""
    if not {"cell", "layers"} <= set(runs):
        return []
    titles = {
        LISTED_CELLS[cell].title + (f" of {int(layers)} layers" if layers > 1 else ""): None
        for cell, layers in runs[["cell", "layers"]].dropna().itertuples(index=False, name=None)
    }
    return [f"cell {_listed(titles)}"] if set(titles) - {LISTED_CELLS["lstm"].title} else []


def _precisions(runs: DataFrame) -> list[str]:
    """The precisions that are not float32, each with the number of runs if they are not all."""
    counts = runs["precision"].value_counts() if "precision" in runs else {}
    return [
        f"computed in {name}" if count == len(runs) else f"{count} runs computed in {name}"
        for name, count in counts.items()
        if name != "float32"
    ]


def duration(seconds: float) -> str:
    """Seconds in the two largest units: "2 h 5 min", "3 min 20 s"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(dict.fromkeys(str(value) for value in values))
