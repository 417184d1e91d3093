"""Tables with a number and a caption, ours beside the thesis's; names and numbers as sentences have them."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape, unescape
from pathlib import Path
from typing import Any

import pandas as pd
from pandas import DataFrame

from whenpool.book.report import verdicts
from whenpool.book.report.verdicts import MARKS, NOT_RUN, judge, mean_text, published, spread
from whenpool.corpora.settings import SETTINGS
from whenpool.models.registry import LISTED_CELLS, POOLING_NAMES

_MARKS = re.compile(r"[\\`*_{}\[\]<>|&$~#]|:(?=:)|^\W|(?<=^\d)[.)]")
_ESCAPED = re.compile(r"&amp;(#\d+;)")


def literal(text: Any) -> str:
    """A text of which nothing is markup, neither in Markdown, nor in its tables, nor in HTML: each mark
    is a numbered character reference, and there are no ends of lines."""
    return _MARKS.sub(lambda mark: f"&#{ord(mark[0])};", " ".join(str(text).split()))


def html_of(text: str) -> str:
    """A text as HTML, where what `literal` wrote stays as it is; for a terminal `html.unescape` reads it."""
    return _ESCAPED.sub(r"&\1", escape(text, quote=False))


def corpus_name(name: Any) -> str:
    """A corpus as a page names it: literally, and without the folder of a file."""
    file, colon, options = str(name).partition(":")
    return literal(Path(file).name + colon + options)


def join_names(names: Sequence[str]) -> str:
    """One name, or several with commas and an "and"; an empty text for none."""
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def number_text(value: float) -> str:
    """A number as a reader sees it: 0.0003 -> 3·10⁻⁴, 12.34 -> 12.3, 1234.5 -> 1,234."""
    if math.isinf(value):
        return "∞"
    if value != 0 and not 1e-3 <= abs(value) < 1e4:
        mantissa, exponent = f"{value:.1e}".split("e")
        raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        mantissa = mantissa.removesuffix(".0").replace("-", "−")
        return f"10{raised}" if mantissa == "1" else f"{mantissa}·10{raised}"
    form = ",.0f" if value == round(value) or abs(value) >= 99.95 else ".3g" if abs(value) < 1 else ".1f"
    return format(value, form).replace("-", "−")


def signed(value: float, digits: int = 1) -> str:
    """A difference with its sign: 1.25 -> +1.2, -3.0 -> −3.0."""
    return f"{value:+.{digits}f}".replace("-", "−")


def spoken_number(value: float) -> str:
    """A number as one says it, in two digits: 0.0164 -> 0.016, 30.47 -> 30."""
    text = f"{float(f'{value:.2g}'):g}" if 1e-3 <= abs(value) < 1e4 else number_text(value)
    return text.replace("-", "−")


LEGEND = (
    "Each model has a line for the thesis's mean ± standard deviation, one for our runs at its scale (in "
    "bold, with the number of seeds), and one for the compact replication (64 units, 8 epochs, texts cut at "
    f"140 words; * on a part of the corpus or a stand-in). {MARKS['reproduced']} reproduced, "
    f"{MARKS['differs']} differs, {MARKS['undecided']} undecided, {MARKS['so far']} fewer than three seeds, "
    f"{MARKS['pilot']} a pilot from other word vectors ({{ref}}`the rule <verdicts>`)."
)


@dataclass(frozen=True)
class CaptionedTable:
    """A table that the book numbers and refers to by name, and that a notebook shows as it is. Cells,
    caption, legend and provenance are Markdown: what a user wrote comes into them by `literal`."""

    frame: DataFrame
    caption: str  # one sentence
    name: str  # for ``{numref}``
    provenance: str = ""  # where its numbers come from, a line below
    legend: str = ""  # what its marks mean, above that
    prose: bool = False  # whether cells hold sentences, whose lines may break

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        frame = self.frame if len(self.frame) else DataFrame({"": ["no such runs yet"]})
        table = frame.to_markdown(index=False, stralign="left", numalign="left", disable_numparse=True)
        options = f":name: {self.name}\n" + ":class: prose\n" * self.prose
        markdown = f":::{{table}} {self.caption}\n{options}\n{table.replace('± ', '±&nbsp;')}\n:::\n"
        html = f"<p>{escape(self.caption)}</p>{as_html(frame.to_html(index=False, escape=False))}"
        legend = self.legend
        if "±" in table and not re.search("deviation|interval", self.caption + legend):
            legend = f"±: standard deviation over seeds. {legend}".strip()
        for kind, text in (("legend", legend), ("provenance", self.provenance)):
            if text:
                markdown += f"\n:::{{div}} {kind}\n{text}\n:::\n"
                html += f"<p><small>{as_html(html_of(text))}</small></p>"
        plain = unescape(frame.to_string(index=False))
        return {"text/markdown": markdown, "text/html": html, "text/plain": plain}


def as_html(text: str) -> str:
    """As a notebook that is no book shows it: bold, code, and the words of references and links to pages."""
    text = re.sub(r'<a href="[\w-]+\.html[^"]*">(.*?)</a>', r"\1", text)
    text = re.sub(r"\{\w+\}`([^`<&]+?)\s*(?:(?:<|&lt;)[\w-]+(?:>|&gt;))?`", r"\1", text)
    text = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text)
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", text)


def judged(runs: DataFrame, theirs: DataFrame) -> DataFrame:
    """The published cells with ours beside, see `whenpool.book.report.verdicts.cell_of`."""
    keys = ["corpus", "length", "setting", "size", "pooling"]
    groups = dict(iter(runs.groupby(keys)))
    cells = [judge(groups.get(tuple(row[keys]), runs.head(0)), row) for _, row in theirs.iterrows()]
    return theirs.join(DataFrame(cells, theirs.index, list(NOT_RUN)))


def by_source(cells: DataFrame, rows: Sequence[str]) -> DataFrame:
    """Judged cells as texts: for each line of the table the thesis's numbers, below them ours and those of
    the compact replication where there are any; cells that bring a ``text`` keep it."""
    texts: dict[str, Callable[[Any], str]] = {
        "thesis": lambda row: f"{row['mean']:.1f} ± {row['std']:.1f}".removesuffix(" ± nan"),
        "ours": lambda row: (
            f"**{mean_text(row['ours'], row['ours_std'], int(row['n']))}** {MARKS[row['verdict']]}"
            if row["n"]
            else ""
        ),
        "compact": lambda row: row["compact"],
    }
    parts = []
    for _, line in cells.groupby(list(rows), sort=False):
        if "text" in line and line["text"].notna().all():
            parts.append(line.assign(source=""))
            continue
        for source, text in texts.items():
            written = line.assign(source=source, text=[text(row) for _, row in line.iterrows()])
            if written["text"].any():
                parts.append(written)
    return pd.concat(parts)


def grid(cells: DataFrame, rows: Sequence[str], columns: Sequence[str], heads: Any = None) -> DataFrame:
    """Cells, each with its ``text``, laid out in a table, in the order in which their values of ``rows`` and
    ``columns`` first occur; ``heads`` maps names of columns to functions that write their values."""
    written = {"pooling": lambda name: POOLING_NAMES.get(str(name), str(name))}
    written |= {"size": size_text, "corpus": corpus_name} | (heads or {})
    named = DataFrame({name: cells[name].map(written.get(name, str)) for name in (*rows, *columns)})
    heads_above = named[list(columns)].agg(" ".join, axis=1)
    named = named.assign(head=heads_above, text=cells["text"])
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
    right, for each of the first ``outer`` of the ``rows``; ``text`` writes the cell of some runs."""
    if runs.empty:
        return runs
    columns, blocks, names = list(columns), list(rows[:outer]), [*rows, *columns]
    places = runs[columns].drop_duplicates().sort_values(
        columns, key=lambda own: own.map(SETTINGS.index) if own.name == "setting" else own
    )  # fmt: skip
    # empty cells in the first row, so that the columns come in the order of places
    first = runs[list(rows)].iloc[0].to_dict()
    cells = [first | place | {"text": ""} for place in places.to_dict("records")]
    below = {rows[outer]: MAJORITY} | dict.fromkeys(rows[outer + 1 :], "")
    for _, block in runs.groupby(blocks, sort=False) if blocks else [((), runs)]:
        for key, own in block.groupby(names, sort=False):
            cells.append(dict(zip(names, key, strict=True)) | {"text": text(own)})
        for key, own in block.assign(**below).groupby(names, sort=False):
            chance = f"{own['majority_accuracy'].mean():.1f}"
            cells.append(dict(zip(names, key, strict=True)) | {"text": chance})
    return grid(DataFrame(cells), rows, columns, heads)


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
    """A table of the thesis with ours in its cells, see `judged`, and where ours come from."""
    shown = {key for keys in cells["keys"].dropna() for key in keys}
    runs = stored[stored["key"].isin(shown)] if shown else stored.head(0)
    line = provenance_line(runs, "the thesis alone; none of it has been run here")
    rows = [*rows, "source"]
    frame = grid(by_source(cells, rows[:-1]), rows, columns, heads)
    return CaptionedTable(frame, caption, name, line, legend)


