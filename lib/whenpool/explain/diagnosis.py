"""Which pooling for one's own texts: a small model with each, cross-validated, and what probes show of it.

Letters: N texts, V words with a vector, E numbers of a vector.
"""

import io
import json
import re
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import torch
from jinja2 import Environment, PackageLoader, StrictUndefined
from joblib import Parallel, delayed
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from whenpool.base.errors import InputError, check, check_known
from whenpool.base.files import write_atomically
from whenpool.base.version import __version__
from whenpool.book.advice import advice_for, support
from whenpool.corpora.batches import Ragged, Texts
from whenpool.corpora.dataset import Dataset
from whenpool.corpora.settings import find_filler, load_filler
from whenpool.corpora.sources import FEWEST, SUFFIXES, check_classes, read_own
from whenpool.corpora.synthetic import encyclopedia
from whenpool.corpora.tokens import WordVectors, load_vectors, tokenize, without_spaces
from whenpool.explain.checkpoint import TOKENIZERS, save_checkpoint, without_tags
from whenpool.explain.estimator import PoolingClassifier
from whenpool.explain.findings import Findings, Score, Verdict, evidence_sentence, verdict_on
from whenpool.models.pooling import POOLINGS
from whenpool.models.registry import COLOURS, COMPARED, MARKERS, POOLING_NAMES
from whenpool.runs.engine import check_device, processors
from whenpool.runs.kinds.probe import GradientProfile, PaddingSweep, WordImportance
from whenpool.runs.kinds.training import Training
from whenpool.runs.run import Place, find_vectors

LETTERS = 100  # Of a text so many are kept for each word that is read: more is no word
STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)  # Of the baselines' regularisation, C
FOLDS = 3  # Each text is tested once, by models that learnt from the other two thirds
# The texts


@dataclass(frozen=True)
class Survey:
    """What a file of labelled texts holds, and what of it is used."""

    texts: list[str]  # those used, as models read them: words with spaces between them
    labels: list[str]
    lengths: list[int]  # of the same texts in words and punctuation marks, before they are cut
    rows: int  # of the file, with a text and a label
    words: int  # how many first words of a text are read
    tokenizer: str  # a name in `whenpool.explain.checkpoint.TOKENIZERS`
    notes: list[str]  # what was cut, changed and left out, a sentence each

    @property
    def classes(self) -> dict[str, int]:
        """The texts of each class, from frequent to rare."""
        return pd.Series(self.labels).value_counts().to_dict()

    @property
    def cut(self) -> float:
        """Which part of the texts is longer than what is read."""
        return float(np.mean(np.array(self.lengths) > self.words))


def survey(
    path: Path, text_column: str = "text", label_column: str = "label", *, limit: int = 2_000,
    words: int = 1_000, characters: bool = False, drop_classes_below: int = 1,
) -> Survey:  # fmt: skip
    """Read a file of labelled texts, see `diagnose`, and choose about ``limit`` of them: which ones depends
    on the texts alone; each class keeps its share, and at least `FEWEST` texts. Texts are cut before they are
    compared, so that none is there twice. Raises `InputError` for texts that cannot be used."""
    tokenizer, gaps = "characters" if characters else "untagged", list[str]()
    raw = read_own(path, text_column, label_column, gaps)
    table = pd.DataFrame(raw, columns=["whole", "label", "place"])
    read = [_read(text, words, tokenizer) for text in table["whole"]]
    table = table.assign(text=[text for text, _ in read], length=[length for _, length in read])
    wordless = table["whole"][table["text"] == ""]
    gaps += [f"{path}: column {text_column!r} has no words, but {text!r:.40}" for text in wordless]
    table = table.drop(wordless.index)
    check(len(table), "; ".join([f"{path}: no row has a text and a label", *gaps[:1]]))
    advice = "add them with a segmenter, or read each character as a word with --characters"
    spaced = characters or not without_spaces(table["text"])
    check(spaced, f"{path}: the texts have no spaces between words; {advice}")
    several = int(table.groupby("text")["label"].nunique().gt(1).sum())
    texts = table.drop_duplicates("text")
    counts = texts["label"].value_counts()
    rare = counts.index[counts < drop_classes_below]
    kept, counts = texts[~texts["label"].isin(rare)], counts.drop(rare)
    _check_counts(path, label_column, counts, several, drop_classes_below, kept["length"].max() > words)
    # shuffled, however the file is sorted; then the first texts of each class
    shuffled = kept.sort_values("text").sample(frac=1, random_state=0)
    quota = (counts * min(1, limit / len(kept))).astype(int).clip(lower=FEWEST)
    used = shuffled[shuffled.groupby("label").cumcount() < shuffled["label"].map(quota)]
    tagged = sum(without_tags(text) != text for text in table["whole"])
    cut = f"longer than {words} words and cut there"
    gap = f"left out, without words or a label (the first: {', '.join(gaps[:1])})"
    notes = [
        (("text is", "texts are"), int(used["length"].gt(words).sum()), cut),
        (("row was", "rows were"), len(gaps), gap),
        (("repeated text counts", "repeated texts count"), len(table) - len(texts), "once"),
        (("text has", "texts have"), several, "several labels, of which the first counts"),
        (("rare class was", "rare classes were"), len(rare), f"left out: {', '.join(rare[:10])}"),
        (("more text was", "more texts were"), len(kept) - len(used), "left out to save time (--limit)"),
        (("row had", "rows had"), tagged, "HTML tags, which were removed"),
    ]  # fmt: skip
    sentences = [f"{n:,} {names[n > 1]} {what}." for names, n, what in notes if n]
    sentences += ["Each character is read as a word (--characters)."] if characters else []
    longest = int(used["length"].max())
    return Survey(
        used["text"].tolist(), used["label"].tolist(), used["length"].tolist(), len(table),
        min(words, longest), tokenizer, sentences,
    )  # fmt: skip


