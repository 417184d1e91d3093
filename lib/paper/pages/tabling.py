"""What tables of several pages share: their layout, and names and numbers as a reader sees them."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from pandas import DataFrame

from paper.tables import CORPUS_NAMES as CORPUS_NAMES
from paper.tables import spread
from paper.verdicts.claims import SCALE_NAMES, Finding
from paper.verdicts.results import Sample, has
from whenpool.base.paths import project_root
from whenpool.corpora.settings import SETTINGS
from whenpool.models.registry import POOLING_NAMES

MAJORITY = "majority class"  # What the row is called that says how often guessing is right
_MARKS = re.compile(r"[\\`*_{}\[\]<>|&$~#]|:(?=:)|^\W|(?<=^\d)[.)]")


def literal(text: Any) -> str:
    """A text of which nothing is markup, neither in Markdown, nor in its tables, nor in HTML: each
    mark is a numbered character reference, and there are no ends of lines."""
    return _MARKS.sub(lambda mark: f"&#{ord(mark[0])};", " ".join(str(text).split()))


def corpus_name(name: Any) -> str:
    """A corpus as a page names it: literally, and without the folder of a file."""
    file, colon, options = str(name).partition(":")
    return literal(Path(file).name + colon + options)


def join_names(names: Sequence[str]) -> str:
    """One name, or several with commas and an "and"; an empty text for none."""
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)


def signed(value: float, digits: int = 1) -> str:
    """A difference with its sign: 1.25 -> +1.2, -3.0 -> −3.0."""
    return f"{value:+.{digits}f}".replace("-", "−")


def title_of(chapter: str) -> str:
    """The heading of a chapter's page."""
    page = (project_root() or Path()) / "book" / f"{chapter}.md"
    lines = page.read_text("utf-8").splitlines()
    return next(line.removeprefix("# ") for line in lines if line.startswith("# "))


def size_text(size: Any) -> str:
    """1000 -> 1K."""
    number = int(size)
    return f"{number // 1000}K" if number % 1000 == 0 else str(number)


def times_smaller(ratio: float) -> str:
    """How many times smaller than one, as one says it: "37 million", "1.3 million", "1,000"; "?"
    for NaN."""
    times = float(f"{1 / ratio:.2g}")
    if times >= 1e6:
        return f"{times / 1e6:g} million"
    return "?" if math.isnan(times) else f"{times:,.0f}"


def times_smaller_between(finding: Finding) -> str:
    """The same of a ratio with its interval as a note, rounded to a digit: "60 million (95 %
    interval 6 to 600 million, n = 5)"."""
    ends = finding.value, finding.high, finding.low
    value, least, most = (times_smaller(1 / float(f"{1 / ratio:.1g}")) for ratio in ends)
    if most.endswith(" million"):
        least = least.removesuffix(" million")
    return f"{value} (95 % interval {least} to {most}, n = {finding.n})"


def bag_of_words(scale: str, size: int, setting: str) -> float:
    """The test accuracy, in %, of TF-IDF with logistic regression on the texts of IMDb's runs."""
    rows = pd.read_csv((project_root() or Path()) / "data" / "results" / "bag_of_words.csv")
    asked = {"scale": scale, "size": size, "setting": setting}
    return float(rows[has(rows, asked)]["test_accuracy"].iloc[0])


def above_bag_of_words(rows: DataFrame, scale: str, size: int, setting: str, sign: int = 1) -> str:
    """How many points the accuracies of a model's seeds are above the bag of words, in which
    nothing is random, with a 95 % interval over the seeds; below it with the ``sign`` -1."""
    above = rows.set_index("seed")["value"] - bag_of_words(scale, size, setting)
    return Finding.of((sign, Sample.of(above.to_dict()))).noted(SCALE_NAMES[scale])


def precision_pairs() -> DataFrame:
    """Trainings in the middle of filler that were repeated in float32, with the points ``above``
    what is published."""
    pairs = pd.read_csv((project_root() or Path()) / "data" / "results" / "precision_in_filler.csv")
    return pairs.assign(above=pairs["float32"] - pairs["published"])


