"""The one page of a diagnosis: HTML that needs nothing beside itself, and the lines for a terminal."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as Xml  # nothing is parsed: it only writes

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from whenpool.explain.diagnosis.data import Survey
from whenpool.explain.diagnosis.findings import Findings, Plan, Rows, evidence_sentence
from whenpool.explain.diagnosis.verdict import Told, Verdict
from whenpool.models.registry import COLOURS, MARKERS, POOLING_NAMES

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


WIDTH, HEIGHT = 360, 230
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 26, 40
"""Of a panel, in units of its own; it is as wide as a phone's screen at one unit a pixel."""

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Axis:
    """One direction of a panel: from ``low`` to ``high``, with a number at each of ``ticks``."""

    label: str
    low: float
    high: float
    ticks: tuple[float, ...]
    logarithmic: bool = False

    @classmethod
    def around(
        cls, label: str, values: Sequence[float], least: float = 0.0, most: float = math.inf
    ) -> "Axis":
        """Wide enough for some values, and at least ``least`` wide, with round ticks; with ``most``,
        never below 0 nor above it."""
        low, high = min(values), max(values)
        missing = max(0.0, least - (high - low)) / 2
        low, high = low - missing, high + missing
        step = 10 ** math.floor(math.log10(max(high - low, 1e-9)))
        step = next(s for s in (step / 5, step / 2, step, 2 * step) if (high - low) / s <= 5)
        first, last = math.floor(low / step), math.ceil(high / step)
        if most < math.inf:
            first, last = max(0, first), min(math.floor(most / step + 1e-9), last)
        return cls(label, first * step, last * step, tuple(n * step for n in range(first, last + 1)))

    @classmethod
    def decades(cls, label: str, values: Sequence[float]) -> "Axis":
        """Logarithmic, from one power of ten to another."""
        first = math.floor(math.log10(min(values)))
        last = max(first + 1, math.ceil(math.log10(max(values))))
        each = max(1, -(-(last - first) // 5))
        return cls(
            label, 10.0**first, 10.0**last, tuple(10.0**n for n in range(first, last + 1, each)), True
        )

    def share(self, value: float) -> float:
        """Where a value lies, 0 at ``low`` and 1 at ``high``."""
        if self.logarithmic:
            low, high = math.log10(self.low), math.log10(self.high)
            return (math.log10(max(value, self.low)) - low) / (high - low)
        return (value - self.low) / (self.high - self.low)

    def text(self, tick: float) -> str:
        if self.logarithmic:
            digits = str(round(math.log10(tick))).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
            return f"10{digits}"
        return f"{tick:.6g}"


def ink(pooling: str) -> str:
    """A pooling's colour; what is black in the book is the page's own ink, which a dark page has too."""
    return "currentColor" if COLOURS[pooling] == "#000000" else COLOURS[pooling]


def lines(
    title: str, lines_of: Mapping[str, Points], across: Axis, up: Axis, level: float | None = None
) -> Markup:
    """A panel with a line for each pooling.

    Args:
        title: above it, and what a reader who sees no drawing is told first.
        level: a dotted line right across, such as chance.
    """
    told = "; ".join(
        f"{POOLING_NAMES[pooling]} from {points[0][1]:.3g} to {points[-1][1]:.3g}"
        for pooling, points in lines_of.items()
    )
    svg = _panel(f"{title}. {up.label} over {across.label}: {told}.", HEIGHT)
    _text(svg, LEFT, 14, title, weight="bold")
    _axes(svg, across, up)
    if level is not None:
        _level(svg, up, level)
    for pooling, points in lines_of.items():
        places = [(_x(across, x), _y(up, y)) for x, y in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        shape = {"points": path, "fill": "none", "stroke": ink(pooling), "stroke-width": "2"}
        Xml.SubElement(svg, "polyline", shape | {"stroke-linejoin": "round"})
        for x, y in places[:: max(1, len(places) // 8)]:
            _mark(svg, pooling, x, y)
    return _markup(svg)


def intervals(
    title: str, rows: Sequence[tuple[str, float, float, float]], across: Axis, level: float
) -> Markup:
    """A row for each pooling: a point within its interval.

    Args:
        rows: pooling, value, and the ends of its interval.
        level: a dotted line right down, such as chance.
    """
    height = TOP + 30 * len(rows) + BOTTOM
    told = "; ".join(
        f"{POOLING_NAMES[p]} {value:.1f} ({low:.1f} to {high:.1f})" for p, value, low, high in rows
    )
    svg = _panel(f"{title}: {told}. Dotted: {level:.1f}.", height)
    left, bottom = 78, height - BOTTOM

    def place(value: float) -> float:
        return left + across.share(value) * (WIDTH - left - RIGHT)

    for tick in across.ticks:
        _line(svg, place(tick), TOP - 6, place(tick), bottom, "grid")
        _text(svg, place(tick), bottom + 14, across.text(tick), anchor="middle")
    _text(svg, (left + WIDTH - RIGHT) / 2, height - 8, across.label, anchor="middle")
    _line(svg, place(level), TOP - 6, place(level), bottom, "level")
    for number, (pooling, value, low, high) in enumerate(rows):
        y = TOP + 30 * number + 12
        _text(svg, left - 8, y + 4, POOLING_NAMES[pooling], anchor="end")
        bar = _line(svg, place(low), y, place(high), y, "")
        bar.set("stroke", ink(pooling))
        bar.set("stroke-width", "3")
        _mark(svg, pooling, place(value), y, 5.5)
    return _markup(svg)


def swatch(pooling: str) -> Markup:
    """A piece of a pooling's line, for a legend; the name beside it says what it is."""
    svg = Xml.Element(
        "svg", {"viewBox": "0 0 30 12", "width": "30", "height": "12", "aria-hidden": "true"}
    )
    line = _line(svg, 0, 6, 30, 6, "")
    line.set("stroke", ink(pooling))
    line.set("stroke-width", "2")
    _mark(svg, pooling, 15, 6)
    return _markup(svg)


def _panel(told: str, height: float) -> Xml.Element:
    svg = Xml.Element("svg", {"viewBox": f"0 0 {WIDTH} {height:g}", "role": "img", "aria-label": told})
    Xml.SubElement(svg, "title").text = told
    return svg


def _axes(svg: Xml.Element, across: Axis, up: Axis) -> None:
    bottom = HEIGHT - BOTTOM
    for tick in up.ticks:
        _line(svg, LEFT, _y(up, tick), WIDTH - RIGHT, _y(up, tick), "grid")
        _text(svg, LEFT - 6, _y(up, tick) + 4, up.text(tick), anchor="end")
    for tick in across.ticks:
        _text(svg, _x(across, tick), bottom + 15, across.text(tick), anchor="middle")
    _text(svg, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, across.label, anchor="middle")
    label = _text(svg, 0, 0, up.label, anchor="middle")
    label.set("transform", f"translate(11 {(TOP + bottom) / 2:g}) rotate(-90)")


def _x(axis: Axis, value: float) -> float:
    return LEFT + axis.share(value) * (WIDTH - LEFT - RIGHT)


def _y(axis: Axis, value: float) -> float:
    return HEIGHT - BOTTOM - axis.share(value) * (HEIGHT - TOP - BOTTOM)


def _level(svg: Xml.Element, up: Axis, level: float) -> None:
    _line(svg, LEFT, _y(up, level), WIDTH - RIGHT, _y(up, level), "level")


def _line(svg: Xml.Element, x: float, y: float, to_x: float, to_y: float, kind: str) -> Xml.Element:
    ends = {"x1": x, "y1": y, "x2": to_x, "y2": to_y}
    line = Xml.SubElement(svg, "line", {name: f"{value:.1f}" for name, value in ends.items()})
    if kind:
        line.set("class", kind)
    return line


def _text(
    svg: Xml.Element, x: float, y: float, words: str, anchor: str = "start", weight: str = "normal"
) -> Xml.Element:
    look = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text-anchor": anchor, "font-weight": weight}
    text = Xml.SubElement(svg, "text", look)
    text.text = words
    return text


_SHAPES = {
    "s": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    "^": ((0, -1.2), (1.1, 0.9), (-1.1, 0.9)),
    "v": ((0, 1.2), (1.1, -0.9), (-1.1, -0.9)),
    "D": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
}
"""Corners of a marker of size 1; others are round."""


def _mark(svg: Xml.Element, pooling: str, x: float, y: float, size: float = 4.0) -> None:
    look = {"fill": ink(pooling), "class": "mark"}
    corners = _SHAPES.get(MARKERS[pooling])
    if corners is None:
        Xml.SubElement(svg, "circle", look | {"cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": f"{size:g}"})
        return
    half = 0.9 * size
    path = " ".join(f"{x + half * dx:.1f},{y + half * dy:.1f}" for dx, dy in corners)
    Xml.SubElement(svg, "polygon", look | {"points": path})


def _markup(svg: Xml.Element) -> Markup:
    return Markup(Xml.tostring(svg, encoding="unicode"))  # noqa: S704 - what it holds was escaped above
