"""Which pooling for one's own texts: a small model with each, cross-validated, and read among
filler.

Letters: N texts, M rows of `whenpool.explain.places.in_filler`.
"""

import io
import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup
from matplotlib.figure import Figure
from sklearn.base import clone

from whenpool.base.devices import check_device, processors
from whenpool.base.errors import check, check_known
from whenpool.base.files import write_atomically
from whenpool.base.paths import cache_directory, data_directory
from whenpool.corpora.sources import CorpusSource, Reading, check_classes, read_own
from whenpool.corpora.tokens import find_vectors, load_vectors, vectors_file
from whenpool.explain.checkpoint import READS, TOKENIZERS
from whenpool.explain.estimator import PoolingClassifier
from whenpool.explain.places import (
    PLAIN,
    PROBED,
    advise,
    answered,
    first_of_each,
    in_filler,
    places_of,
)
from whenpool.explain.scores import (
    PLACES,
    Score,
    Task,
    baselines,
    difference,
    majority_of,
    ranked,
    tables_of,
    verdict_on,
    weights_for,
)
from whenpool.models.pooling import POOLINGS
from whenpool.models.registry import COLOURS, COMPARED, MARKERS, POOLING_NAMES
from whenpool.probes.position import folds_of


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
    every = pd.DataFrame(rows).rename(columns={"text": "raw"})
    read = every["raw"].map(TOKENIZERS[READS])
    every["text"], every["length"] = read.map(lambda text: " ".join(text[:words])), read.map(len)
    table = every.query("length > 0")
    check(len(table), f"{path}: no text has a word")
    several = int(table.groupby("text")["label"].nunique().gt(1).sum())
    texts = table.drop_duplicates("text")
    counts = dict.fromkeys(table["label"], 0) | texts["label"].value_counts().to_dict()
    rare = check_classes(counts, path, reading.drop_rare)
    kept = texts.query("label not in @rare")
    # shuffled, however the file is sorted; then the first texts of each class
    shuffled = kept.sort_values("text").sample(frac=1, random_state=0)
    used = shuffled[first_of_each(shuffled["label"], limit)]
    notes = {
        f"rows of {path.name} have a text and a label": len(rows),
        f"rows were left out, without a text or a label; {''.join(gaps[:1])}": len(gaps),
        "rows have no word and were left out": len(every) - len(table),
        "rows repeat a text, which counts once": len(table) - len(texts),
        "texts have several labels, of which the first counts": several,
        f"texts are of {len(rare)} rare classes and were left out (--drop-rare)": len(texts)
        - len(kept),
        "more texts were left out to save time (--limit)": len(kept) - len(used),
        f"texts are longer than {words} words; our models read the first {words} of them": int(
            used["length"].gt(words).sum()
        ),
    }
    shares = [f"{label} ({count:,})" for label, count in used["label"].value_counts().items()]
    sentences = [f"{count:,} {what}." for what, count in notes.items() if count] + read_otherwise
    sentences.append(f"{len(shares)} classes: {', '.join(shares[:20])}{' …' * (len(shares) > 20)}.")
    return used[["text", "label", "raw"]], sentences


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
        table = self.scores.to_string(index=False)
        return "\n".join([table, f"\n{self.title}.", *self.sentences])