def _check_counts(
    path: Path, column: str, counts: pd.Series, several: int, least: int, cut: bool
) -> None:
    """Raises `InputError` for fewer than two classes, or one with fewer than `FEWEST` texts."""
    if len(counts) < 2:
        what = f"one class, {counts.index[0]!r:.60}" if len(counts) else "no class"
        what += f" that has {least} texts or more" if least > 1 else ""
        what += f" ({several} texts have several labels, of which the first counts)" if several else ""
        raise InputError(f"{path}: column {column!r} has {what}; give at least two")
    try:
        check_classes(counts.to_dict(), path, several)
    except InputError as error:
        helps = f", as --drop-classes-below {FEWEST} does" if (counts >= FEWEST).sum() >= 2 else ""
        helps += "; only the first words of a text are read (--words)" if cut else ""
        raise InputError(f"{error}{helps}") from None


def _read(text: str, words: int, tokenizer: str) -> tuple[str, int]:
    """What models read of a text, and how many words it has."""
    every = TOKENIZERS[tokenizer](text)
    read = " ".join(every[:words])[: words * LETTERS]
    while (again := " ".join(tokenize(read))) != read:  # parts of "<br />" that came to stand together
        read = again
    return read, len(every)


# What is trained and measured


def diagnose(
    path: Path, text_column: str = "text", label_column: str = "label", *,
    poolings: Sequence[str] = COMPARED, seeds: int = 1, epochs: int = 6, limit: int = 2_000,
    words: int = 1_000, vectors: str | None = None, characters: bool = False, drop_classes_below: int = 1,
    output: Path | None = None, data: Path | None = None, workers: int | None = None, device: str = "cpu",
    command: str = "whenpool diagnose", say: Callable[[str], None] = print,
) -> "Page":  # fmt: skip
    """Cross-validate a small model with each pooling on a user's labelled texts, probe it, and write the
    page, the texts and the models. Raises `InputError` for texts that cannot be used, or senseless options.

    Args:
        path: a ``.csv``, ``.tsv`` or ``.jsonl`` file with a column of texts and one of labels.
        seeds: trainings of each pooling on each two thirds of the texts.
        limit: about so many texts are used, at most.
        words: so many first words of a text are read.
        vectors: a file or a name of word vectors, or "random"; None: GloVe's, if it is there.
        characters: whether each character is read as a word.
        drop_classes_below: classes of fewer different texts are left out.
        output: folder for all that is written; None: one named after the file.
        data: folder of filler sentences and vectors; None: as `whenpool.base.paths` says.
        workers: processes; None: one for each processor, or one for a GPU.
        command: what the page says makes it again.
        say: is called with what is done, a line at a time.
    """
    started, place = time.monotonic(), Place.default(data)
    for pooling in poolings:
        check_known("pooling", pooling, POOLINGS)
    check(len({*poolings}) == len(poolings), f"poolings must be different ones of {', '.join(POOLINGS)}")
    there = data is None or data.is_dir()
    check(there, f"data folder {data} does not exist; check --data, or leave it out")
    check_device(device)
    looked = survey(
        path, text_column, label_column, limit=limit, words=words, characters=characters,
        drop_classes_below=drop_classes_below,
    )  # fmt: skip
    shared = any(path.with_suffix(suffix).is_file() for suffix in SUFFIXES if suffix != path.suffix)
    folder = output or Path(f"{path.name if shared else path.stem}-diagnosis")
    pairs = zip(looked.texts, looked.labels, strict=True)
    lines = (json.dumps({"text": text, "label": label}) + "\n" for text, label in pairs)
    write_atomically(folder / "texts.jsonl", "".join(lines))
    named = None if vectors == "random" else vectors or find_vectors(place)
    file = named and (Path(named) if Path(named).is_file() else place.vectors_file(named))
    counts = f"{len(looked.texts):,} texts of {len(looked.classes)} classes"
    say(f"{path.name}: {counts}, {len(poolings) * seeds * FOLDS} trainings, written into {folder}")
    for note in looked.notes:
        say(note)
    say(f"Word vectors: {named or 'random'}. Models read up to {looked.words:,} words of a text.")

    texts, labels = np.array(looked.texts, dtype=object), np.array(looked.labels)
    folds = [*StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(texts, labels)]
    workers = workers or (processors() if device == "cpu" else 1)
    scores, models = [], dict[str, PoolingClassifier]()
    for pooling in poolings:
        right, seconds = np.zeros((seeds, len(texts))), 0.0
        for seed in range(seeds):
            model = PoolingClassifier(pooling, epochs=epochs, vectors=file, seed=seed, device=device)
            made = cross_validate(
                model,
                texts,
                labels,
                cv=folds,
                n_jobs=workers,
                return_estimator=True,
                error_score="raise",
            )
            for fitted, (_, test) in zip(made["estimator"], folds, strict=True):
                right[seed, test] = fitted.predict(texts[test]) == labels[test]
            seconds += made["fit_time"].sum()
            models.setdefault(pooling, made["estimator"][0])
        scores.append(Score(pooling, tuple(100 * right.mean(1)), right.mean(0), seconds))
        say(f"{scores[-1].name}: {scores[-1].accuracy:.1f} %")
        facts: dict[str, Any] = {"test_accuracy": 100 * right[0, folds[0][1]].mean()}
        save_checkpoint(
            folder / "models" / pooling, models[pooling].checkpoint_.model,
            models[pooling].checkpoint_.vocabulary, models[pooling].checkpoint_.classes,
            looked.words if looked.cut else None, looked.tokenizer,
            run=f"{pooling}, {path.name}", train_texts=len(folds[0][0]), **facts,
        )  # fmt: skip

    try:
        filler, sentences = find_filler(place.data).name, load_filler(find_filler(place.data))["test"]
    except InputError:
        filler, sentences = "", encyclopedia("test")
    read = [*filter(None, map(tokenize, sentences[:20_000]))]
    # as in the thesis, windows of 5 words in long texts and of 3 in short ones (§1.9)
    middle = min(float(np.median(looked.lengths)), looked.words)
    window = 5 if middle >= 50 else 3 if middle >= 15 else 1 if middle >= 3 else None
    splits = [(texts[part], labels[part]) for part in folds[0]]
    measured = Parallel(workers)(
        delayed(_probed)(models[name], *splits, read, window) for name in poolings
    )
    of_pooling = dict(zip(poolings, measured, strict=True))
    probes = {
        name: {pooling: probed[name] for pooling, probed in of_pooling.items() if name in probed}
        for name in ("gradients", "sweeps", "importance")
    }
    simple = _baselines(texts, labels, folds, load_vectors(file, place.cache) if file else None)
    majority = 100 * max(looked.classes.values()) / len(texts)
    scores.sort(key=lambda score: -score.accuracy)
    findings = Findings(tuple(scores), tuple(simple), majority, len(texts), filler, **probes)
    verdict = verdict_on(findings)
    shown = folder / "models" / (verdict.pooling or scores[0].pooling)
    explain = f'{shlex.join(["whenpool", "explain", "--model", str(shown)])} --text "..."'
    options: dict[str, Any] = {"epochs": epochs, "seeds": seeds, "vectors": named, "window": window}
    options |= {"columns": (text_column, label_column), "seconds": time.monotonic() - started}
    page = Page(path, looked, findings, verdict, folder / "report.html", explain, command, options)
    write_atomically(page.report, page.html)
    return page


