"""The one page of a diagnosis: HTML that needs nothing beside itself, and the lines for a terminal."""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from whenpool.book.report.advice import Advice, support
from whenpool.explain.diagnosis.data import Survey
from whenpool.explain.diagnosis.findings import Findings, Plan, Row, evidence_sentence
from whenpool.explain.diagnosis.verdict import Verdict
from whenpool.models.registry import COLOURS, MARKERS, POOLING_NAMES

PLACES = {"left": "text at the start", "mid": "text in the middle", "right": "text at the end"}


@dataclass(frozen=True)
class Page:
    """All that a page shows."""

    survey: Survey
    plan: Plan
    found: Findings
    verdict: Verdict
    advice: list[Advice]  # what the book says of such texts, apart from what was measured here
    report: Path  # the file it is written to
    explain: str  # a command that explains the recommended, or else the best, model
    again: str  # the command that made this page
    seconds: float  # from the beginning to this page
    made: str  # when, by which version

    @property
    def html(self) -> str:
        found = self.found
        templates = Environment(
            loader=PackageLoader("whenpool.explain.diagnosis", ""), autoescape=True,
            undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        judges = [score.name for score in found.judges]
        return templates.get_template("page.html").render(
            **vars(self),
            training=self.plan.training,
            figures=_figures(found),
            swept={
                pooling: {(p["setting_added"], p["share_added"]): p["accuracy"] for p in row["history"]}
                for pooling, row in found.sweeps.items()
            },
            seeds=min(len(score.accuracies) for score in found.scores),
            evidence=evidence_sentence(found.where, judges, bool(self.survey.cut)),
            names=POOLING_NAMES,
            support=support,
            zip=zip,
            differences={one.pooling: one for one in found.differences},
            places=PLACES,
        )

    @property
    def text(self) -> str:
        """The accuracies and the recommendation, for a terminal."""
        lines = [f"{'pooling':<10} {'option':<15} {'test accuracy':<22} under filler"]
        for score in self.found.scores:
            kept = self.found.kept(score.pooling)
            accuracy = f"{score.accuracy:5.1f} % ({score.range})"
            filled = "  –" if kept is None else f"{kept:5.1f} %"
            lines.append(f"{score.name:<10} {score.pooling:<15} {accuracy:<22} {filled}")
        for score in self.found.baselines:
            lines.append(f"{score.name}: {score.accuracy:.1f} % ({score.range})")
        lines.append(f"{'most frequent class':<26} {self.found.majority:5.1f} %")
        if not self.found.baselines:
            lines.append("Baselines need scikit-learn: pip install 'whenpool[sklearn]'")
        return "\n".join([*lines, "", f"{self.verdict.title}.", *self.verdict.sentences])


def _figures(found: Findings) -> dict[str, list[Markup]]:
    """The drawings of each section; none where nothing was measured."""

    def intervals(axes: Axes) -> None:
        for score in reversed(found.scores):
            low, high = score.interval
            ends = [[score.accuracy - low], [high - score.accuracy]]
            marker, colour = MARKERS[score.pooling], COLOURS[score.pooling]
            axes.errorbar([score.accuracy], [score.name], xerr=ends, fmt=marker, color=colour)
        axes.axvline(found.majority, color="gray", linestyle=":")
        axes.set(xlabel="test accuracy, %", ymargin=0.15)

    said = "; ".join(f"{score.name} {score.accuracy:.1f} ({score.range})" for score in found.scores)
    said += f"; most frequent class {found.majority:.1f}"
    figures = {"accuracy": [_svg("Test accuracy with its 95 % interval", said, intervals)]}
    figures |= {"sweeps": [], "gradients": [], "importance": []}
    sweeps, gradients, importance = (
        {pooling: row["history"] for pooling, row in rows.items()}
        for rows in (found.sweeps, found.gradients, found.importance)
    )
    labels = {"xlabel": "share of added filler", "ylabel": "accuracy, %"}
    for place, name in PLACES.items() if sweeps else ():
        there = {p: [row for row in rows if row["setting_added"] == place] for p, rows in sweeps.items()}
        points = ("share_added", "accuracy")
        figures["sweeps"] += [_lines(name.capitalize(), there, points, labels, found.majority)]
    points, labels = ("position", "mean"), {"xlabel": "position in the text, %"}
    if any(row["mean"] > 0 for rows in gradients.values() for row in rows):
        more = {"ylabel": "‖∂L/∂h‖", "yscale": "log"}
        figures["gradients"] += [_lines("Gradient at each position", gradients, points, labels | more)]
    if importance:
        labels["ylabel"] = "importance"
        figures["importance"] += [_lines("Normalised word importance", importance, points, labels)]
    return figures


def _lines(
    title: str, rows: Mapping[str, Sequence[Row]], columns: tuple[str, str], labels: Mapping[str, str],
    level: float | None = None,
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

    said = (f"{POOLING_NAMES[p]} from {r[0][y]:.3g} to {r[-1][y]:.3g}" for p, r in rows.items())
    return _svg(title, "; ".join(said), draw)


def _svg(title: str, said: str, draw: Callable[[Axes], None]) -> Markup:
    """A drawing whose black takes the colour of the page's text; ``said`` is for who sees no drawing."""
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
    label = escape(f"{title}: {said}")
    return Markup(f'<svg role="img" aria-label="{label}"{svg[svg.index("<svg") + 4 :]}')  # noqa: S704