def diagnose(
    path: str | Path,
    text_column: str = "text",
    label_column: str = "label",
    *,
    encoder: str | None = None,
    poolings: Sequence[str] = (),
    epochs: int = 6,
    limit: int = 2_000,
    words: int = 1_000,
    vectors: str | None = None,
    output: str | Path | None = None,
    data: str | Path | None = None,
    workers: int | None = None,
    device: str = "cpu",
    json_file: str | Path | None = None,
    say: Callable[[str], None] = print,
    **reading: Any,
) -> Diagnosis:
    """Cross-validate a small model with each pooling on a user's labelled texts, read them among
    filler, and write the page, the texts and the models into the folder ``output``; with an
    ``encoder``, a folder or a name in Hugging Face's cache, a logistic regression on each pooling
    of its states instead, with the small model beside it. The options are those of the command
    `whenpool diagnose`; without ``poolings`` there are all; ``reading`` are further ones of
    `whenpool.corpora.sources.Reading`, and ``say`` is called with each line of progress. Raises
    `InputError` for texts or an encoder that cannot be used, or senseless options."""
    check_device(device)
    path = Path(path)
    folder = Path(output or f"{Path(path.name.removesuffix('.gz')).stem}-diagnosis")
    reader: Any
    if encoder:
        from whenpool.explain.encoders import EncoderReader
        from whenpool.explain.frozen import load_encoder

        reader = EncoderReader(load_encoder(encoder, poolings, device))
    else:
        reader = SmallModels(poolings or COMPARED, folder / "models", words)
    table, notes = survey(path, Reading(text_column, label_column, **reading), limit, words)
    source = CorpusSource(str(path), (), path, Path(data or data_directory()))
    named = None if vectors == "random" else vectors or find_vectors(source.folder)
    file: Any = named and (
        Path(named) if Path(named).is_file() else vectors_file(named, source.folder)
    )
    kept = table[["text", "label"]].to_json(orient="records", lines=True)
    write_atomically(folder / "texts.jsonl", kept)
    report = folder / "report.html"
    report.unlink(missing_ok=True)
    labels = table["label"].to_numpy(str)
    weight = weights_for(labels)
    learning: Any = {"vectors": file, "device": device, "tokenizer": "spaces"}
    task = Task(
        table["raw"].to_numpy(object),
        table["text"].to_numpy(object),
        labels,
        folds_of(labels, len(labels)),
        [sentence for sentence in source.load_filler()["test"][:20_000] if sentence.split()],
        PoolingClassifier(epochs=epochs, class_weight=weight, **learning),
        workers or (processors() if device == "cpu" else 1),
        say,
    )
    task.announce(*notes)
    say(f"Word vectors: {named or 'random'}. Results go into {str(folder)!r}.")
    some = np.flatnonzero(first_of_each(table["label"], PROBED, equally=weight is not None))
    reader.prepare(task, some)
    scores, answers, models = list[Score](), list[pd.DataFrame](), dict[str, Any]()
    for pooling, name in reader.names.items():
        models[pooling], right = answered(task, reader, pooling, PLAIN, reader.rows)
        answers.append(right.query("text in @some"))
        said = right.query("share == 0 and setting == 'mid'").sort_values("text")["said"]
        filled = float(np.nan_to_num(places_of(right.query("share > 0"))["accuracy"].mean()))
        scores.append(Score(pooling, name, said.to_numpy(str), labels, filled))
        say(f"{name}: {scores[-1].accuracy:.1f} %")
    word_vectors = load_vectors(file, cache_directory()) if file and not encoder else None
    simple = baselines(task.texts, labels, task.folds, word_vectors)
    majority, scores = majority_of(labels), ranked(scores)
    chosen, title, sentences = verdict_on(scores, simple, majority, reader.more)
    shown = next(score for score in scores if chosen in ("", score.pooling))
    more, others, facts = reader.finish(task, shown.pooling, models)
    every_answer = pd.concat([*answers, *more])
    places, mine = places_of(every_answer), every_answer.query("pooling == @shown.pooling")
    advice, lost = advise(shown.name, mine, reader.long)
    gap = "{:.1f} points ({:.1f} to {:.1f})".format(*difference(scores[0], simple[0], len(simple)))
    advice.append(f"{scores[0].name} minus {simple[0].name} is {gap}.")
    every = [*simple, *others, majority[0]]
    diagnosis = Diagnosis(
        path.name,
        task.notes,
        *tables_of(scores, every, shown),
        title,
        [text[0].upper() + text[1:] for text in [*sentences, *advice]],
        report,
        facts.get("explain", ""),
    )
    sweep = places.query("learnt == @PLAIN and pooling != 'own'")
    by_place = sweep.pivot(index="share", columns=["setting", "pooling"], values="accuracy")
    profile = facts.get("importance", [])
    importance = pd.DataFrame({shown.pooling: profile}, np.linspace(0, 100, len(profile)))
    pages = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True)
    page = pages.get_template(reader.template).render(
        diagnosis=diagnosis,
        learner=task.classifier,
        vectors=named,
        filler=source.filler_file,
        probed=len(some),
        shown=shown.name,
        names=reader.names,
        places=places,
        PLACES=PLACES,
        by_place=by_place,
        weights=importance,
        drawing=drawing,
        **facts,
    )
    write_atomically(report, page)
    if json_file:
        numbers = {
            "encoder": encoder,
            "pooling": shown.pooling,
            "title": title,
            "reads": facts.get("reads"),
            "lost": lost,
            "places": places.to_dict("records"),
            "sentences": diagnosis.sentences,
            "notes": task.notes,
            "importance": profile,
            "scores": {s.name: [s.accuracy, s.value, s.filled] for s in [*scores, *every]},
        }
        write_atomically(Path(json_file), json.dumps(numbers, ensure_ascii=False, indent=1))
    return diagnosis


