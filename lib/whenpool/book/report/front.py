"""The front page: the numbers of its sentences and its figure, at the thesis's scale once three seeds of all
five models are there, before in the compact replication."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import urlencode

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from whenpool.book.report.claims import SEEDS_NEEDED, Decision, Sample, sample_of
from whenpool.book.report.figures import CHANCE_COLOUR, nothing_yet
from whenpool.book.report.ledger import counts, of_the_thesis
from whenpool.book.report.measures import SCALES, Runs
from whenpool.book.report.tables import provenance_line
from whenpool.book.report.verdicts import has
from whenpool.models.registry import COLOURS, POOLING_NAMES

SIZE = 1_000  # Training texts of the accuracies
POOLED = ("mean", "max", "attention", "max_attention")
MODELS = ("last", *POOLED)
SETTINGS = ("standard", "mid")
_SCALE_TEXT = {
    "thesis": "at the thesis's scale",
    "compact": "in the compact replication: 64 units, 8 epochs, reviews cut at 140 words",
}


def _of_all(runs: Runs, measure: str, scale: str, **selection: Any) -> dict[str, Sample]:
    found = {model: sample_of(runs, measure, scale, model=model, **selection) for model in MODELS}
    return {model: one for model, one in found.items() if one} if all(found.values()) else {}


def accuracies(runs: Runs, scale: str, setting: str) -> dict[str, Sample]:
    """Test accuracies of the models in one setting; empty unless all were run."""
    return _of_all(runs, "accuracy", scale, size=SIZE, setting=setting)


def gradients(runs: Runs, scale: str) -> dict[str, Sample]:
    """The same of the logarithm of the gradient in the middle over that at the ends."""
    return _of_all(runs, "early_middle_to_ends", scale)


def scale_shown(runs: Runs) -> str:
    """The scale that the page shows: the thesis's once three seeds of all models are there."""
    of_thesis = [accuracies(runs, "thesis", setting) for setting in SETTINGS]
    of_thesis.append(gradients(runs, "thesis"))
    whole = all(found and min(one.n for one in found.values()) >= SEEDS_NEEDED for found in of_thesis)
    return "thesis" if whole else "compact"


def facts(runs: Runs) -> dict[str, str]:
    """The numbers that the text of the page names; "?" for what was not run."""
    scale = scale_shown(runs)
    reaching = gradients(runs, scale)
    seeds = [sample.n for sample in reaching.values()]
    least = min((reaching[name].mean for name in POOLED), default=0.0) if reaching else 0.0
    smaller = math.exp(-reaching["last"].mean) if reaching else 0.0  # so many times
    found = {
        "gradient_last": f"{float(f'{smaller:.2g}'):,.0f}" if reaching else "?",
        "gradient_pooled": f"{100 * math.exp(least):.0f}" if reaching else "?",
    }
    for setting in SETTINGS:
        own = accuracies(runs, scale, setting)
        seeds += [sample.n for sample in own.values()]
        pooled = [own[name].mean for name in POOLED if own]
        values = {
            "last": own["last"].mean, "weakest": min(pooled), "best": max(pooled),
            "gain": min(pooled) - own["last"].mean, "max_attention": own["max_attention"].mean,
        } if own else dict.fromkeys(("last", "weakest", "best", "gain", "max_attention"))  # fmt: skip
        found |= {f"{setting}_{name}": _rounded(value) for name, value in values.items()}
    chrono = sample_of(runs, "accuracy", scale, model="chrono", size=SIZE, setting="mid")
    found["mid_chrono"] = _rounded(chrono.mean if chrono else None)
    found |= {"seeds": str(min(seeds, default="?")), "scale": _SCALE_TEXT[scale]}
    few = runs.few_shots
    few = few[(few["corpus"] == "imdb") & (few["per_class"] == 10)] if len(few) else few
    means = few.groupby("system")["test_accuracy"].mean() if len(few) else {}
    return found | {f"few_{name}": _rounded(means.get(name)) for name in ("max_attention", "vampire")}


def _rounded(value: float | None) -> str:
    return "?" if value is None else f"{value:.0f}"


