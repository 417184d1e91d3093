"""What the figures, tables and text of "Learning under limited data" show (thesis §1.10)."""

from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING
import numpy as np
from whenpool.runs.plans.few_shot import PAPER, PAPER_UNLABELLED
from whenpool.runs.kinds.few_shot import CONTRAST, READ_BY_ENCODER, SYSTEMS, UNLABELLED, FewShot
from whenpool.fewshot.pretrained import DEFAULT_ENCODER, MINILM
from whenpool.book.report.verdicts import Cell, column, verdict_of
from pathlib import Path
from typing import TYPE_CHECKING, Any
from whenpool.runs.kinds.few_shot import FewShot, passes_of
from whenpool.book.report.tables import corpus_name
from whenpool.book.report.verdicts import published
from whenpool.book.report.provenance import duration, provenance_line
from whenpool.book.report.skip import MAJORITY
from whenpool.book.report.tables import LEGEND, CaptionedTable, beside, cell_text, grid, mean_text
from whenpool.book.report.verdicts import Cell
from whenpool.runs.kinds.few_shot import SYSTEMS
from whenpool.runs.kinds.few_shot import CONTRAST, SYSTEMS, UNLABELLED
from whenpool.book.report.figures import COLOURS, TRICK_COLOURS
from typing import Any
import torch
from torch import Tensor
from whenpool.probes.protocol import evaluating
from whenpool.corpora.tokens import PADDING_INDEX
from whenpool.explain.words import WordStrip, strip

if TYPE_CHECKING:
    from pandas import DataFrame, Series
    from collections.abc import Callable, Hashable
    from pandas import DataFrame



PER_CLASS = 10
"""Labelled texts of each class in Table 1.9."""
TOKENS = {"max_attention": 512}
OTHER_TOKENS = 256
STEPS = {name: settings.get("steps", FewShot.steps) for name, settings in PAPER.items()}
CORPORA = ("yahoo", "imdb")
_COLUMNS = (
    "key", *(field.name for field in fields(FewShot)), "test_accuracy", "majority_accuracy",
    "corpus_complete", "classes", "labelled_texts", "unlabelled_texts", "unlabelled_read",
    "validation_texts", "test_texts", "test_cut", "tokens_read", "steps_done", "parameters",
    "encoder_parameters",
    "seconds", "finished", "device", "torch", "commit",
)  # fmt: skip


def arranged(runs: "DataFrame") -> "DataFrame":
    """Some runs in the order of Table 1.9, then by labels and seed. ``size`` is the number of labelled
    texts, as training texts are elsewhere, and what a record is too old to tell is empty.

    Args:
        runs: rows of `Store.few_shots`.
    """
    order = [*SYSTEMS, *CONTRAST]
    missing = [name for name in _COLUMNS if name not in runs]
    runs = runs.assign(**{name: column(runs, name) for name in missing})
    runs = runs.assign(size=runs["labelled_texts"], encoder=_encoders(runs))
    return runs[runs["system"].isin(order)].sort_values(
        ["system", "per_class", "seed"],
        key=lambda values: values.map(order.index) if values.name == "system" else values,
        kind="stable",
    )


def follows_thesis(runs: "DataFrame") -> "Series":
    """Which runs are of Table 1.9's kind, whatever their number of labels."""
    system = runs["system"]
    encoder = ~system.isin(READ_BY_ENCODER) | (runs["encoder"] == DEFAULT_ENCODER)
    tokens = runs["max_tokens"] >= system.map(TOKENS).fillna(OTHER_TOKENS)
    enough = runs["unlabelled_texts"] >= PAPER_UNLABELLED * runs["classes"]
    pool = ~system.isin(UNLABELLED) | enough
    steps = runs["steps"] >= system.map(STEPS)
    units = (system != "max_attention") | (runs["hidden_size"] == FewShot.hidden_size)
    return on_whole_corpus(runs) & runs["test"].isna() & encoder & tokens & pool & steps & units


def on_whole_corpus(runs: "DataFrame") -> "Series":
    """Which runs are on a whole corpus of Table 1.9, texts of any length."""
    whole = runs["corpus_complete"].eq(True) & (runs["length"] == "any")
    return whole & runs["corpus"].isin(CORPORA)


