"""The front page: the numbers of its sentences and its figure, at the thesis's scale once three seeds of all
five models are there, before in the compact replication."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from whenpool.base.paths import project_root
from whenpool.book.report import few_shot
from whenpool.book.report.claims import SEEDS_NEEDED, Decision, Sample, sample_of
from whenpool.book.report.figures import CHANCE_COLOUR, nothing_yet
from whenpool.book.report.ledger import SCALE_NAMES, counts, lacking, of_the_thesis
from whenpool.book.report.measures import SCALES, Runs
from whenpool.book.report.probes import STARTS
from whenpool.book.report.tables import provenance_line
from whenpool.book.report.verdicts import has
from whenpool.models.registry import COLOURS, POOLING_NAMES, THESIS_POOLINGS

SIZE = 1_000  # Training texts of the accuracies
MODELS, POOLED = THESIS_POOLINGS, THESIS_POOLINGS[1:]
SETTINGS = ("standard", "mid")
_SCALE_TEXT = {
    "thesis": "at the thesis's scale: 256 units, 20 epochs, whole reviews",
    "compact": "in the compact replication: 64 units, 8 epochs, reviews cut at 140 words",
}


def shown(runs: Runs) -> tuple[str, list[dict[str, Sample]]]:
    """The scale that the page shows, the thesis's once three seeds of all models are there; and of each
    model the logarithm of its gradient in the middle over that at the ends, and both test accuracies."""
    measures: list[tuple[str, dict[str, Any]]] = [("early_middle_to_ends", {})]
    measures += [("accuracy", {"size": SIZE, "setting": setting}) for setting in SETTINGS]
    for scale in SCALES:
        found = []
        for measure, more in measures:
            samples = {model: sample_of(runs, measure, scale, model=model, **more) for model in MODELS}
            known = {model: sample for model, sample in samples.items() if sample}
            found.append(known if len(known) == len(MODELS) else {})
        if all(own and min(one.n for one in own.values()) >= SEEDS_NEEDED for own in found):
            break
    return scale, found


def times_smaller(ratio: float) -> str:
    """How many times smaller than one, as one says it: "37 million", "1.3 million", "1,000"; "?" for NaN."""
    times = float(f"{1 / ratio:.2g}")
    if times >= 1e6:
        return f"{times / 1e6:g} million"
    return "?" if math.isnan(times) else f"{times:,.0f}"


def facts(runs: Runs) -> dict[str, str]:
    """The numbers that the text of the page names; "?" for what was not run."""

    def text(value: float, digits: int = 0) -> str:
        return "?" if math.isnan(value) else f"{value:,.{digits}f}"

    scale, found_there = shown(runs)
    reaching, *reached = [
        {name: own[name].mean if own else math.nan for name in MODELS} for own in found_there
    ]
    found = {
        "gradient_last": times_smaller(math.exp(reaching["last"])),
        "gradient_pooled": text(100 * math.exp(min(reaching[name] for name in POOLED))),
    }
    for setting, own in zip(SETTINGS, reached, strict=True):
        pooled = [own[name] for name in POOLED]
        values = {
            "last": own["last"], "weakest": min(pooled), "best": max(pooled),
            "gain": min(pooled) - own["last"], "max_attention": own["max_attention"],
        }  # fmt: skip
        found |= {f"{setting}_{name}": text(value) for name, value in values.items()}

    def mean(model: str, scale: str = scale, size: int = SIZE, **asked: Any) -> float:
        sample = sample_of(runs, "accuracy", scale, size=size, model=model, **asked)
        return sample.mean if sample else math.nan

    gains: dict[str, tuple[str, int, int]] = {
        "compact_gain_1k": ("compact", SIZE, 0), "compact_gain_10k": ("compact", 10_000, 0),
        "gain_10k": (scale, 10_000, 1),
    }  # fmt: skip
    for name, (at, size, digits) in gains.items():
        last, *pooled = (mean(model, at, size) for model in MODELS)
        found[name] = text(float(np.max(pooled)) - last, digits)  # "?" where one is missing
    pooled = [mean(model, "compact", corpus="amazon", setting="mid") for model in POOLED]
    found["compact_amazon"] = f"{text(min(pooled))} to {text(max(pooled))}"
    found |= {f"{setting}_chrono": text(mean(model="chrono", setting=setting)) for setting in SETTINGS}
    found["padding_cost"] = text(mean(model="last") - mean(model="last", masked=False))
    few = few_shot.on_record(runs.select("few-shot", corpus="imdb"))
    means = few[few["per_class"] == few_shot.PER_CLASS].groupby("system")["test_accuracy"].mean()
    found |= {f"few_{name}": text(means.get(name, math.nan)) for name in ("max_attention", "vampire")}
    return found | {"scale": _SCALE_TEXT[scale]}


@dataclass(frozen=True)
class VerdictBars:
    """A bar for each scale: how many claims of the thesis have which verdict, each part a link to them."""

    decided: Sequence[Decision]

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        own, bars, lines = of_the_thesis(self.decided), [], []
        for scale, key in (("thesis", "verdict"), ("compact", "compact")):
            found = {name: n for name, n in counts(own, scale).items() if n}
            title = _SCALE_TEXT[scale].partition(":")[0]
            plural = {name: name.replace("does", "do").replace("holds", "hold") for name in found}
            said = {name: f"{n} {name if n == 1 else plural[name]}" for name, n in found.items()}
            parts = [
                f'<a class="{name.replace(" ", "-")}" style="flex-grow:{n}" title="{said[name]}" '
                f'href="ledger.html#{escape(urlencode({key: name, "source": "thesis"}))}">'
                f"{n if n < len(own) / 20 else said[name]}</a>"  # where the name would not fit
                for name, n in found.items()
            ]
            testable = f"{sum(found.values())} of the {len(own)} claims can be tested {title}:"
            bars.append(f'<p>{testable}</p><div class="verdicts">{"".join(parts)}</div>')
            lines.append(f"{title}: {', '.join(said.values())}")
        text = f"{len(own)} claims; {'; '.join(lines)}"
        bars.append(
            '<div class="legend">Green: the claim holds. Orange: it does not. Yellow: undecided. '
            f"Grey: not run (for lack of data: {lacking(own)}). "
            "Hatched: fewer than three seeds. Some claims are about one scale alone.</div>"
        )
        return {"text/markdown": "".join(bars), "text/html": f"<p>{text}</p>", "text/plain": text}


def bag_of_words(scale: str, size: int, setting: str) -> float:
    """The test accuracy, in %, of TF-IDF with logistic regression on the texts of IMDb's runs."""
    file = (project_root() or Path()) / "data" / "results" / "bag_of_words.csv"
    rows = pd.read_csv(file)
    found = rows[has(rows, {"scale": scale, "size": size, "setting": setting})]["test_accuracy"]
    return float(found.iloc[0])


