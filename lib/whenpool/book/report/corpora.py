"""The tables of the chapter "Corpora" (thesis §1.4.1, §1.8.5)."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from whenpool.corpora import Example, downloads, find
from whenpool.corpora.published import PUBLICATIONS
from whenpool.corpora.sources import statistics_of
from whenpool.corpora.synthetic import Grammar
from whenpool.base.files import checked_table
from whenpool.base.errors import InputError
from whenpool.base.paths import project_root
from whenpool.runs.store import OTHERS
from whenpool.book.report.tables import literal
from whenpool.book.report.verdicts import published
from whenpool.book.report.tables import POOLING_NAMES

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from whenpool.runs.run import Place

STATISTICS_OF_RECORD = "corpora.csv"
FIGURES = ("classes", "average_length", "max_length", "train_size", "test_size")
"""What the tables of corpora give of each."""


def measured(place: "Place") -> "DataFrame":
    """Statistics of each published corpus and length of the thesis, from the files that are here, else
    from the record. A column ``source`` says which: "here", "record", "not here" or what is wrong."""
    import pandas as pd

    recorded = recorded_statistics()
    rows = []
    for _, row in published("corpora").iterrows():
        name = {"corpus": row["corpus"], "length": row["length"]}
        found: dict[str, Any] = {}
        if PUBLICATIONS[row["corpus"]].find(place.data) is not None:
            source = "here"
            try:
                found = asdict(statistics_of(find(row["corpus"], place.data), row["length"]))
            except InputError:
                source = "cannot be read"
        else:
            same = (recorded["corpus"] == row["corpus"]) & (recorded["length"] == row["length"])
            known = recorded[same].drop(columns=["corpus", "length"])
            found = known.iloc[0].to_dict() if len(known) else {}
            source = "record" if found else "not here"
        rows.append({**name, **found, "source": source})
    return pd.DataFrame(rows)


def corpora_table(place: "Place", others: Iterable[str] = ()) -> "DataFrame":
    """Tables 1.1 and 1.7: the thesis's figures, and ours where the files were seen.

    Args:
        others: names of corpora that are not the thesis's, in rows of their own.
    """
    import pandas as pd

    theirs = published("corpora")
    ours = measured(place)
    rows = []
    for (_, paper), (_, mine) in zip(theirs.iterrows(), ours.iterrows(), strict=True):
        seen = mine["source"] in ("here", "record")
        line = {"corpus": f"{paper['corpus']}, {paper['length']}"}
        for name in FIGURES:
            line[_head(name)] = _pair(name, mine[name] if seen else None, paper[name])
        rows.append(line | {"files": _files(mine) if seen else mine["source"]})
    for name in others:
        found = statistics_of(find(name, place.data), "any")
        figures = {_head(figure): f"**{_text(figure, getattr(found, figure))}**" for figure in FIGURES}
        corpus = literal(find(name, place.data).label)
        rows.append({"corpus": corpus, **figures, "files": "not the thesis's"})
    return pd.DataFrame(rows)


def corpora_provenance(place: "Place") -> str:
    """Which of the figures were measured on files that are here, and which read from the record."""
    ours = measured(place)
    here = ours[ours["source"] == "here"]
    recorded = ours[ours["source"] == "record"]["corpus"].unique()
    prints = [
        f"{row.corpus}, {row.length} (sha256 "
        f"{find(row.corpus, place.data).fingerprint(row.length)[:12]})"
        for row in here.itertuples()
    ]
    notes = [note for name in here["corpus"].unique() for note in downloads.notes(name, place.data)]
    parts = [f"measured here: {'; '.join(prints)}"] if prints else []
    parts += [f"from the record: {', '.join(recorded)}"] if len(recorded) else []
    said = "; ".join(parts) or "the thesis alone; no files are here"
    return " ".join([f"Provenance: {said}.", *notes])


def recorded_statistics() -> "DataFrame":
    """The statistics of whole corpora that are on record, a row for each corpus and length."""
    import pandas as pd

    root = project_root()
    file = root / "data" / "results" / STATISTICS_OF_RECORD if root else None
    if file is None or not file.is_file():
        return pd.DataFrame(columns=["corpus", "length"])
    return checked_table(file, "statistics of record", OTHERS["corpora"])


def _head(figure: str) -> str:
    return {"average_length": "mean length", "max_length": "longest"}.get(figure, figure.split("_")[0])


def _text(figure: str, value: Any) -> str:
    return f"{value:,.{1 if figure == 'average_length' else 0}f}"


def _pair(figure: str, ours: Any, theirs: Any) -> str:
    paper = _text(figure, theirs)
    return paper if ours is None else f"**{_text(figure, ours)}**<br>{paper}"


def _files(row: Any) -> str:
    return "complete" if row["complete"] else "a part or stand-in"


def show_evidence(example: Example, grammar: Grammar, words: int) -> Any:
    """The beginning of a synthetic text, evidence for its class in bold, other evidence in italics."""
    from IPython.display import Markdown

    classes = list(grammar.evidence)
    right = set(grammar.evidence[classes[example.label]])
    other = {word for name in classes for word in grammar.evidence[name]} - right

    def mark(word: str) -> str:
        return f"**{word}**" if word in right else f"*{word}*" if word in other else word

    beginning = " ".join(mark(word) for word in example.text.split()[:words])
    return Markdown(f"> {beginning} …\n>\n> Class: *{classes[example.label]}*")


def with_grammar(runs: "DataFrame") -> "DataFrame":
    """Runs on synthetic corpora with the columns ``words`` ("20–30"), ``density``, ``agreement``
    and ``kinds`` (of texts: 2 or 10)."""
    grammars = [Grammar(**dict(find(name).options)) for name in runs["corpus"]]
    return runs.assign(
        words=[f"{grammar.shortest}–{grammar.longest}" for grammar in grammars],
        density=[grammar.density for grammar in grammars],
        agreement=[grammar.agreement for grammar in grammars],
        kinds=[grammar.classes for grammar in grammars],
    )


def plain(runs: "DataFrame") -> "DataFrame":
    """Those with two classes and the agreement that is the default."""
    return runs[(runs["kinds"] == 2) & (runs["agreement"] == Grammar().agreement)]


def evidence_table(runs: "DataFrame") -> "DataFrame":
    """Test accuracy by parameters (rows) and pooling (columns); empty where a run is missing."""
    import pandas as pd

    if runs.empty:
        return pd.DataFrame({"classes": ["not run yet"]})
    wide = _evidence_grid(runs)
    table = wide.map(lambda value: "" if pd.isna(value) else f"{value:.1f}")
    table["gain"] = ["" if pd.isna(gain) else f"{gain:+.1f}" for gain in _gain(wide)]
    names = {**POOLING_NAMES, "kinds": "classes", "agreement": "agree"}
    table = table.reset_index().rename(columns=names)
    for name in ("density", "agree"):
        table[name] = [f"{100 * value:.0f} %" for value in table[name]]
    return table


def evidence_facts(runs: "DataFrame") -> dict[str, str]:
    """Where pooling gains least among the plain runs, and how much it gains there and at the most; a
    dash each where none was run."""
    ours = plain(runs)
    gain = _gain(_evidence_grid(ours)).dropna() if len(ours) else ours["test_accuracy"]
    if gain.empty:
        return dict.fromkeys(("least_words", "least_density", "least_gain", "most_gain"), "–")
    _, words, density, _ = gain.idxmin()
    return {
        "least_words": words,
        "least_density": f"{100 * density:.0f}",
        "least_gain": f"{gain.min():.1f}",
        "most_gain": f"{gain.max():.1f}",
    }


def _evidence_grid(runs: "DataFrame") -> "DataFrame":
    rows = ["kinds", "words", "density", "agreement"]
    wide = runs.pivot_table(index=rows, columns="pooling", values="test_accuracy")
    order = runs[rows].drop_duplicates().itertuples(index=False, name=None)
    return wide.reindex(list(order))[[name for name in POOLING_NAMES if name in wide]]


def _gain(wide: "DataFrame") -> "Series":
    """The best pooling's accuracy less the BiLSTM's, in points."""
    pooled = wide.drop(columns="last", errors="ignore").max(axis=1)
    return pooled - wide["last"] if "last" in wide else pooled * float("nan")
