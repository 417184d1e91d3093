"""What a chapter of the book opens with: its runs, their results, and where they come from."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import unescape
from pathlib import Path
from typing import Any

import pandas as pd

from whenpool.base.errors import InputError, check, check_known
from whenpool.book.report import verdicts
from whenpool.book.report.claims import Decision, Finding, decisions, rows_at, sample_of
from whenpool.book.report.measures import Runs
from whenpool.book.report.tables import html_of, provenance_line
from whenpool.book.report.verdicts import estimate
from whenpool.runs.compute import compute, rows_of
from whenpool.runs.kinds import KINDS
from whenpool.runs.kinds.probe import PROBES
from whenpool.runs.plans import plan
from whenpool.runs.request import NARROWING, Request, corpora_named, placed
from whenpool.runs.run import Place, Run

COMPUTED = "WHENPOOL_COMPUTED"  # Set for chapters whose runs were computed before they are executed


@dataclass(frozen=True)
class Provenance:
    """A line under a figure, set small."""

    line: str

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {
            "text/markdown": f":::{{div}} provenance\n{self.line}\n:::",
            "text/html": f"<p><small>{html_of(self.line)}</small></p>",
            "text/plain": unescape(self.line),
        }


@dataclass(frozen=True)
class Chapter:
    """A chapter's access to runs; see `open_chapter`."""

    name: str
    request: Request
    place: Place

    @cached_property
    def runs(self) -> list[Run]:
        """The runs that the chapter needs; what is missing is computed, unless it was before."""
        runs = plan(self.name, self.request, self.place)
        if not os.environ.get(COMPUTED):
            compute(runs, self.place, skip_absent=self.request.leaves_out, label=self.name)
        return runs

    def rows(self, kind: str) -> pd.DataFrame:
        """The results of the runs of a kind in `whenpool.runs.kinds.KINDS` among them, a row each."""
        check_known("kind", kind, KINDS)
        return rows_of([run for run in self.runs if run.kind == kind], self.place)

    def stored(self, kind: str) -> pd.DataFrame:
        """Every finished run of a kind there is, reference runs included; nothing is computed."""
        check_known("kind", kind, KINDS)
        return self.place.store.current(kind)

    def measured(self, probes: pd.DataFrame, kind: str) -> pd.DataFrame:
        """What some probe runs of one kind measured, a row for each point, beside what they ran on."""
        check_known("kind", kind, PROBES)
        if len(probes) and "probe" not in probes:
            raise InputError('the rows must be of probes, such as chapter.rows("probe") gives')
        return self.place.store.measured_on(probes, kind)

    def on_imdb(self, kind: str, **more: Any) -> pd.DataFrame:
        """What the reference probes of one kind measured at the thesis's scale, on models of long IMDb
        reviews whose padding is masked, and of what ``more`` names, such as ``size=1000``; word importance
        only on texts of the thesis's lengths."""
        probes = self.stored("probe")
        probes = probes[verdicts.is_reference(probes) & (probes["probe"] == kind)]
        probes = verdicts.of_one_kind(probes)
        chosen = verdicts.has(probes, {"corpus": "imdb", "length": "long", "masked": True} | more)
        if kind == "nwi":
            chosen &= probes["shortest"] == 400
        return self.measured(probes[chosen], kind)

    def small_trainings(self) -> pd.DataFrame:
        """The small reference trainings, see `whenpool.book.report.verdicts.of_breadth`."""
        runs = self.stored("training")
        return verdicts.finished(verdicts.of_one_kind(runs[verdicts.of_breadth(runs)]))

    @cached_property
    def finished(self) -> Runs:
        """Every finished run, those of ``data/results`` included; in the profile "smoke" those alone."""
        return Runs(Place.default() if self.request.profile == "smoke" else self.place)

    def reference(self, measure: str, scale: str = "compact", **selection: Any) -> pd.DataFrame:
        """The numbers of a ``measure`` in `whenpool.book.report.measures.MEASURES` that reference runs gave
        at a scale, "compact" or "thesis", a row for each. ``selection`` is what the runs have, such as
        ``size=1000`` or ``setting=["standard", "mid"]``; what is not named is the scale's model on plain,
        masked, long IMDb reviews. Raises `InputError` for what there is not."""
        return rows_at(self.finished, measure, scale, **selection)

    def difference(
        self,
        measure: str,
        scale: str,
        of: Mapping[str, Any],
        against: Mapping[str, Any],
        versus: Mapping[str, Any] | None = None,
    ) -> str:
        """The mean of a measure minus the mean of what differs in ``against``, with its 95 % interval, as a
        sentence has it; with ``versus`` the same comparison once more is subtracted, as in a claim."""
        terms = [(1, dict(of)), (-1, {**of, **against})]
        if versus is not None:
            terms += [(-sign, {**selection, **versus}) for sign, selection in terms]
        samples = [(sign, sample_of(self.finished, measure, scale, **one)) for sign, one in terms]
        known = [(sign, sample) for sign, sample in samples if sample]
        if len(known) < len(samples):
            return "not run"
        return Finding("", *estimate(known), n=min(sample.n for _, sample in known)).spoken

    def claims(self) -> list[Decision]:
        """The claims of this chapter with their verdicts, which are glued as verbs, ``claim_<id>``, and what
        was measured, as ``measured_<id>``."""
        decided = decisions(self.finished, self.name)
        for decision in decided:
            glue(f"claim_{decision.claim.id}", decision.said)
            glue(f"measured_{decision.claim.id}", decision.best.spoken or "no run")
        return decided

    def evidence_runs(self, decided: Sequence[Decision]) -> pd.DataFrame:
        """The runs that the verdicts rest on, a row each, for their provenance."""
        return self.finished.of({key for decision in decided for key in decision.keys})

    def provenance(self, runs: pd.DataFrame) -> Provenance:
        """Where a figure or table comes from, by rows of runs or of anything with their ``key``."""
        if "device" not in runs and "key" in runs:
            runs = self.finished.of(set(runs["key"]))
        return Provenance(provenance_line(runs))