def profiles_of(runs: Runs, scale: str) -> pd.DataFrame:
    """The gradient profiles that the figure draws: after the first 500 reviews, seen once."""
    return runs.select("gradients", scale, epochs=1, size=500, model=list(MODELS))


def provenance(runs: Runs) -> str:
    """Where the first figure and the sentences on it come from, in a line."""
    scale, (_, *accuracies) = shown(runs)
    keys = {key for own in accuracies for sample in own.values() for key in sample.keys}
    keys |= {*profiles_of(runs, scale)["key"]}
    return f"{provenance_line(runs.of(keys), of=' of the first figure')[:-1]}; {_SCALE_TEXT[scale]}."


def draw_front(runs: Runs) -> Figure:
    """Left, why: the gradient over the positions of a text. Right, when: accuracies in both settings. Dots
    are lines of no length: a marker takes far more bytes of a page."""
    scale, (reaching, plain, mid) = shown(runs)
    profiles = profiles_of(runs, scale)
    if not (reaching and plain and mid):
        return nothing_yet()
    figure, (left, right) = plt.subplots(1, 2, figsize=(5.7, 2.5), width_ratios=(1, 1.1))
    logs = profiles.assign(log=np.log(profiles["mean"])).groupby(["model", "position"])["log"]
    means = np.exp(logs.mean())  # geometric means over seeds, as in the text
    for model in reversed(MODELS):
        left.plot(means[model].iloc[:: 3 if model == "last" else 9], color=COLOURS[model], lw=2)
    rows = {
        POOLING_NAMES[model]: (COLOURS[model], plain[model].mean, mid[model].mean) for model in MODELS
    }
    new, hidden = (
        sample_of(runs, "accuracy", scale, model="chrono", size=SIZE, setting=s) for s in SETTINGS
    )
    if new and hidden:
        rows[STARTS["chrono"]] = (COLOURS["last"], new.mean, hidden.mean)
    bag = [bag_of_words(scale, SIZE, setting) for setting in SETTINGS]
    rows["bag of words"] = (CHANCE_COLOUR, bag[0], bag[1])
    for place, (own, *values) in enumerate(rows.values()):
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
    right.annotate("plain", (plain["last"].mean, 0), xytext=(-7, -9), ha="right", **beside)
    right.set_yticks(range(len(rows)), list(rows))
    right.grid(False, axis="y")
    right.set(xlabel="test accuracy, %", ylim=(len(rows) - 0.4, -0.6))
    right.set_title("When: filler all around", loc="left", fontweight="bold")
    return figure


BADGES = {
    "why": "pooled-gradients-are-flat",
    "when": "every-pooling-learns-the-middle-1k",
    "standard": "test-gap-with-1k",
    "chrono": "chrono-matches-max-attention",
    "which": "max-attention-best-in-the-middle-1k",
    "padding": "padding-makes-the-chain-dominate",
    "labels": "max-attention-best-without-unlabelled-imdb",
}
"""For each finding of the page the claim that it rests on."""


@dataclass(frozen=True)
class Badge:
    """The scale and the number of seeds that a claim was tested with, a link to its row of the ledger."""

    decision: Decision
    scale: str

    def __str__(self) -> str:
        found = self.decision.at.get(self.scale)
        few = self.decision.claim.chapter == "few_shot" and self.scale == "compact"
        scale = "MiniLM" if few else SCALE_NAMES[self.scale]  # Such runs are small by their encoder
        return f"{scale}, {found.n} seed{'s' * (found.n > 1)}" if found and found.n else "not run yet"

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        claim = self.decision.claim
        link = (
            f'<a class="evidence" href="ledger.html#claim-{claim.id}" title="{escape(claim.statement)}">'
        )
        return {"text/html": f"{link}{self}</a>", "text/plain": str(self)}


def badges(runs: Runs, decided: Sequence[Decision]) -> dict[str, Badge]:
    """A badge for each finding of the page, by the name that its text glues."""
    by_id, scale = {decision.claim.id: decision for decision in decided}, shown(runs)[0]
    at = {finding: "compact" if finding == "labels" else scale for finding in BADGES}
    return {f"badge_{name}": Badge(by_id[claim], at[name]) for name, claim in BADGES.items()}