def _probed(
    model: PoolingClassifier, train: Any, test: Any, filler: Sequence[Sequence[str]], window: int | None
) -> dict[str, Any]:
    """What each probe finds on a trained model; ``train`` and ``test`` are texts and their labels, ``filler``
    has sentences, and a ``window`` the words that are replaced at once, None where texts are too short."""
    checkpoint, splits = model.checkpoint_, []

    def numbered(rows: Iterable[Sequence[str]]) -> Ragged:
        return Ragged.of([[checkpoint.number(word) for word in row] for row in rows])

    for texts, labels in (train, test):
        classes = torch.from_numpy(np.searchsorted(model.classes_, labels))
        splits.append(Texts(numbered(map(checkpoint.words, texts)), classes))
    first, second = splits
    dataset = Dataset(first, second, second, [], None, checkpoint.classes, {}, numbered(filler))
    run = Training("the texts of a diagnosis", "standard", len(first), model.pooling)
    probes: dict[str, Any] = {"gradients": GradientProfile(run, 300), "sweeps": PaddingSweep(run, 300)}
    if window:
        probes["importance"] = WordImportance(run, 100, window, 3 * window)
    return {name: probe.measure(checkpoint.model, dataset) for name, probe in probes.items()}


def _baselines(
    texts: np.ndarray, labels: np.ndarray, folds: Any, vectors: WordVectors | None
) -> list[Score]:
    """Where a simple classifier does as well, no network is needed."""
    words_and_pairs = TfidfVectorizer(
        tokenizer=str.split, token_pattern=None, lowercase=False, ngram_range=(1, 2), sublinear_tf=True
    )
    ways: dict[str, Any] = {"tfidf": (words_and_pairs, texts)}
    if vectors:
        ways["vectors"] = (StandardScaler(), _means(texts, vectors))
    scores = []
    for name, (features, given) in ways.items():
        started = time.perf_counter()
        regression = GridSearchCV(LogisticRegression(max_iter=2_000), {"C": STRENGTHS}, cv=3)
        predicted = cross_val_predict(make_pipeline(features, regression), given, labels, cv=folds)
        right = (predicted == labels).astype(float)
        scores.append(Score(name, (100 * right.mean(),), right, time.perf_counter() - started))
    return sorted(scores, key=lambda score: -score.accuracy)


