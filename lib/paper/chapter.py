"""What a chapter of the book opens with: its runs, their results, and where they come from."""

import os
import pickle
import re
import sys
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from IPython.display import display

from paper.chapters import PLANS, plan
from paper.figures import use_style
from paper.runs.compute import compute, standing
from paper.runs.kinds.training import CODE
from paper.runs.pack import those_packed
from paper.runs.plans import Study, smoke_sized
from paper.runs.request import Request
from paper.runs.run import Place, Run
from paper.tables import COMPUTED, CORPUS_NAMES, CaptionedTable, Note, doors
from paper.verdicts.claims import (
    SCALE_NAMES,
    Decision,
    Finding,
    Terms,
    compared,
    decisions,
    paired,
    sample_of,
)
from paper.verdicts.measures import MEASURES, numbers, results
from paper.verdicts.results import PLAIN, SCALES, Numbers, Runs, Selection, has
from whenpool.base.files import hash_of, write_atomically
from whenpool.base.paths import cache_directory, project_root

CHOSEN = ("corpus", "length", "size", "texts", "shortest")  # What a request has its own values of
MODEL = PLAIN.keys() - {"corpus", "length", "vectors"}
NOTHING = (
    'This execution has no such runs. Another profile has more, such as `profile="compact"`, '
    "and so may other values of `only`."
)
BANNER = (
    "**Figures and tables are of this execution**: {runs} runs on {corpora}, {asked}; computed on "
    "{devices}. The text speaks of the runs on record, and so do captions and what compares with "
    "the thesis."
)


class RequestedRuns(Runs):
    """The finished runs of a request alone, and the trainings that its probes looked at."""

    def __init__(self, place: Place, keys: Set[str]) -> None:
        super().__init__(place)
        self.keys = keys

    def table(self, what: Any) -> pd.DataFrame:
        """See `Runs.table`."""
        rows = super().table(what)
        return rows if callable(what) else rows[rows["key"].isin(self.keys)]

    def as_usual(self, rows: pd.DataFrame, selection: Selection) -> pd.Series:
        """All rows: the profile of the request says how many texts they measure."""
        return pd.Series(True, index=rows.index)