def of_thesis(stored: "DataFrame") -> "DataFrame":
    """The runs that decide claims on Table 1.9, of each system one configuration."""
    runs = arranged(stored)
    return one_configuration(runs[follows_thesis(runs)], ["corpus", "system", "per_class"])


def indicating(stored: "DataFrame", encoder: str = MINILM) -> "DataFrame":
    """The runs on whole corpora that indicate what another encoder would say, the same way."""
    runs = arranged(stored)
    read = runs["encoder"].isna() | (runs["encoder"] == encoder)
    return one_configuration(runs[on_whole_corpus(runs) & read], ["corpus", "system", "per_class"])


def on_record(stored: "DataFrame", corpus: str = "imdb") -> "DataFrame":
    """What is shown of a whole corpus: the runs with the encoder that the most runs have."""
    runs = arranged(stored)
    runs = runs[on_whole_corpus(runs) & (runs["corpus"] == corpus)]
    encoders = runs["encoder"].mode()
    return indicating(runs, encoders.iloc[0] if len(encoders) else MINILM)


def one_configuration(runs: "DataFrame", by: Sequence[str]) -> "DataFrame":
    """In each group of some runs those of one configuration: that with the most seeds, then the most
    test texts, then the most steps; each seed once.

    Args:
        by: columns that tell the groups apart.
    """
    import pandas as pd

    if runs.empty:
        return runs
    kept = [_fullest(part) for _, part in runs.groupby(list(by), sort=False, dropna=False)]
    return pd.concat(kept)


def judge_few_shot(ours: "DataFrame", number: float) -> Cell:
    """The verdict on one cell of Table 1.9.

    Args:
        ours: from `arranged`, of the cell's corpus and system.
        number: the cell's, in %.
    """
    ours = ours[(ours["per_class"] == PER_CLASS) & (ours["length"] == "any")]
    if ours.empty:
        return Cell(np.nan, np.nan, 0, "not run")
    whole, thesis = ours["corpus_complete"].eq(True), follows_thesis(ours)
    if thesis.any():
        used = _fullest(ours[thesis])
        verdict = verdict_of(used["test_accuracy"].tolist(), number, 0.0)
    elif whole.any():
        used, verdict = _fullest(ours[whole]), "pilot"
    else:
        used, verdict = _fullest(ours), "pilot"
    values = used["test_accuracy"]
    return Cell(values.mean(), values.std(ddof=1), len(used), verdict, tuple(used["key"]))


def _fullest(runs: "DataFrame") -> "DataFrame":
    varied = [field.name for field in fields(FewShot) if field.name != "seed"]
    groups = [part for _, part in runs.groupby(varied, dropna=False, sort=False)]
    largest = max(
        groups, key=lambda part: (part["seed"].nunique(), part["test_texts"].max(), part["steps"].max())
    )
    return largest.drop_duplicates("seed", keep="last")


def _encoders(runs: "DataFrame") -> "Series":
    """The encoder where texts are read by one."""
    return runs["encoder"].where(runs["system"].isin(READ_BY_ENCODER), None)


NAMES = {
    "vampire": "VAMPIRE",
    "bert": "Fine-tuning (BERT)",
    "tmix": "TMix",
    "max_attention": "MaxAtt",
    "uda": "UDA",
    "mixtext": "MixText",
    "last_words": "BiLSTM, word vectors",
    "max_attention_words": "MaxAtt, word vectors",
}
"""How each system is called, in the order of Table 1.9; then those for contrast."""
UNLABELLED_TEXT = {"vampire": "in pretraining", "uda": "yes", "mixtext": "yes"}
"""Which systems read unlabelled texts of the corpus, and when."""
GIVEN = (
    "Unlabelled: the texts in the pool, and how many of them the steps come to at most. Tokens: words, "
    "where there is no encoder. Looks: at the validation texts; the best is tested. Cut: test texts "
    "longer than what is read of them. Parameters: those that labels train, and those of the pretrained "
    "encoder, which MaxAtt leaves as they are. Time: the mean of a seed, all of it."
)
"""What `given_table` shows."""
CORPUS_NAMES = {"imdb": "IMDb", "yahoo": "Yahoo", "synthetic": "The embedded corpus"}
_HEADS: "dict[str, Callable[[Hashable], str]]" = {
    "system": lambda name: NAMES.get(str(name), str(name)),
    "per_class": lambda count: f"{count} per class",
    "corpus": lambda name: CORPUS_NAMES.get(str(name), str(name)),
}