def _means(texts: Iterable[str], vectors: WordVectors) -> np.ndarray:
    """The mean vector of each text, (N, E): 0 for a text without a word that has one."""
    row_of = {word: row for row, word in enumerate(vectors.words)}
    rows = [[row_of[word] for word in text.split() if word in row_of] for text in texts]
    none = np.zeros(vectors.size)
    return np.stack([vectors.matrix[row].numpy().mean(0) if row else none for row in rows])


# The page


PLACES = {"left": "text at the start", "mid": "text in the middle", "right": "text at the end"}


@dataclass(frozen=True)
class Page:
    """All that a page shows."""

    path: Path
    survey: Survey
    findings: Findings
    verdict: Verdict
    report: Path  # the file it is written to
    explain: str  # a command that explains the recommended, or else the best, model
    again: str  # the command that made this page
    options: dict[str, Any]  # how models were trained and probed, and the seconds up to this page

    @property
    def html(self) -> str:
        findings = self.findings
        templates = Environment(
            loader=PackageLoader("whenpool.explain", ""), autoescape=True, undefined=StrictUndefined,
            trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        return templates.get_template("diagnosis.html").render(
            **vars(self),
            **self.options,
            figures=_figures(findings),
            swept={
                pooling: {(row["setting_added"], row["share_added"]): row["accuracy"] for row in rows}
                for pooling, (_, rows) in findings.sweeps.items()
            },
            evidence=evidence_sentence(
                findings.where, [score.name for score in findings.judges], bool(self.survey.cut)
            ),
            advice=self._advice(),
            names=POOLING_NAMES,
            support=support,
            zip=zip,
            differences={gap.pooling: gap for gap in findings.differences},
            places=PLACES,
            made=f"Made by whenpool {__version__} on {datetime.now(UTC):%d %B %Y}.",
        )

    def _advice(self) -> list[Any]:
        """What the book says of such texts, apart from what was measured here; nothing outside its clone."""
        where = "unknown" if self.survey.cut > 0.1 else self.findings.where
        try:
            given = advice_for(float(np.median(self.survey.lengths)), self.findings.texts, where)
        except InputError:
            return []
        return [advice for advice in given if support(advice) != "untested"]

    @property
    def text(self) -> str:
        """The accuracies and the recommendation, for a terminal."""
        lines = [f"{'pooling':<10} {'option':<15} {'test accuracy':<22} under filler"]
        for score in self.findings.scores:
            accuracy = f"{score.accuracy:5.1f} % ({score.range})"
            filled = self.findings.under_filler(score.pooling)
            lines.append(f"{score.name:<10} {score.pooling:<15} {accuracy:<22} {filled:5.1f} %")
        for score in self.findings.baselines:
            lines.append(f"{score.name}: {score.accuracy:.1f} % ({score.range})")
        lines.append(f"{'most frequent class':<26} {self.findings.majority:5.1f} %")
        return "\n".join([*lines, "", f"{self.verdict.title}.", *self.verdict.sentences])


def _figures(findings: Findings) -> dict[str, list[Markup]]:
    """The drawings of each section; none where nothing was measured."""

    def intervals(axes: Axes) -> None:
        for score in reversed(findings.scores):
            low, high = score.interval
            ends = [[score.accuracy - low], [high - score.accuracy]]
            marker, colour = MARKERS[score.pooling], COLOURS[score.pooling]
            axes.errorbar([score.accuracy], [score.name], xerr=ends, fmt=marker, color=colour)
        axes.axvline(findings.majority, color="gray", linestyle=":")
        axes.set(xlabel="test accuracy, %", ymargin=0.15)

    values = "; ".join(f"{score.name} {score.accuracy:.1f} ({score.range})" for score in findings.scores)
    values += f"; most frequent class {findings.majority:.1f}"
    figures = {
        "accuracy": [_svg("Test accuracy with its 95 % interval", values, intervals)],
        "sweeps": [],
    }
    for place, title in PLACES.items():
        rows = {
            pooling: [point for point in points if point["setting_added"] == place]
            for pooling, (_, points) in findings.sweeps.items()
        }
        labels = {"xlabel": "share of added filler", "ylabel": "accuracy, %"}
        columns = ("share_added", "accuracy")
        figures["sweeps"] += [_lines(title.capitalize(), rows, columns, labels, findings.majority)]
    labels = {"xlabel": "position in the text, %"}
    for name, title, more in (
        ("gradients", "Gradient at each position", {"ylabel": "‖∂L/∂h‖", "yscale": "log"}),
        ("importance", "Normalised word importance", {"ylabel": "importance"}),
    ):
        rows = {pooling: rows for pooling, (_, rows) in getattr(findings, name).items()}
        there = any(row["mean"] > 0 for points in rows.values() for row in points)
        figures[name] = [_lines(title, rows, ("position", "mean"), labels | more)] if there else []
    return figures


def _lines(
    title: str, rows: Mapping[str, Sequence[dict[str, Any]]], columns: tuple[str, str],
    labels: Mapping[str, str], level: float | None = None,
) -> Markup:  # fmt: skip
    """A drawing with a line for each pooling, and a dotted one right across at ``level``, such as chance."""
    x, y = columns

    def draw(axes: Axes) -> None:
        for pooling, points in rows.items():
            look: Any = {"color": COLOURS[pooling], "marker": MARKERS[pooling], "markevery": 0.12}
            values = [point[x] for point in points], [point[y] for point in points]
            axes.plot(*values, label=POOLING_NAMES[pooling], **look)
        if level is not None:
            axes.axhline(level, color="gray", linestyle=":")
        axes.set(**labels)

    ends = (f"{POOLING_NAMES[p]} from {r[0][y]:.3g} to {r[-1][y]:.3g}" for p, r in rows.items())
    return _svg(title, "; ".join(ends), draw)


def _svg(title: str, description: str, draw: Callable[[Axes], None]) -> Markup:
    """A drawing whose black takes the colour of the page's text, described for who does not see it."""
    look: Any = {
        "svg.fonttype": "none", "svg.hashsalt": title, "font.size": 9, "axes.grid": True,
        "grid.color": "#80808060", "axes.spines.top": False, "axes.spines.right": False,
    }  # fmt: skip
    with mpl.rc_context(look):
        figure = Figure(figsize=(4.2, 3.0), layout="constrained")
        axes = figure.add_subplot(title=title)
        draw(axes)
        if axes.get_legend_handles_labels()[0]:
            figure.legend(loc="outside lower center", ncols=3, frameon=False)
        buffer = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    svg = re.sub(r' id="[\w.]+_\d+"', "", buffer.getvalue()).replace("#000000", "currentColor")
    label = escape(f"{title}: {description}")
    return Markup(f'<svg role="img" aria-label="{label}"{svg[svg.index("<svg") + 4 :]}')  # noqa: S704
