"""The one page of a diagnosis: HTML that needs nothing beside itself, and the lines for a terminal."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from whenpool.explain.diagnosis.data import Survey
from whenpool.explain.diagnosis.drawing import Axis, intervals, lines, swatch
from whenpool.explain.diagnosis.evidence import evidence_sentence
from whenpool.explain.diagnosis.findings import Findings, Rows
from whenpool.explain.diagnosis.plan import Plan
from whenpool.explain.diagnosis.verdict import Told, Verdict
from whenpool.models.registry import POOLING_NAMES

PLACES = {"left": "text at the start", "mid": "text in the middle", "right": "text at the end"}
SHOWN_SHARES = (0.0, 0.5, 0.9)
_PERCENT = (1.0, 25.0, 50.0, 75.0, 100.0)


@dataclass(frozen=True)
class Page:
    """All that a page shows.

    Attributes:
        advice: what the book says of such texts, apart from what was measured here.
        report: the file it is written to.
        explain: a command that explains the recommended, or else the best, model.
        again: the command that made this page.
        seconds: from the beginning to this page.
        made: when, by which version.
    """

    survey: Survey
    plan: Plan
    found: Findings
    verdict: Verdict
    advice: list[Told]
    report: Path
    explain: str
    again: str
    seconds: float
    made: str

    @property
    def html(self) -> str:
        environment = Environment(
            loader=PackageLoader("whenpool.explain.diagnosis", ""),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        return environment.get_template("page.html").render(
            page=self,
            survey=self.survey,
            plan=self.plan,
            training=self.plan.training,
            found=self.found,
            verdict=self.verdict,
            figures=_figures(self.found),
            swept=_swept(self.found.sweeps),
            thirds=self.found.thirds,
            seeds=min(len(score.accuracies) for score in self.found.scores),
            evidence=evidence_sentence(self.found.where, self.found.judges, bool(self.survey.cut)),
            names=POOLING_NAMES,
            differences={one.pooling: one for one in self.found.differences},
            swatches={score.pooling: swatch(score.pooling) for score in self.found.scores},
            shares=SHOWN_SHARES,
            places=PLACES,
        )

    @property
    def text(self) -> str:
        """The accuracies and the recommendation, for a terminal."""
        found = self.found
        rows = [(POOLING_NAMES[s.pooling], s.pooling, s) for s in found.scores]
        lines = [f"{'pooling':<10} {'option':<15} {'test accuracy':<22} under filler"]
        for name, option, score in rows:
            kept = found.kept(option)
            accuracy = f"{score.accuracy:5.1f} % ({score.low:.1f} to {score.high:.1f})"
            filled = "  –" if kept is None else f"{kept:5.1f} %"
            lines.append(f"{name:<10} {option:<15} {accuracy:<22} {filled}")
        lines.append(f"{'most frequent class':<26} {found.majority:5.1f} %")
        lines += ["", f"{self.verdict.title}.", *self.verdict.sentences]
        return "\n".join(lines)


def _figures(found: Findings) -> dict[str, Markup | list[Markup]]:
    rows = [(score.pooling, score.accuracy, score.low, score.high) for score in found.scores]
    reached = [value for _, _, low, high in rows for value in (low, high)]
    figures: dict[str, Markup | list[Markup]] = {
        "accuracy": intervals(
            "Test accuracy with its 95 % interval, and the most frequent class",
            rows,
            Axis.around("test accuracy, %", [*reached, found.majority], least=10, most=100),
            found.majority,
        ),
        **dict.fromkeys(("sweeps", "gradients", "importance"), Markup("")),
    }
    if found.sweeps:
        figures["sweeps"] = _sweep_panels(found)
    if found.gradients:
        curves = {pooling: _curve(rows) for pooling, rows in found.gradients.items()}
        positive = [y for points in curves.values() for _, y in points if y > 0]
        if positive:
            up = Axis.decades("‖∂L/∂h‖", positive)
            across = Axis("position in the text, %", 1, 100, _PERCENT)
            figures["gradients"] = lines("Gradient at each position", curves, across, up)
    if found.importance:
        curves = {pooling: _curve(rows) for pooling, rows in found.importance.items()}
        most = [y for points in curves.values() for _, y in points]
        figures["importance"] = lines(
            "Normalised word importance",
            curves,
            Axis("position in the text, %", 1, 100, _PERCENT),
            Axis.around("importance", [0.0, *most], least=0.1, most=1),
        )
    return figures


def _sweep_panels(found: Findings) -> list[Markup]:
    every = [row["accuracy"] for rows in found.sweeps.values() for row in rows]
    across = Axis("added filler, % of all words", 0, 90, (0.0, 30.0, 60.0, 90.0))
    up = Axis.around("accuracy, %", [*every, found.majority], least=10, most=100)
    panels = []
    for place, title in PLACES.items():
        curves = {
            pooling: [
                (100 * row["share_added"], row["accuracy"])
                for row in rows
                if row["setting_added"] == place
            ]
            for pooling, rows in found.sweeps.items()
        }
        panels.append(lines(title.capitalize(), curves, across, up, found.majority))
    return panels


def _curve(rows: Rows) -> list[tuple[float, float]]:
    return [(row["position"], row["mean"]) for row in rows]


def _swept(sweeps: Mapping[str, Rows]) -> dict[str, dict[str, list[float]]]:
    """Accuracy by pooling and place of the text, at each of `SHOWN_SHARES`."""
    return {
        pooling: {
            place: [
                row["accuracy"]
                for share in SHOWN_SHARES
                for row in rows
                if row["setting_added"] == place and row["share_added"] == share
            ]
            for place in PLACES
        }
        for pooling, rows in sweeps.items()
    }