def thesis_cells(stored: "DataFrame") -> "DataFrame":
    """The cells of Table 1.9 with ours and verdicts.

    Args:
        stored: rows of `Store.few_shots`.
    """
    numbers = published("few_shot").rename(columns={"model": "system", "accuracy": "mean"})
    runs, cells = arranged(stored), []
    for _, row in numbers.iterrows():
        own = runs[(runs["corpus"] == row["corpus"]) & (runs["system"] == row["system"])]
        cells.append(judge_few_shot(own, row["mean"]))
    return beside(numbers.assign(std=float("nan")), cells)


def thesis_table(stored: "DataFrame") -> CaptionedTable:
    """Table 1.9 with ours beside, what ours are below."""
    cells = thesis_cells(stored)
    shown = {key for keys in cells["keys"] for key in keys}
    runs = arranged(stored)
    runs = runs[runs["key"].isin(shown)] if shown else runs.head(0)
    cells = cells.assign(
        text=[_cell(row) for _, row in cells.iterrows()],
        unlabelled=[UNLABELLED_TEXT.get(system, "no") for system in cells["system"]],
    )
    frame = grid(cells, ["system", "unlabelled"], ["corpus"], lambda row: row["text"], _HEADS)
    return CaptionedTable(
        frame.rename(columns={"unlabelled": "unlabelled text"}),
        "Table 1.9 of the thesis, 10 labelled texts of each class: test accuracy in %.",
        "tab-thesis-1-9",
        provenance_line(runs, "the thesis alone; none of it has been run here"),
        " ".join([LEGEND, *(what_it_is(part) for _, part in runs.groupby("corpus"))]),
    )


def accuracy_table(runs: "DataFrame") -> "DataFrame":
    """Test accuracy of each system (rows) by labelled texts of each class, and by corpus where there are
    several (columns): mean ± deviation (seeds), and that of guessing.

    Args:
        runs: from `arranged`, of each system one configuration.
    """
    import pandas as pd

    if runs.empty:
        return pd.DataFrame({"": ["no such runs yet"]})
    columns = (["corpus"] if runs["corpus"].nunique() > 1 else []) + ["per_class"]
    ordered = runs.sort_values(columns, kind="stable")
    cells = []
    for (system, *place), rows in runs.groupby(["system", *columns], sort=False):
        values = rows["test_accuracy"]
        text = mean_text(Cell(values.mean(), values.std(ddof=1), len(rows), ""))
        cells.append({"system": system, "text": text} | dict(zip(columns, place, strict=True)))
    for place, rows in ordered.groupby(columns, sort=False):
        guess = f"{rows['majority_accuracy'].mean():.1f}"
        cells.append({"system": MAJORITY, "text": guess} | dict(zip(columns, place, strict=True)))
    frame = grid(pd.DataFrame(cells), ["system"], columns, lambda row: row["text"], _HEADS)
    heads = [" ".join(_HEADS[name](row[name]) for name in columns) for _, row in ordered.iterrows()]
    return frame[["system", *dict.fromkeys(heads)]]


def given_table(runs: "DataFrame") -> "DataFrame":
    """What each system was given: texts, steps, parameters and time, the mean over seeds.

    Args:
        runs: from `arranged`, one corpus and number of labels.
    """
    import pandas as pd

    rows = []
    for system, own in runs.groupby("system", sort=False):
        row = own.iloc[-1]
        pool, read = (int(own[name].max()) for name in ("unlabelled_texts", "unlabelled_read"))
        rows.append(
            {
                "": NAMES[str(system)],
                "read by": encoder_name(row),
                "labelled": _count(row["labelled_texts"]),
                "unlabelled: pool, read": f"{_count(pool)}, {_count(read)}" if pool else "none",
                "tokens a text": _tokens(row["tokens_read"]),
                "test texts cut": f"{100 * own['test_cut'].sum() / own['test_texts'].sum():.0f} %",
                "steps, looks": f"{_count(row['steps_done'])}, {_looks(row)}",
                "parameters: trained, encoder's": _parameters(row),
                "time": duration(own["seconds"].mean()),
            }
        )
    return pd.DataFrame(rows or [{"": "no such runs yet"}])