CORPUS_NAMES = {"imdb": "IMDb", "yahoo": "Yahoo", "amazon": "Amazon", "yelp": "Yelp"}


def reference_runs(stored: DataFrame) -> DataFrame:
    """The runs that follow the thesis's protocol on a whole corpus of its."""
    return stored[verdicts.is_reference(stored) & stored["masked"].eq(True)].reset_index(drop=True)


def thesis_table(stored: DataFrame, table: str, corpus: str | None = None) -> CaptionedTable:
    """A table of §1.8, all corpora or one, settings below each other and sizes side by side; how often
    guessing is right below each setting."""
    theirs = published("accuracy").query("table == @table" + " and corpus == @corpus" * bool(corpus))
    keys = ["corpus", "length", "setting", "size"]
    guessing = reference_runs(stored).groupby(keys)["majority_accuracy"].first().to_dict()
    cells = []
    for _, own in judged(stored, theirs).groupby(["corpus", "setting"], sort=False):
        chance = own[keys].drop_duplicates()
        texts = [f"{guessing[k]:.1f}" if k in guessing else "" for k in chance.itertuples(False, None)]
        cells += [own, chance.assign(pooling=MAJORITY, text=texts)] if any(texts) else [own]
    kind = f"texts of {'at most' if table in ('1.4', '1.8') else 'over'} 100 words"
    caption = f"Table {table} of the thesis, {kind}: test accuracy in %."
    name, rows = f"tab-thesis-{table.replace('.', '-')}", ["setting", "pooling"]
    shown = beside_thesis(
        pd.concat(cells, ignore_index=True), stored, rows if corpus else ["corpus", *rows], ["size"],
        f"{CORPUS_NAMES[corpus]} in {caption}" if corpus else caption,
        f"{name}-{corpus}" if corpus else name, {"corpus": CORPUS_NAMES.get},
    )  # fmt: skip
    return replace(shown, frame=shown.frame.replace(" ± ", "<br>± ", regex=True))