class SmallModels:
    """Small models of ours, which learn from the texts with each pooling; that of the first fold is
    saved in a folder."""

    template = "diagnosis.html"
    more = "Give more texts, add word vectors (--vectors), or train longer (--epochs)."
    long = 0

    def __init__(self, poolings: Iterable[str], folder: Path, words: int) -> None:
        for pooling in poolings:
            check_known("pooling", pooling, POOLINGS)
        self.names = {name: POOLING_NAMES[name] for name in poolings}
        self.folder, self.words = folder, words

    def prepare(self, task: Task, some: np.ndarray) -> None:
        """Rows of all texts, and of some in filler, and what each pooling reads of them."""
        filler = [" ".join(words) for words in map(TOKENIZERS[READS], task.filler) if words]
        for pooling in POOLINGS:  # of texts that were diagnosed into the same folder before
            shutil.rmtree(self.folder / pooling, ignore_errors=True)
        self.rows, _ = in_filler(task.texts, some, filler, lambda texts: [True] * len(texts))
        self.read = dict.fromkeys(self.names, self.rows.pop("read").to_numpy(object)[None])

    @staticmethod
    def fit(task: Task, pooling: str, texts: np.ndarray, labels: np.ndarray) -> Any:
        """A model that reads texts to the end, which are cut already, or have filler."""
        return clone(task.classifier).set_params(pooling=pooling).fit(texts, labels)

    def finish(
        self, task: Task, shown: str, models: dict[str, Any]
    ) -> tuple[list[pd.DataFrame], list[Score], dict[str, Any]]:
        """Save the models; what the page has besides."""
        for pooling, model in models.items():
            reads: Any = {"max_words": self.words, "tokenizer": READS}  # texts as they are written
            model.set_params(**reads).checkpoint_ = replace(model.checkpoint_, **reads)
            model.save(self.folder / pooling)
        saved = shlex.quote(str(self.folder / shown))
        return [], [], {"explain": f'whenpool explain --model {saved} --text "..."'}


def drawing(title: str, below: str, lines: pd.DataFrame, names: Mapping[str, str]) -> Markup:
    """A line for each pooling, as a drawing in the colour of the page's text."""
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
        for pooling in filter(lines.__contains__, names):
            colour, marker = COLOURS.get(pooling, "#808080"), MARKERS.get(pooling, "x")
            axes.plot(lines[pooling], label=names[pooling], color=colour, marker=marker)
        figure.legend(loc="outside lower center", ncols=3, frameon=False)
        figure.savefig(buffer, format="svg", transparent=True)
    svg = re.sub(r' id="[\w.]+_\d+"|<metadata>.*?</metadata>', "", buffer.getvalue(), flags=re.S)
    drawn = svg.partition("<svg")[2].replace("#000000", "currentColor")
    return Markup(f'<svg role="img" aria-label="{title}"{drawn}')  # noqa: S704