def what_it_is(runs: "DataFrame") -> str:
    """What the runs of one corpus read and were tested on, a sentence for below a table.

    Args:
        runs: from `arranged`.
    """
    if runs.empty:
        return ""
    limits = runs["tokens_read"].dropna()
    own = {name: _span(runs[name]) for name in ("labelled_texts", "validation_texts", "test_texts")}
    encoders = [Path(str(name)).name for name in dict.fromkeys(runs["encoder"].dropna())]
    parts = [
        f"{_HEADS['corpus'](_corpus(runs))}: {own['labelled_texts']} labelled, "
        f"{own['validation_texts']} validation and {own['test_texts']} test texts",
        (f"texts cut at {_span(limits)} tokens" if len(limits) else "whole texts")
        + (f", read by {', '.join(encoders)}" if encoders else ""),
        f"{_span(runs['steps_done'])} steps",
        _pools(runs),
        ""
        if runs["corpus_complete"].eq(True).all()
        else "not the thesis's corpus, a stand-in or a part",
    ]
    return "; ".join(part for part in parts if part) + "."


def encoder_name(row: Any) -> str:
    """What turns the words of a run into vectors: its encoder, word vectors, or a bag of words."""
    if isinstance(row["encoder"], str):
        return Path(row["encoder"]).name
    if row["system"] == "vampire":
        return "bag of words"
    vectors = row.get("vectors")
    return vectors if isinstance(vectors, str) else "random word vectors"


def _pools(runs: "DataFrame") -> str:
    reading = runs[runs["unlabelled_texts"] > 0]
    if reading.empty:
        return ""
    pools = []
    for system, own in reading.groupby("system", sort=False):
        read, pool = _span(own["unlabelled_read"]), _span(own["unlabelled_texts"])
        pools.append(f"{NAMES[str(system)]} at most {read} of {pool}")
    return "unlabelled texts: " + ", ".join(pools)


def _tokens(limit: Any) -> str:
    return "all" if limit is None or limit != limit else _count(limit)


def _looks(row: Any) -> int:
    steps, looks, batch_size = (int(row[name]) for name in ("steps", "looks", "batch_size"))
    run = FewShot(row["corpus"], row["system"], steps=steps, looks=looks, batch_size=batch_size)
    return passes_of(run, int(row["labelled_texts"]))[0]


def _parameters(row: Any) -> str:
    return f"{_size(row['parameters'])}, {_size(row['encoder_parameters'])}"


def _size(count: Any) -> str:
    """22713216 -> 22.7M."""
    number = 0 if count != count else int(count)
    if number >= 100_000:
        return f"{number / 1e6:.1f}M"
    return f"{number / 1e3:.0f}K" if number >= 1000 else str(number)


def _span(values: "Series") -> str:
    """One number, or the lowest to the highest."""
    low, high = int(values.min()), int(values.max())
    return _count(low) if low == high else f"{_count(low)} to {_count(high)}"


def _count(number: Any) -> str:
    return f"{int(number):,}"


def _corpus(runs: "DataFrame") -> str:
    return ", ".join(dict.fromkeys(corpus_name(str(name).split(":")[0]) for name in runs["corpus"]))


def _cell(row: Any) -> str:
    """A cell as `cell_text` writes it, but for the deviation that Table 1.9 does not give."""
    return cell_text(row).replace(" ± nan", "")


RIVALS = ("vampire", "bert", "tmix")
"""What the thesis counts, beside MaxAtt, among those without unlabelled data."""
SEMI_SUPERVISED = ("uda", "mixtext")