def provenance_line(runs: DataFrame, nothing: str = "no runs yet", of: str = "") -> str:
    """Number of runs, corpus, cells and layers where they are not the thesis's, device, precision where
    it is not float32, commit, computing time and date of the newest; ``nothing`` where there are none."""
    if runs.empty:
        return f"Provenance{of}: {nothing}."

    def listed(values: Iterable[Any]) -> str:
        return ", ".join(dict.fromkeys(map(str, values)))

    corpora = listed(sorted({corpus_name(str(name).split(":")[0]) for name in runs["corpus"]}))
    sizes = listed(f"{int(size):,}" for size in sorted(set(runs["size"])))
    commits = listed(str(value) or "unknown" for value in runs["commit"].astype(object).fillna(""))
    parts = [
        f"{len(runs)} run{'s' if len(runs) > 1 else ''}",
        f"corpus {corpora}",
        f"{sizes} training {'sentences' if 'unseen_accuracy' in runs else 'texts'}",
    ]
    if {"cell", "layers"} <= set(runs):
        titles = [
            LISTED_CELLS[cell].title + (f" of {int(layers)} layers" if layers > 1 else "")
            for cell, layers in runs[["cell", "layers"]].dropna().itertuples(index=False, name=None)
        ]
        if set(titles) - {LISTED_CELLS["lstm"].title}:
            parts.append(f"cell {listed(titles)}")
    for name in ("encoder", "vectors", "filler"):
        if name in runs and runs[name].notna().any():
            parts.append(f"{name} {listed(map(literal, runs[name].dropna()))}")
    parts.append(listed(map(literal, runs["device"])))
    precisions = runs["precision"].value_counts() if "precision" in runs else {}
    for name, count in precisions.items():
        if name != "float32":
            parts.append(("" if count == len(runs) else f"{count} runs ") + f"computed in {name}")
    parts += [f"torch {listed(runs['torch'])}", f"commit {commits}"]
    passes = runs.filter(regex="^filler_passes").max().max()  # how often a split's filler was begun
    if passes > 1:
        parts.append(f"filler sentences used up to {int(passes)} times")
    parts.append(f"{duration(runs['seconds'].sum())} of computing")
    parts.append(f"finished {str(runs['finished'].max())[:10]}")
    return f"Provenance{of}: {'; '.join(parts)}."


def duration(seconds: float) -> str:
    """Seconds in the two largest units: "2 h 5 min", "3 min 20 s"."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