@dataclass(frozen=True)
class Chapter:
    """A chapter's access to runs; see `open_chapter`."""

    name: str
    request: Request
    place: Place

    @cached_property
    def runs(self) -> list[Run]:
        """The runs of the request, which `open_chapter` or the build has computed."""
        return planned(self.name, self.request, self.place)

    @property
    def of_record(self) -> bool:
        """Whether figures and tables show the record: without a request, or on a page without a
        plan."""
        return self.name not in PLANS or self.request == Request()

    @cached_property
    def requested(self) -> RequestedRuns:
        """The finished runs of the request alone."""
        return RequestedRuns(
            self.place, {key for usual in self.usual.values() for key in usual["key"]}
        )

    @property
    def source(self) -> Runs:
        """The finished runs that figures and tables show."""
        return self.finished if self.of_record else self.requested

    @cached_property
    def usual(self) -> dict[str, Selection]:
        """What runs of the request have where a selection does not say otherwise, by the title of
        their corpus: their keys, and the model and training of the profile (compare `SCALES`)."""
        runs = dict.fromkeys([*self.runs, *(run.training for run in self.runs if run.training)])
        corpora: dict[tuple[str, str], dict[Run, str]] = {}
        for run, key in standing(runs, self.place).done.items():
            texts: Any = run.training or run
            corpora.setdefault((texts.corpus, getattr(texts, "length", "any")), {})[run] = key
        scales: dict[str, Selection] = {}
        for (corpus, length), keys in corpora.items():
            name = Path(corpus.partition(":")[0]).name
            title = CORPUS_NAMES.get(name) or re.sub(r"[^\w.,+ -]", "", name)
            several = sum(other == corpus for other, _ in corpora) > 1
            title += f", {length}" if several else ""
            if title in scales:  # a file of the same name, in another folder
                title = next(
                    new for number in count(2) if (new := f"{title} ({number})") not in scales
                )
            scales[title] = {"key": [*keys.values()]}
            trainings = [run.training for run in keys if run.training]
            if trainings:
                base = Study(self.request, self.place).base(corpus, length, trainings[0].size)
                base = smoke_sized(base, self.request) if self.request.profile == "smoke" else base
                scales[title] |= {name: getattr(base, name) for name in MODEL}
                scales[title]["masked"] = trainings[0].masked  # some chapters always mask
        return scales

    @cached_property
    def scales(self) -> dict[str, str]:
        """What stands side by side in figures and tables, each with a title: the two scales of the
        record, or the corpora of the request."""
        names = {name: SCALE_NAMES[name] for name in SCALES}
        return names if self.of_record else {name: name for name in self.usual}

    def results(
        self, what: str, scale: str | Sequence[str] | None = None, **selection: Any
    ) -> pd.DataFrame:
        """Finished runs on record as a tidy table, with the ``key`` of each row's run.

        Args:
            what: a measure, a key of `paper.verdicts.measures.MEASURES`, such as "accuracy": a row
                with a ``value`` for each number; or a kind of run ("training", "few-shot",
                "tagging" or "probe"): a row each; or a kind of probe ("gradients", "trace",
                "sweep", "nwi", ...): a row for each point that it measured.
            scale: "thesis" or "compact": its model and training, on plain, masked, long IMDb
                reviews where ``selection`` does not say otherwise; None: all.
            selection: what the columns must be, such as ``size=1000``, ``setting=["standard",
                "mid"]`` or ``corpus=...`` for any.

        Raises `InputError` for a name that there is not."""
        return results(self.finished, what, scale, **selection)

    def shown(self, what: str, scale: str | None = None, **selection: Any) -> pd.DataFrame:
        """What figures and tables show: the `results` on record at a scale, None for both, or
        those of the request, whose runs have corpora and sizes of their own: of these a list of
        sizes means all, a number the nearest. A column ``scale`` has a key of `scales`, and
        ``lead`` what the title of a panel begins with: the corpus of a request."""
        if self.of_record:
            names = [scale] if scale else [*SCALES]
            parts = [self.results(what, name, **selection).assign(scale=name) for name in names]
            return pd.concat(parts).assign(lead="")
        runs = self.requested
        rows = numbers(runs, what).rows if what in MEASURES else runs.table(what)
        narrowing = {name: value for name, value in selection.items() if name not in CHOSEN}
        parts, size = [rows.head(0).assign(scale="", lead="")], selection.get("size")
        for name, usual in self.usual.items():
            asked = {column: v for column, v in (usual | narrowing).items() if column in rows}
            part = rows[has(rows, asked)]
            if isinstance(size, int) and len(part):
                nearest = min(part["size"], key=lambda n: abs(n - size))
                part = part[part["size"] == nearest]
            parts.append(part.assign(scale=name, lead=f"{name}, "))
        return pd.concat(parts)

    @property
    def chance(self) -> float:
        """How often the commonest class is right, in %: 50 on IMDb, or of the texts of a request;
        NaN for several corpora."""
        if self.of_record:
            return 50.0
        rates = self.requested.table("training")["majority_accuracy"]
        return float(rates.mean()) if len(self.scales) == 1 else np.nan

    def drawable(self, rows: pd.DataFrame) -> bool:
        """Whether there is something to draw; where there is nothing, a line says so."""
        if rows.empty:
            display(Note("No such run is on record yet." if self.of_record else NOTHING, "legend"))
        return len(rows) > 0

    def finding(
        self,
        measure: str,
        scale: str,
        of: Selection,
        against: Selection | None = None,
        versus: Selection | None = None,
    ) -> Finding:
        """The mean over seeds of a measure of the runs that are meant by ``of``, with its 95 %
        interval. With ``against`` the mean of the same selection with these values is subtracted,
        or divided by; with ``versus`` that difference once more, as in a claim. Empty where a run
        is missing."""
        about = MEASURES[measure]
        (asked,) = compared(dict(of), against, versus)
        rows = ((sign, self.results(measure, scale, **each)) for sign, each in asked)
        terms: Terms = [
            (sign, sample_of(Numbers(each), range(len(each)), about)) for sign, each in rows
        ]
        return Finding.of(*(paired(terms) if about.paired else terms), ratio=about.ratio)

    def spoken(self, measure: str, scale: str, *asked: Any, **more: Any) -> str:
        """A `finding` as a sentence has it: the mean, and in brackets what its note on the page
        says; or "not run"."""
        finding = self.finding(measure, scale, *asked, **more)
        return finding.noted(SCALE_NAMES[scale]) or "not run"

    def table(
        self,
        frame: pd.DataFrame,
        caption: str,
        name: str,
        runs: pd.DataFrame | None = None,
        legend: str = "",
        prose: bool = False,
    ) -> CaptionedTable:
        """A numbered table, see `paper.tables.CaptionedTable`; below it stands where its
        numbers come from, given the ``runs`` (or anything with their ``key``)."""
        line = "" if runs is None else self.provenance(runs, name).line
        return CaptionedTable(frame, caption, name, line, legend, prose)

    @cached_property
    def finished(self) -> Runs:
        """Every finished run, those of ``data/results`` included; in the profile "smoke" those
        alone."""
        return Runs(Place.default() if self.request.profile == "smoke" else self.place)

    @cached_property
    def decided(self) -> dict[str, Decision]:
        """All claims with their verdicts, by id. To decide them takes a processor half a minute:
        pages that are made from the same code, tables and runs share what the first one decided."""
        made_from = [sys.version, np.__version__, CODE]
        if root := project_root():
            tables = [*root.glob("data/paper/[!.]*.*"), *root.glob("data/results/*.csv")]
            made_from += [file.read_text("utf-8") for file in sorted(tables)]
        for file in sorted(self.finished.store.directory.glob("*.json")):
            changed = file.stat()
            made_from.append(f"{file.name} {changed.st_size} {changed.st_mtime_ns}")
        state = hash_of(*made_from)
        file = cache_directory() / "verdicts" / f"{state}.pickle"
        if not file.exists():
            decided = {decision.claim.id: decision for decision in decisions(self.finished)}
            write_atomically(file, pickle.dumps(decided))
        return pickle.loads(file.read_bytes())  # noqa: S301, a file that we wrote

    def claims(self) -> dict[str, Decision]:
        """The claims of this chapter with their verdicts, by id. For the text it glues
        ``claim_<id>``, the verdict as a verb, ``measured_<id>``, what was measured, and
        ``thesis_<id>`` and ``compact_<id>``, the same by scale."""
        decided = {decision.claim.id: decision for decision in decisions(self.finished, self.name)}
        for name, decision in decided.items():
            glue(f"claim_{name}", decision.as_verb)
            glue(f"measured_{name}", decision.spoken(decision.scale))
            for scale in decision.at:
                glue(f"{scale}_{name}", decision.spoken(scale))
        return decided

    def provenance(self, rows: pd.DataFrame, name: str) -> Note:
        """Where the figure or table ``name`` comes from, by its rows, which have the ``key`` of a
        run; see `paper.tables.doors`."""
        keys, lead, runs = {*rows.get("key", ())}, "The record: ", self.finished
        if self.of_record:
            lead = ""
        elif keys <= self.requested.keys:
            lead, runs = "This execution: ", self.requested
        return Note(lead + doors(self.name, name, rows, runs.of(keys)))

    @property
    def banner(self) -> Note:
        """What a page that shows other runs than the record says of them."""
        runs = self.requested.of(self.requested.keys)
        request = self.request
        encoder = {"encoder": request.encoder} if request.encoder else {}
        asked = {"profile": request.profile} | request.only | encoder
        named = ", ".join(f"{name} {str(value).strip('(),')}" for name, value in asked.items())
        corpora = " and ".join(self.usual) or "no corpus"
        devices = " and ".join(sorted(set(runs["device"].dropna()))) or "no device"
        text = BANNER.format(runs=len(runs), corpora=corpora, asked=named, devices=devices)
        return Note(text, "execution admonition note")