def chrono_above_bfloat16() -> str:
    """How many points chrono's accuracies in float32 are above those of the same seeds in bfloat16,
    whatever computed them, on the usual draw of reviews."""
    pairs = precision_pairs().query("start == 'chrono' and draw == 0")
    above = pairs.set_index("seed")["above"]
    return Finding.of((1, Sample.of(above.to_dict()))).noted("all seeds that were repeated")


def grid(
    cells: DataFrame, rows: Sequence[str], columns: Sequence[str], heads: Any = None
) -> DataFrame:
    """Cells, each with its ``text``, laid out in a table, in the order in which their values of
    ``rows`` and ``columns`` first occur; ``heads`` maps names of columns to functions that write
    their values."""
    written = {"pooling": lambda name: POOLING_NAMES.get(str(name), str(name))}
    written |= {"size": size_text, "corpus": corpus_name} | (heads or {})
    named = DataFrame({name: cells[name].map(written.get(name, str)) for name in (*rows, *columns)})
    named = named.assign(head=named[list(columns)].agg(" ".join, axis=1), text=cells["text"])
    laid_out = named.pivot_table("text", list(rows), "head", aggfunc="last", sort=False)
    frame = laid_out.fillna("").reset_index().rename_axis(columns=None)
    heads_only = frame[list(rows)]
    for place, name in enumerate(rows[:-1], 1):  # a repeated head is written once
        outer = heads_only.iloc[:, :place]
        frame[name] = frame[name].where((outer != outer.shift()).any(axis=1), "")
    return frame


def in_order(rows: DataFrame, **orders: Iterable[Any]) -> DataFrame:
    """The rows whose columns have one of the values that are given, sorted by these as they are
    given."""
    places = {name: {value: at for at, value in enumerate(order)} for name, order in orders.items()}
    kept = rows[[*orders]].isin({name: [*order] for name, order in places.items()}).all(axis=1)
    return rows[kept].sort_values([*orders], key=lambda v: v.map(places[v.name]), kind="stable")


def settings_of(rows: DataFrame) -> list[str]:
    """The settings that occur, in the thesis's order."""
    return [setting for setting in SETTINGS if len(rows) and setting in set(rows["setting"])]


def apart(runs: DataFrame) -> list[str]:
    """The column ``scale`` where `paper.chapter.Chapter.shown` has rows of several: no mean may be
    taken over them."""
    return ["scale"] if "scale" in runs and runs["scale"].nunique() > 1 else []


def accuracy_table(
    runs: DataFrame,
    rows: Sequence[str],
    columns: Sequence[str] = ("setting",),
    heads: dict[str, Any] | None = None,
    text: Callable[[DataFrame], str] = lambda runs: spread(runs["test_accuracy"]),
) -> DataFrame:
    """Test accuracies by some columns of ``runs``, in their order, and below them how often
    guessing is right; ``text`` writes the cell of some runs. Several scales, or corpora of a
    request, have rows of their own."""
    if runs.empty:
        return runs
    guessing = runs.assign(**dict.fromkeys(rows, "") | {rows[0]: MAJORITY})
    rows = [*apart(runs), *rows]
    setting_first = lambda v: v.map(SETTINGS.index) if v.name == "setting" else v  # noqa: E731
    places = runs[[*columns]].drop_duplicates().sort_values([*columns], key=setting_first)
    # empty cells in the first row, so that the columns come in the order of places
    first = runs[list(rows)].iloc[0].to_dict() | {"text": ""}
    cells = [first | place for place in places.to_dict("records")]
    chance = lambda runs: f"{runs['majority_accuracy'].mean():.1f}"  # noqa: E731
    for some, write in ((runs, text), (guessing, chance)):
        for key, group in some.groupby([*rows, *columns], sort=False):
            cells.append(dict(zip([*rows, *columns], key, strict=True)) | {"text": write(group)})
    return grid(DataFrame(cells), rows, columns, heads)