def open_chapter(
    name: str,
    profile: str = "quick",
    corpus: str | Sequence[str] | None = None,
    data: str | None = None,
    only: Mapping[str, Any] | None = None,
    encoder: str | None = None,
) -> Chapter:
    """Open a chapter, a key of `whenpool.runs.plans.PLANS`, with the values of its parameters cell.
    Raises `InputError` for a value that is unknown.

    Args:
        profile: "smoke", "quick", "compact" or "paper".
        corpus: None: the profile's own; else a name for `whenpool.corpora.load`, or several.
        data: the folder of published corpora; None: ``WHENPOOL_DATA``.
        only: narrows the runs: "sizes", "settings", "poolings" (lists), "seeds" (a number), "masked"; puts
            another model into them: "cell", "layers"; of few-shot runs "labels", "systems", "unlabelled",
            "paraphrases".
        encoder: of few-shot runs: a name or folder that transformers loads.
    """
    from whenpool.book.report.figures import use_style

    use_style()
    check(
        isinstance(only, Mapping | None), f'only must be such as {{"sizes": [1000]}}, not {only!r:.60}'
    )
    for key in only or ():
        check_known("only", key, (*NARROWING, "masked", "paraphrases"))
    narrow: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in (only or {}).items()}
    request = Request(profile, corpora_named(corpus), **narrow, encoder=placed(encoder))
    return Chapter(name, request, Place.default(Path(data) if data else None, smoke=profile == "smoke"))


def glue(name: str, value: Any) -> None:
    """Make a value available to the text as ``{glue:text}`name```; a notebook opened by itself prints it."""
    if not os.environ.get(COMPUTED):
        print(f"{name} = {value}")
        return
    from myst_nb import glue as keep

    keep(name, value, display=False)
