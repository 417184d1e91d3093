"""Which pooling for one's own texts: a small model with each, cross-validated, and read among
filler.

Letters: N texts, E numbers of a word's vector.
"""

import io
import math
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import torch
from jinja2 import Environment, FileSystemLoader
from joblib import Parallel, delayed
from markupsafe import Markup
from matplotlib.figure import Figure
from scipy.stats import sem, t
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix, f1_score
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from whenpool.base.devices import check_device, processors
from whenpool.base.errors import check, check_known
from whenpool.base.files import write_atomically
from whenpool.base.paths import cache_directory, data_directory
from whenpool.corpora.batches import PADDING_INDEX
from whenpool.corpora.sources import FEWEST, CorpusSource, Reading, check_classes, read_own
from whenpool.corpora.tokens import WordVectors, find_vectors, load_vectors, tokenize, vectors_file
from whenpool.explain.checkpoint import READS, TOKENIZERS
from whenpool.explain.estimator import PoolingClassifier
from whenpool.models.pooling import POOLINGS
from whenpool.models.registry import COLOURS, COMPARED, MARKERS, POOLING_NAMES
from whenpool.probes import padding_sweep
from whenpool.probes.position import folds_of

PROBED = 300  # Test texts that are read among filler
LEVEL = 0.95
UNEVEN = 0.8  # From this share of the largest class on, macro F1 is compared instead of accuracy
PLACES = {"left": "text at the start", "mid": "text in the middle", "right": "text at the end"}


def survey(
    path: Path, reading: Reading, limit: int = 2_000, words: int = 1_000
) -> tuple[pd.DataFrame, list[str]]:
    """Read a file of labelled texts, see `diagnose`, and choose about ``limit`` of them: which ones
    depends on the texts alone; each class keeps its share, and at least `FEWEST` texts. Texts are
    cut before they are compared, so that none is there twice. Returns the columns "text", words
    with spaces between them, "label" and "raw", the text as it is written, and a sentence for each
    thing that was cut or left out.
    Raises `InputError` for texts that cannot be used."""
    rows, gaps, read_otherwise = read_own(path, reading)
    table = pd.DataFrame(rows)
    table["raw"] = table["text"]
    read = table["text"].map(TOKENIZERS[READS])
    table["text"], table["length"] = read.map(lambda text: " ".join(text[:words])), read.map(len)
    wordless = int(table["length"].eq(0).sum())
    table = table[table["length"] > 0]
    check(len(table), f"{path}: no text has a word")
    several = int(table.groupby("text")["label"].nunique().gt(1).sum())
    texts = table.drop_duplicates("text")
    counts = texts["label"].value_counts().reindex(table["label"].unique(), fill_value=0)
    rare = check_classes(counts.to_dict(), path, reading.drop_rare)
    kept, counts = texts[~texts["label"].isin(rare)], counts.drop(rare)
    # shuffled, however the file is sorted; then the first texts of each class
    shuffled = kept.sort_values("text").sample(frac=1, random_state=0)
    quota = (counts * min(1, limit / len(kept))).astype(int).clip(lower=FEWEST)
    used = shuffled[shuffled.groupby("label").cumcount() < shuffled["label"].map(quota)]
    notes = {
        f"rows of {path.name} have a text and a label": len(rows),
        f"rows were left out, without a text or a label; {''.join(gaps[:1])}": len(gaps),
        "rows have no word and were left out": wordless,
        "rows repeat a text, which counts once": len(table) - len(texts),
        "texts have several labels, of which the first counts": several,
        f"texts are of {len(rare)} rare classes and were left out (--drop-rare)": len(texts)
        - len(kept),
        "more texts were left out to save time (--limit)": len(kept) - len(used),
        f"texts are longer than {words} words and cut there": int(used["length"].gt(words).sum()),
    }
    shares = [f"{label} ({count:,})" for label, count in used["label"].value_counts().items()]
    sentences = [f"{count:,} {what}." for what, count in notes.items() if count] + read_otherwise
    sentences.append(f"{len(shares)} classes: {', '.join(shares[:20])}{' …' * (len(shares) > 20)}.")
    return used[["text", "label", "raw"]], sentences