def facts(runs: "DataFrame", per_class: int = PER_CLASS) -> dict[str, str]:
    """What the text says of some runs: their texts and encoder, mean accuracies with so many labels, the
    points between MaxAtt and the best of the others, and how often MaxAtt is ahead.

    Args:
        runs: one corpus and encoder, of each system one configuration, as `on_record` of
            `whenpool.book.report.few_shot` gives them.
    """
    own = runs[runs["per_class"] == per_class]
    means = own.groupby("system")["test_accuracy"].mean()
    found = {f"few_{system}": _percent(means.get(system)) for system in NAMES}
    for what, systems in {"rival": RIVALS, "semi": SEMI_SUPERVISED, "all": SYSTEMS}.items():
        known = means[means.index.isin(systems)]
        name = str(known.idxmax()) if len(known) else ""
        found[f"few_{what}_name"] = NAMES.get(name, "none")
        found[f"few_{what}"] = _percent(means.get(name))
        found[f"few_above_{what}"] = _points(means.get("max_attention"), means.get(name))
    found["few_above_words"] = _points(means.get("max_attention"), means.get("max_attention_words"))
    found["few_order"] = _order(means[means.index.isin(SYSTEMS)])
    found["few_title"] = what_it_is(own) or "not run yet."
    found["few_seeds"] = str(own["seed"].nunique())
    found["few_spread"] = _spread(own)
    found["few_ahead"] = _ahead(runs)
    return found


def thesis_facts() -> dict[str, str]:
    """Points between MaxAtt and the best of the others in Table 1.9, and the order of all, by corpus."""
    numbers = published("few_shot").set_index(["corpus", "model"])["accuracy"]
    found = {}
    for corpus in ("imdb", "yahoo"):
        own: Series = numbers[corpus]
        for what, systems in {"rival": RIVALS, "semi": SEMI_SUPERVISED}.items():
            found[f"thesis_{corpus}_{what}"] = _points(own["max_attention"], own[list(systems)].max())
        found[f"thesis_{corpus}_order"] = _order(own)
    return found


def _order(accuracies: "Series") -> str:
    """Systems from the highest to the lowest accuracy, with it."""
    ordered = accuracies.sort_values(ascending=False, kind="stable")
    return ", ".join(f"{NAMES[name]} {value:.1f}" for name, value in ordered.items()) or "none"


def _ahead(runs: "DataFrame") -> str:
    """With how many numbers of labels the mean of MaxAtt is above those of its rivals."""
    means = runs.pivot_table(index="per_class", columns="system", values="test_accuracy")
    rivals = [name for name in RIVALS if name in means]
    if "max_attention" not in means or not rivals:
        return "none of none"
    both = means[["max_attention", *rivals]].dropna()
    ahead = both["max_attention"] > both[rivals].max(axis=1)
    return f"{int(ahead.sum())} of {len(both)}"


def _spread(runs: "DataFrame") -> str:
    """The smallest and largest standard deviation of any system over its seeds."""
    deviations = runs.groupby("system")["test_accuracy"].std(ddof=1).dropna()
    return f"{deviations.min():.1f} to {deviations.max():.1f}" if len(deviations) else "unknown"


def _percent(value: float | None) -> str:
    return "not run" if value is None else f"{value:.1f}"


def _points(value: float | None, other: float | None) -> str:
    return "not run" if value is None or other is None else f"{value - other:+.1f}".replace("-", "−")


_LOOKS = {
    "vampire": (TRICK_COLOURS["gradient_directed"], "p"),
    "bert": (TRICK_COLOURS["teacher_forcing"], "s"),
    "tmix": (COLOURS["attention"], "D"),
    "max_attention": (COLOURS["max_attention"], "o"),
    "uda": (COLOURS["max"], "^"),
    "mixtext": (COLOURS["last_attention"], "v"),
    "last_words": (COLOURS["last"], "s"),
    "max_attention_words": (COLOURS["max_attention"], "o"),
}
PALETTE = {title: _LOOKS[name][0] for name, title in NAMES.items()}
"""A colour for each system, by what figures call it: max-attention and the BiLSTM as in the whole book."""
SHAPES = {title: _LOOKS[name][1] for name, title in NAMES.items()}
DASHES = {title: (4, 1.5) if name in CONTRAST else "" for name, title in NAMES.items()}
"""Dashed on word vectors."""
PANELS = {
    "no unlabelled texts": [name for name in (*SYSTEMS, *CONTRAST) if name not in UNLABELLED],
    "with unlabelled texts": [name for name in SYSTEMS if name in UNLABELLED] + ["max_attention"],
}
"""What is compared in each panel; MaxAtt stands in both."""