@dataclass(frozen=True)
class VerdictBars:
    """A bar for each scale: how many claims of the thesis have which verdict, each part a link to them. A
    notebook that is opened by itself has no ledger beside it, and shows the numbers alone."""

    decided: Sequence[Decision]

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        own, bars, lines = of_the_thesis(self.decided), [], []
        for scale, key in (("thesis", "verdict"), ("compact", "compact")):
            found = {name: n for name, n in counts(own, scale).items() if n}
            title = _SCALE_TEXT[scale].partition(":")[0]
            said = {
                name: f"{n} {name if n == 1 else name.replace('does', 'do').replace('holds', 'hold')}"
                for name, n in found.items()
            }
            parts = [
                f'<a class="{name.replace(" ", "-")}" style="flex-grow:{n}" title="{said[name]}" '
                f'href="ledger.html#{escape(urlencode({key: name, "source": "thesis"}))}">'
                f"{n if n < len(own) / 20 else said[name]}</a>"  # where the name would not fit
                for name, n in found.items()
            ]
            bars.append(f'<p>{title.capitalize()}:</p><div class="verdicts">{"".join(parts)}</div>')
            lines.append(f"{title}: {', '.join(said.values())}")
        text = f"{len(own)} claims; {'; '.join(lines)}"
        return {"text/markdown": "".join(bars), "text/html": f"<p>{text}</p>", "text/plain": text}


def profiles_of(runs: Runs, scale: str) -> pd.DataFrame:
    """The gradient profiles that the figure draws: after the first 500 reviews, seen once."""
    points = runs.points("gradients")
    if points.empty:
        return points
    own = has(points, SCALES[scale] | {"epochs": 1, "size": 500})
    return points[own & points["model"].isin(MODELS)]


def provenance(runs: Runs) -> str:
    """Where the figure and the sentences come from, in a line."""
    scale = scale_shown(runs)
    profiles = profiles_of(runs, scale)
    keys = set(profiles["key"]) if len(profiles) else set()
    for setting in SETTINGS:
        keys |= {key for sample in accuracies(runs, scale, setting).values() for key in sample.keys}
    return f"{provenance_line(runs.of(keys)).rstrip('.')}; {_SCALE_TEXT[scale]}."


def draw_front(runs: Runs) -> Figure:
    """Left, why: the gradient over the positions of a text. Right, when: accuracies in both settings, also
    of the BiLSTM that starts with chrono where it was run in both.

    Dots are lines of no length: a marker takes far more bytes of a page.
    """
    scale = scale_shown(runs)
    profiles = profiles_of(runs, scale)
    plain, mid = (accuracies(runs, scale, setting) for setting in SETTINGS)
    if not plain or not mid or not gradients(runs, scale):
        return nothing_yet()
    figure, (left, right) = plt.subplots(1, 2, figsize=(5.7, 2.5), width_ratios=(1, 1.1))
    means = profiles.groupby(["model", "position"])["mean"].mean()
    for model in reversed(MODELS):
        left.plot(means[model].iloc[:: 3 if model == "last" else 9], color=COLOURS[model], lw=2)
    rows = {POOLING_NAMES[model]: (COLOURS[model], plain[model], mid[model]) for model in MODELS}
    new, hidden = (
        sample_of(runs, "accuracy", scale, model="chrono", size=SIZE, setting=s) for s in SETTINGS
    )
    if new and hidden:
        rows["BiLSTM, chrono"] = (COLOURS["last"], new, hidden)
    for place, (own, *samples) in enumerate(rows.values()):
        values = [sample.mean for sample in samples]
        right.plot(values, [place, place], color=own, lw=2)
        for value, width, colour in ((values[0], 9, own), (values[1], 9, own), (values[1], 5, "w")):
            right.plot([value] * 2, [place] * 2, color=colour, lw=width, solid_capstyle="round")
    beside = {"textcoords": "offset points", "va": "center"}
    left.annotate("BiLSTM", (62, means["last"].iloc[61]), xytext=(9, -4), **beside)
    highest = max(means[model].iloc[49] for model in POOLED)
    left.annotate("with pooling", (50, highest), xytext=(0, 9), ha="center", **beside)
    left.set(yscale="log", xlabel="position in the text, %", xlim=(1, 100), xticks=(1, 50, 100))
    left.set_yticks([1e-6, 1e-4, 1e-2], ["10⁻⁶", "10⁻⁴", "10⁻²"])
    left.set_ylabel("gradient norm ‖∂L/∂h‖")
    left.set_title("Why: gradients survive", loc="left", fontweight="bold")
    above = sample_of(runs, "above_chance", scale, model="last", size=SIZE, setting="mid")
    right.axvline(mid["last"].mean - (above.mean if above else 0.0), color=CHANCE_COLOUR, ls=":", lw=1.5)
    right.annotate(
        "chance", (right.lines[-1].get_xdata()[0], 4), xytext=(4, 0), color="#5c5c5c", **beside
    )
    right.annotate("in filler", (mid["last"].mean, 0), xytext=(7, -9), **beside)
    right.annotate("as it is", (plain["last"].mean, 0), xytext=(-7, -9), ha="right", **beside)
    right.set_yticks(range(len(rows)), list(rows))
    right.grid(False, axis="y")
    right.set(xlabel="test accuracy, %", ylim=(len(rows) - 0.4, -0.6))
    right.set_title("When: filler all around", loc="left", fontweight="bold")
    return figure