def open_chapter(
    name: str,
    profile: str = "quick",
    corpus: str | Sequence[str] | None = None,
    data: str | None = None,
    only: Selection | None = None,
    encoder: str | None = None,
) -> Chapter:
    """Open a page of the book, for a chapter with the values of its parameters cell.
    Raises `InputError` for a value that is unknown.

    Args:
        profile: "smoke", "quick", "compact" or "paper".
        corpus: None: the profile's own; else a name for `whenpool.corpora.load`, or several.
        data: the folder of published corpora; None: ``WHENPOOL_DATA``.
        only: narrows the runs: "sizes", "settings", "poolings" (lists), "seeds" (a number),
            "masked"; puts another model into them: "cell", "layers"; of few-shot runs "labels",
            "systems", "unlabelled", "paraphrases".
        encoder: of few-shot runs: a name or folder that transformers loads.
    """
    use_style()
    request = Request.of(profile, corpus, only, encoder)
    place = Place.default(Path(data) if data else None, smoke=profile == "smoke")
    chapter = Chapter(name, request, place)
    if chapter.runs and not os.environ.get(COMPUTED):
        compute(chapter.runs, place, skip_absent=request.leaves_out, label=name)
    if not chapter.of_record:
        display(chapter.banner)
    return chapter


def planned(name: str, request: Request, place: Place) -> list[Run]:
    """The runs that a page computes and shows beside what is recorded: those of a chapter with a
    plan, where the request names a corpus, another profile, a cell or fewer runs; none for the
    usual request."""
    asked = plan(name, request, place) if name in PLANS and request != Request() else []
    return those_packed(asked, place)


def glue(name: str, value: Any) -> None:
    """Make a value available to the text as ``{glue:text}`name```; a notebook opened by itself
    prints it. Of "22 (95 % interval 20 to 24, n = 3)" the page shows 22, and the rest as its note,
    see `paper.pages.finish`."""
    if not os.environ.get(COMPUTED):
        print(f"{name} = {value}")
        return
    from myst_nb import glue as keep

    keep(name, value.item() if isinstance(value, np.generic) else value, display=False)