@dataclass(frozen=True, eq=False)
class Score:
    """How well one pooling, or a baseline, did."""

    pooling: str  # its name as an option; "" of a baseline
    name: str
    predicted: np.ndarray  # (N,), the classes that it named
    labels: np.ndarray  # (N,), those of the texts
    filled: float = 0.0  # mean accuracy over all places and shares of added filler, in %

    @property
    def accuracy(self) -> float:
        return 100 * float((self.predicted == self.labels).mean())

    @cached_property
    def credit(self) -> np.ndarray:
        """(N,) what each text adds to what is compared, accuracy or macro F1."""
        if is_uneven(self.labels):
            return f1_parts(self.labels, self.predicted)
        return (self.predicted == self.labels).astype(float)

    @property
    def value(self) -> float:
        """What is compared, in %."""
        return 100 * float(self.credit.mean())


def is_uneven(labels: np.ndarray) -> bool:
    """Whether the largest class has so many of the texts that accuracy says little about the
    others."""
    return bool(pd.Series(labels).value_counts(normalize=True).max() > UNEVEN)


def weights_for(labels: np.ndarray) -> str | None:
    """The ``class_weight`` of every training."""
    return "balanced" if is_uneven(labels) else None


def f1_parts(labels: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """What each text adds to macro F1, (N,): the mean is macro F1, and the spread says how far the
    choice of the texts moves it, to first order (the delta method)."""
    parts = []
    for name in np.unique(labels):
        is_class, said = (labels == name).astype(float), (predicted == name).astype(float)
        count, hit = is_class.mean() + said.mean(), 2 * is_class * said
        f1 = hit.mean() / count
        parts.append(f1 + (hit - f1 * (is_class + said)) / count)
    return np.mean(parts, axis=0)


@dataclass(frozen=True)
class Diagnosis:
    """What is recommended for the texts of a file, and why."""

    file: str
    notes: list[str]  # what of the file was cut or left out
    scores: pd.DataFrame
    by_class: pd.DataFrame  # the F1 of each model
    # how often the model to explain names a class, in columns, of each, in rows
    confusion: pd.DataFrame
    title: str  # the recommendation
    sentences: list[str]  # why, and how sure
    report: Path  # the page, which has it all
    explain: str  # a command that explains the recommended, or else the best, model

    @property
    def text(self) -> str:
        """The accuracies and the recommendation, for a terminal."""
        return "\n".join(
            [self.scores.to_string(index=False), "", f"{self.title}.", *self.sentences]
        )


def diagnose(
    path: Path,
    text_column: str = "text",
    label_column: str = "label",
    *,
    poolings: Sequence[str] = COMPARED,
    epochs: int = 6,
    limit: int = 2_000,
    words: int = 1_000,
    vectors: str | None = None,
    output: Path | None = None,
    data: Path | None = None,
    workers: int | None = None,
    device: str = "cpu",
    say: Callable[[str], None] = print,
    **reading: Any,
) -> Diagnosis:
    """Cross-validate a small model with each pooling on a user's labelled texts, read them among
    filler, and write the page, the texts and the models into the folder ``output``. The options are
    those of the command `whenpool diagnose`; ``reading`` are further ones of
    `whenpool.corpora.sources.Reading`, and ``say`` is called with each line of progress. Raises
    `InputError` for texts that cannot be used, or senseless options."""
    for pooling in poolings:
        check_known("pooling", pooling, POOLINGS)
    check_device(device)
    data = data or data_directory()
    table, notes = survey(path, Reading(text_column, label_column, **reading), limit, words)
    table = table[["text", "label"]]
    named, file = chosen_vectors(vectors, data)
    folder = output or folder_for(path)
    write_atomically(folder / "texts.jsonl", table.to_json(orient="records", lines=True))
    announce([*notes, f"Word vectors: {named or 'random'}. Results go into {folder}."], say)
    source = CorpusSource(str(path), (), path, data)
    read = [*filter(None, map(tokenize, source.load_filler()["test"][:20_000]))]

    texts, labels = table["text"].to_numpy(object), table["label"].to_numpy(str)
    folds = folds_of(labels, len(texts))
    tested = folds[0][1]  # by the models that are saved and read among filler
    workers = workers or (processors() if device == "cpu" else 1)
    (folder / "report.html").unlink(missing_ok=True)
    for pooling in POOLINGS:  # of texts that were diagnosed into the same folder before
        shutil.rmtree(folder / "models" / pooling, ignore_errors=True)
    predicted, models = dict[str, np.ndarray](), dict[str, PoolingClassifier]()
    for pooling in dict.fromkeys(poolings):
        predicted[pooling] = np.empty_like(labels)
        model = PoolingClassifier(
            pooling,
            epochs=epochs,
            vectors=file,
            max_words=words,
            device=device,
            class_weight=weights_for(labels),
        )
        how: Any = {"cv": folds, "n_jobs": workers, "error_score": "raise"}
        made = cross_validate(model, texts, labels, return_estimator=True, **how)["estimator"]
        for fitted, (_, test) in zip(made, folds, strict=True):
            predicted[pooling][test] = fitted.predict(texts[test])
        models[pooling] = made[0]
        right = 100 * (predicted[pooling] == labels).mean()
        say(f"{POOLING_NAMES[pooling]}: {right:.1f} %")
        made[0].save(folder / "models" / pooling)

    some = tested[:PROBED]
    if is_uneven(labels):  # equally many of each class
        classes = pd.Series(labels[tested]).groupby(labels[tested])
        some = tested[classes.cumcount() < min(classes.size().min(), PROBED // classes.ngroups)]
    jobs = (delayed(sweep_of)(m, texts[some], labels[some], read) for m in models.values())
    sweep = pd.concat(Parallel(workers)(jobs))
    filled = sweep[sweep["share"] > 0].groupby("pooling")["accuracy"].mean()
    scores = [
        Score(name, POOLING_NAMES[name], predicted[name], labels, filled[name]) for name in models
    ]
    word_vectors = load_vectors(file, cache_directory()) if file else None
    simple = baselines(texts, labels, folds, word_vectors)
    majority = majority_of(labels)
    chosen, title, sentences = verdict_on(scores, simple, majority)
    shown = chosen or ranked(scores)[0].pooling
    model_folder, every = folder / "models" / shown, [*scores, *simple, majority[0]]
    diagnosis = Diagnosis(
        path.name,
        notes,
        scores_table(scores, every[len(scores) :]),
        f1_table(every),
        confusion_table(predicted[shown], labels),
        title,
        sentences,
        folder / "report.html",
        f'whenpool explain --model {shlex.quote(str(model_folder))} --text "..."',
    )
    page = render(
        "diagnosis.html",
        diagnosis=diagnosis,
        epochs=epochs,
        vectors=named,
        filler=source.filler_file,
        probed=len(some),
        shown=POOLING_NAMES[shown],
        uneven=is_uneven(labels),
        figures=[drawing(setting, sweep) for setting in PLACES],
    )
    write_atomically(diagnosis.report, page)
    return diagnosis


def folder_for(path: Path) -> Path:
    """Where the results on a file go, if the user names no folder."""
    return Path(f"{Path(path.name.removesuffix('.gz')).stem}-diagnosis")


def announce(notes: Iterable[str], say: Callable[[str], None]) -> None:
    """Say each note, without letters that cannot be printed, which a label may hold."""
    for note in notes:
        say("".join(letter for letter in note if letter.isprintable()))


def majority_of(labels: np.ndarray) -> list[Score]:
    """The score of each class that no other outnumbers, when it is always named."""
    return [
        Score("", "most frequent class", np.full_like(labels, name), labels)
        for name in pd.Series(labels).mode()
    ]


def chosen_vectors(vectors: str | None, data: Path) -> tuple[str | None, Path | None]:
    """What word vectors are called, and their file, by the option ``--vectors``; None: random."""
    named = None if vectors == "random" else vectors or find_vectors(data)
    if not named:
        return None, None
    return named, Path(named) if Path(named).is_file() else vectors_file(named, data)


def sweep_of(
    classifier: PoolingClassifier,
    texts: Iterable[str],
    labels: Sequence[str],
    filler: Iterable[Sequence[str]],
) -> pd.DataFrame:
    """The accuracies of a trained model by setting and share of filler, see `padding_sweep`."""
    checkpoint = classifier.checkpoint_

    def numbered(rows: Iterable[Sequence[str]]) -> list[list[int]]:
        return [[checkpoint.number(word) for word in row] for row in rows]

    ids, filled = numbered(map(checkpoint.words, texts)), numbered(filler)
    targets = torch.from_numpy(np.searchsorted(classifier.classes_, labels))
    points = padding_sweep(checkpoint.model, ids, targets, filled, padding_index=PADDING_INDEX)
    return pd.DataFrame(points).assign(pooling=classifier.pooling)


def baselines(
    texts: np.ndarray, labels: np.ndarray, folds: Any, vectors: WordVectors | None
) -> list[Score]:
    """Where a simple classifier does as well, no network is needed."""
    weight = weights_for(labels)
    ways: dict[str, Any] = {"TF-IDF": (bag_of_words(weight), texts)}
    if vectors:
        row_of, none = {word: row for row, word in enumerate(vectors.words)}, np.zeros(vectors.size)
        rows = [[row_of[word] for word in text.split() if word in row_of] for text in texts]
        # N of E numbers
        means = [vectors.matrix[row].numpy().mean(0) if row else none for row in rows]
        ways["mean of vectors"] = (regression_on(StandardScaler(), weight), np.stack(means))
    return [
        Score(
            "",
            f"{name} with logistic regression",
            cross_val_predict(model, data, labels, cv=folds),
            labels,
        )
        for name, (model, data) in ways.items()
    ]


def bag_of_words(class_weight: str | None = None) -> Any:
    """A logistic regression on the words and pairs of words of texts, with spaces between them
    (TF-IDF with 1 + log of a count), that is still to be fitted."""
    tf_idf = TfidfVectorizer(token_pattern=r"\S+", ngram_range=(1, 2), sublinear_tf=True)  # noqa: S106
    return regression_on(tf_idf, class_weight)


def regression_on(features: Any, class_weight: str | None) -> Any:
    """Some features and a logistic regression on them, whose strength of regularisation a
    cross-validation of its own chooses."""
    regression = LogisticRegression(max_iter=2_000, class_weight=class_weight)
    measure = "f1_macro" if class_weight else "accuracy"
    strengths = {"C": [0.01, 0.1, 1.0, 10.0, 100.0]}
    return make_pipeline(features, GridSearchCV(regression, strengths, scoring=measure, cv=3))


# What it comes to


def ranked(scores: Iterable[Score]) -> list[Score]:
    """The best first, by accuracy or macro F1."""
    return sorted(scores, key=lambda score: -score.value)


def difference(best: Score, other: Score, tests: int = 1) -> tuple[float, float, float]:
    """By how many points one score is better than another, and the ends of its interval: Student's,
    text by text; several ``tests`` hold at 95 % together (Bonferroni's)."""
    points = 100 * (best.credit - other.credit)  # (N,)
    half = float(t.ppf(1 - (1 - LEVEL) / tests / 2, len(points) - 1) * sem(points))
    return points.mean(), points.mean() - half, points.mean() + half


def differences(scores: Sequence[Score]) -> dict[str, tuple[float, float, float]]:
    """Of the best from each other one, by pooling, for all pairs at once."""
    best, *rest = ranked(scores)
    return {other.pooling: difference(best, other, math.comb(len(scores), 2)) for other in rest}


def verdict_on(
    scores: Sequence[Score],
    simple: Sequence[Score],
    majority: Sequence[Score],
    more: str = "Give more texts, add word vectors (--vectors), or train longer (--epochs).",
) -> tuple[str, str, list[str]]:
    """The pooling to take, or "", a title, and sentences that say why. A baseline is recommended
    where no pooling is better beyond chance; else of the poolings that beat the most frequent
    class, and may be the best as far as chance goes, the one that does best on the texts as they
    are and under added filler taken together, each counting half. Macro F1 takes the place of
    accuracy where the classes are uneven. ``majority`` has each class that no other outnumbers, and
    ``more`` what may help where nothing was learnt."""

    def learnt(among: Sequence[Score]) -> list[Score]:
        return [
            score
            for score in ranked(among)
            if all(difference(score, chance, len(among))[1] > 0 for chance in majority)
        ]

    best, gaps, uneven = ranked(scores)[0], differences(scores), is_uneven(scores[0].labels)
    has, of = ("has a macro F1 of", "on") if uneven else ("is right on", "of")
    sentences = [
        f"{best.name} {has} {best.value:.1f} % {of} {len(best.labels):,} texts, and the most "
        f"frequent class {has} {majority[0].value:.1f} %. Chance in the choice of texts counts, "
        "that in training does not."
    ]
    if uneven:
        sentences.append(
            f"The largest class has {majority[0].accuracy:.1f} % of the texts, so that a model "
            "that always names it is right that often. Therefore models are compared by macro F1, "
            "the mean of the F1 of all classes, and all classes weigh alike in training "
            '(class_weight="balanced").'
        )
    tied = [score for score in learnt(scores) if score is best or gaps[score.pooling][1] <= 0]
    if tied:
        chosen = max(tied, key=lambda score: score.value + score.filled)
        pooling, title = chosen.pooling, f"Take {chosen.name} ({chosen.pooling})"
    else:
        pooling, title = "", "No pooling learnt enough to be recommended"
        sentences.append(more)
    if len(tied) > 1:
        title += ", though others may do as well"
        names = ", ".join(score.name for score in tied)
        sentences.append(
            f"These texts cannot tell {names} apart; of them, {chosen.name} does best on the "
            "texts as they are and among filler taken together."
        )
    for base in learnt(simple)[:1]:
        if difference(best, base, len(simple))[1] <= 0:
            first = f"It {has} {base.value:.1f} %, and is faster and simpler than a pooling."
            then = f"If you still want a pooling: {title}." if pooling else f"{title}."
            return pooling, f"Use {base.name}", [first, then, *sentences]
    return pooling, title, sentences


# The page


def render(template: str, **facts: Any) -> str:
    """A page by one of the templates beside this file."""
    # autoescape: what texts and names hold is shown, never run
    how: Any = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True}
    pages = Environment(loader=FileSystemLoader(Path(__file__).parent), **how)  # noqa: S701
    return pages.get_template(template).render(facts)


def scores_table(scores: Sequence[Score], simple: Sequence[Score]) -> pd.DataFrame:
    """The poolings, the best first, then the baselines, as texts."""
    gaps, rows = differences(scores), []
    for score in ranked(scores) + ranked(simple):
        gap = gaps.get(score.pooling)
        macro = 100 * f1_score(score.labels, score.predicted, average="macro")
        rows.append(
            {
                "model": score.name,
                "option": score.pooling,
                "accuracy, %": f"{score.accuracy:.1f}",
                "macro F1, %": f"{macro:.1f}",
                "behind the best, points": "{:.1f} ({:.1f} to {:.1f})".format(*gap) if gap else "",
                "among filler, %": f"{score.filled:.1f}" if score.pooling else "",
            }
        )
    return pd.DataFrame(rows)


def f1_table(scores: Sequence[Score]) -> pd.DataFrame:
    """The F1 of each class in %, the largest class first, and of each model, as texts."""
    counts = pd.Series(scores[0].labels).value_counts()
    rows: dict[str, Any] = {"class": counts.index, "texts": [f"{count:,}" for count in counts]}
    for score in scores:
        how: Any = {"labels": counts.index, "average": None, "zero_division": 0}
        of_class = f1_score(score.labels, score.predicted, **how)
        rows[score.name] = [f"{100 * value:.1f}" for value in of_class]
    return pd.DataFrame(rows)


def confusion_table(predicted: np.ndarray, labels: np.ndarray) -> pd.DataFrame:
    """How many texts of each class, the largest first, a model takes for which."""
    names = pd.Series(labels).value_counts().index
    counts = pd.DataFrame(confusion_matrix(labels, predicted, labels=names), columns=names)
    counts.insert(0, "class", names, allow_duplicates=True)
    return counts


def drawing(setting: str, sweep: pd.DataFrame, names: Mapping[str, str] = POOLING_NAMES) -> Markup:
    """A line for each pooling."""
    lines = {
        names[pooling]: (
            line["share"],
            line["accuracy"],
            {"color": COLOURS.get(pooling, "#808080"), "marker": MARKERS.get(pooling, "x")},
        )
        for pooling, line in sweep[sweep["setting"] == setting].groupby("pooling", sort=False)
    }
    return line_drawing(f"Accuracy with the {PLACES[setting]}", "share of added filler", lines)


def line_drawing(title: str, below: str, lines: dict[str, Any]) -> Markup:
    """Lines by name, each with its x, y and look, as a drawing in the colour of the page's text."""
    look: Any = {
        "svg.fonttype": "none",
        "svg.hashsalt": title,
        "font.size": 9,
        "axes.grid": True,
        "grid.color": "#80808060",
        "axes.spines.top": False,
        "axes.spines.right": False,
    }
    buffer = io.StringIO()
    with mpl.rc_context(look):
        figure = Figure(figsize=(4.2, 3.0), layout="constrained")
        axes = figure.add_subplot(title=title, xlabel=below)
        for name, (x, y, how) in lines.items():
            axes.plot(x, y, label=name, **how)
        figure.legend(loc="outside lower center", ncols=3, frameon=False)
        figure.savefig(buffer, format="svg", transparent=True)
    svg = re.sub(r' id="[\w.]+_\d+"|<metadata>.*?</metadata>', "", buffer.getvalue(), flags=re.S)
    drawn = svg.partition("<svg")[2].replace("#000000", "currentColor")
    return Markup(f'<svg role="img" aria-label="{title}"{drawn}')  # noqa: S704