def named(runs: "DataFrame") -> "DataFrame":
    """The runs of the first corpus with ``system`` as figures call and order them.

    Args:
        runs: from `whenpool.book.report.few_shot.arranged`.
    """
    import pandas as pd

    own = runs[runs["corpus"] == runs["corpus"].iloc[0]] if len(runs) else runs
    present = [title for name, title in NAMES.items() if name in set(own["system"])]
    return own.assign(system=pd.Categorical(own["system"].map(NAMES), present))


def in_panels(runs: "DataFrame") -> "DataFrame":
    """The same with a column ``panel``, once for each of `PANELS` that a system is in."""
    import pandas as pd

    rows = named(runs)
    panels = {title: [NAMES[name] for name in names] for title, names in PANELS.items()}
    return pd.concat(
        [rows[rows["system"].isin(names)].assign(panel=title) for title, names in panels.items()],
        ignore_index=True,
    )


SHORTEST = 15
"""Word pieces of a text that is shown."""
CLASSES = 4
"""Texts shown at most, one of each class."""
CONTINUES = "##"
"""How WordPiece marks a piece that goes on with a word."""
BEGINS = ("Ġ", "▁")
"""How other tokenizers mark a piece that begins one."""


def chosen(lengths: Tensor, labels: Tensor) -> list[int]:
    """Which texts are shown: of each of the first classes the shortest one of `SHORTEST` word pieces or
    more, the first among equals. -> their numbers, in the order of the classes."""
    found = []
    for label in labels.unique().tolist()[:CLASSES]:
        own = ((labels == label) & (lengths >= SHORTEST)).nonzero().flatten()
        if len(own):
            found.append(int(own[lengths[own].argmin()]))
    return found


def whole_words(
    pieces: Sequence[str], weights: Sequence[float]
) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Word pieces put together to words, their weights added. Special tokens stay as they are: the model
    reads them, and attends to them.

    Args:
        pieces: tokens of a text, those inside a word marked by "##", or those that begin one by "Ġ" or
            "▁".
        weights: one for each.
    """
    by_beginning = any(piece.startswith(BEGINS) for piece in pieces)
    words: list[str] = []
    sums: list[float] = []
    special = True
    for piece, weight in zip(pieces, weights, strict=True):
        is_special = piece[:1] + piece[-1:] in ("[]", "<>") and len(piece) > 2
        goes_on = not piece.startswith(BEGINS) if by_beginning else piece.startswith(CONTINUES)
        if goes_on and words and not (special or is_special):
            words[-1] += piece.removeprefix(CONTINUES)
            sums[-1] += weight
        else:
            words.append(piece.lstrip("".join(BEGINS)) or piece)
            sums.append(weight)
        special = is_special
    return tuple(words), tuple(sums)


@torch.inference_mode()
def attention_strips(shown: Any) -> list[WordStrip]:
    """A strip for some test texts: the attention of max-attention on their words, and in the title the
    right class, with a cross where the model takes it for another.

    Args:
        shown: what `whenpool.book.chapter.Chapter.few_shot_model` gives, with ``model``, ``texts``,
            ``tokens`` and ``classes``; None where there is no model.
    """
    found: list[WordStrip] = []
    labels = shown.texts.labels if shown else torch.zeros(0)
    for number in chosen(shown.texts.ids.lengths, labels) if shown else ():
        batch = shown.texts.batch(torch.tensor([number]), PADDING_INDEX)
        with evaluating(shown.model):
            states = shown.model.encode(shown.model.embed(batch.ids), batch.lengths)
            weights = shown.model.pool(states, batch.lengths)[1][0].tolist()
            answer = int(shown.model.classify(states, batch.lengths).argmax())
        label = int(labels[number])
        mark = "✓" if answer == label else "✗"
        found.append(
            strip(*whole_words(shown.tokens[number], weights), f"{shown.classes[label]} {mark}")
        )
    return found
