"""What a chapter of the book opens with: its runs, their results, and where they come from."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from paper.chapters import PLANS, plan
from paper.figures import use_style
from paper.runs.compute import compute, standing
from paper.runs.kinds import KINDS
from paper.runs.kinds.probe import PROBES
from paper.runs.request import NARROWING, Request, corpora_named, placed
from paper.runs.run import Place, Run
from paper.tables import COMPUTED, CaptionedTable, Note, doors
from paper.verdicts.claims import LEVEL, Decision, Finding, compared, decisions, sample_of
from paper.verdicts.measures import MEASURES, results
from paper.verdicts.results import Runs, has
from whenpool.base.errors import check, check_known


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

    def results(
        self, what: str, scale: str | Sequence[str] | None = None, **selection: Any
    ) -> pd.DataFrame:
        """Finished runs as a tidy table, with the ``key`` of each row's run.

        Args:
            what: a measure, a key of `paper.verdicts.measures.MEASURES`, such as "accuracy": a row
                with a ``value`` for each number; or a kind of run ("training", "few-shot",
                "tagging" or "probe"): a row each; or a kind of probe ("gradients", "trace",
                "sweep", "nwi", ...): a row for each point that it measured.
            scale: "thesis" or "compact": its model and training, on plain, masked, long IMDb
                reviews where ``selection`` does not say otherwise; "yours": the runs of the
                request; None: all.
            selection: what the columns must be, such as ``size=1000``, ``setting=["standard",
                "mid"]`` or ``corpus=...`` for any.

        Raises `InputError` for a name that there is not."""
        if scale == "yours":
            check_known("kind of run or probe", what, (*KINDS, *PROBES))
            rows = Runs(self.place).table(what)
            mine = rows["key"].isin(standing(self.runs, self.place).done.values())
            return rows[mine & has(rows, selection)]
        return results(self.finished, what, scale, **selection)

    def finding(
        self,
        measure: str,
        scale: str,
        of: Mapping[str, Any],
        against: Mapping[str, Any] | None = None,
        versus: Mapping[str, Any] | None = None,
    ) -> Finding:
        """The mean over seeds of a measure of the runs that are meant by ``of``, with its 95 %
        interval. With ``against`` the mean of the same selection with these values is subtracted,
        or divided by; with ``versus`` that difference once more, as in a claim. Empty where a run
        is missing."""
        about = MEASURES[measure]
        (terms,) = compared(dict(of), against, versus)
        rows = ((sign, self.results(measure, scale, **each)) for sign, each in terms)
        return Finding.of(
            *((sign, sample_of(each, about)) for sign, each in rows), ratio=about.ratio
        )

    def spoken(self, *asked: Any, **more: Any) -> str:
        """A `finding` as a sentence has it: mean and interval, or "not run"."""
        return self.finding(*asked, **more).spoken or "not run"

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

    def claims(self) -> dict[str, Decision]:
        """The claims of this chapter with their verdicts, by id. For the text it glues
        ``claim_<id>``, the verdict as a verb, ``measured_<id>``, what was measured, and
        ``thesis_<id>`` and ``compact_<id>``, the same by scale."""
        decided = {decision.claim.id: decision for decision in decisions(self.finished, self.name)}
        for name, decision in decided.items():
            glue(f"claim_{name}", decision.as_verb)
            glue(f"measured_{name}", decision.best.spoken or "no run")
            for scale in decision.at:
                glue(f"{scale}_{name}", decision.spoken(scale))
        return decided

    def claims_table(
        self, decided: Mapping[str, Decision], caption: str, name: str
    ) -> CaptionedTable:
        """A row for each claim: its rule, its verdict on the thesis's numbers, and ours at both
        scales."""

        def text(finding: Finding | None) -> str:
            if finding is None:
                return ""
            numbers = f"<br>{finding.measured}, n = {finding.n}" if finding.n else ""
            return f"**{finding.verdict}**{numbers}" + "<br>part of the corpus" * finding.part

        found = [finding for decision in decided.values() for finding in decision.at.values()]
        cells = (
            (
                f"{d.claim.statement} ({d.claim.source})",
                d.claim.ruled,
                *map(text, (d.thesis, d.at.get("thesis"), d.at.get("compact"))),
            )
            for d in decided.values()
        )
        rows = pd.DataFrame(
            cells, columns=["claim", "rule", "the thesis", "thesis's scale", "compact"]
        )
        rows, line = rows.loc[:, rows.ne("").any()], "No runs: computed as this page was made."
        if all(MEASURES[decision.claim.measure].drawn for decision in decided.values()):
            rows = rows.rename(columns={"thesis's scale": "computed here"})
        else:
            keys = {key for finding in found for key in finding.keys}
            line = doors(self.name, name, rows, self.finished.of(keys))
        wider = (
            "An interval above 95 % is one of 1 − 0.05/k, by which a claim of k comparisons fails."
        )
        legend = wider * any(finding.level > LEVEL for finding in found)
        return CaptionedTable(rows, caption, name, line, legend, prose=True)

    def provenance(self, rows: pd.DataFrame, name: str) -> Note:
        """Where the figure or table ``name`` comes from, by its rows, which have the ``key`` of a
        run; see `paper.tables.doors`."""
        known = self.finished.of(rows.get("key", ()))
        if known.empty and len(rows):  # those of a request
            known = rows.drop_duplicates("key")
        return Note(doors(self.name, name, rows, known))


def open_chapter(
    name: str,
    profile: str = "quick",
    corpus: str | Sequence[str] | None = None,
    data: str | None = None,
    only: Mapping[str, Any] | None = None,
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
    such = f'only must be such as {{"sizes": [1000]}}, not {only!r:.60}'
    check(isinstance(only, Mapping | None), such)
    for key in only or ():
        check_known("only", key, (*NARROWING, "masked", "paraphrases"))
    narrow: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in (only or {}).items()
    }
    request = Request(profile, corpora_named(corpus), **narrow, encoder=placed(encoder))
    place = Place.default(Path(data) if data else None, smoke=profile == "smoke")
    chapter = Chapter(name, request, place)
    if chapter.runs and not os.environ.get(COMPUTED):
        compute(chapter.runs, place, skip_absent=request.leaves_out, label=name)
    return chapter


def planned(name: str, request: Request, place: Place) -> list[Run]:
    """The runs that a page computes and shows beside what is recorded: those of a chapter with a
    plan, where the request names a corpus, another profile, a cell or fewer runs; none for the
    usual request."""
    return plan(name, request, place) if name in PLANS and request != Request() else []


def glue(name: str, value: Any) -> None:
    """Make a value available to the text as ``{glue:text}`name```; a notebook opened by itself
    prints it."""
    if not os.environ.get(COMPUTED):
        print(f"{name} = {value}")
        return
    from myst_nb import glue as keep

    keep(name, value.item() if isinstance(value, np.generic) else value, display=False)
