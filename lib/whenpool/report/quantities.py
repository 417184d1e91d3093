"""The numbers that decide claims: each function gives one for every seed that has it.

They read runs of record alone, which `Evidence` holds. Names of models are poolings, and "low" is the
BiLSTM whose forget gates start low.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from whenpool.report.evidence import Evidence, PerSeed
from whenpool.report.importance import ends_and_middle, where_the_text_stands

if TYPE_CHECKING:
    from pandas import DataFrame

POOLED = ("mean", "max", "attention", "max_attention")
FAR_PLACES = {"middle": slice(49, 51), "ends": [0, 99]}


def early_level(evidence: Evidence, model: str, place: str) -> PerSeed:
    """Mean gradient norm at a place of the text, after the first 500 texts."""
    rows = evidence.rows("gradients", model, size=500, epochs=1)
    return {seed: _profile(part)[FAR_PLACES[place]].mean() for seed, part in rows.items()}


def early_middle_to_ends(
    evidence: Evidence, models: Sequence[str], choose: str = "min", relative_to: str | None = None
) -> PerSeed:
    """Gradient norm at the middle over that at the ends, after the first 500 texts."""

    def ratio(model: str) -> PerSeed:
        rows = evidence.rows("gradients", model, size=500, epochs=1)
        return {
            seed: _profile(part)[FAR_PLACES["middle"]].mean() / _profile(part)[FAR_PLACES["ends"]].mean()
            for seed, part in rows.items()
        }

    found = chosen([ratio(model) for model in models], choose)
    return _over(found, ratio(relative_to)) if relative_to else found


def ratio_at_95(evidence: Evidence, size: int, model: str, relative_to: Sequence[str] = ()) -> PerSeed:
    """The vanishing ratio where the training accuracy reaches 95 %, or that over the lowest of some
    other models."""

    def at_95(name: str) -> PerSeed:
        rows = evidence.rows("trace", name, size=size)
        return {s: part["ratio_at_95"].iloc[0] for s, part in rows.items() if _known(part)}

    own = at_95(model)
    return _over(own, chosen([at_95(other) for other in relative_to], "min")) if relative_to else own


def ratio_after(evidence: Evidence, size: int, model: str, examples: int) -> PerSeed:
    """The vanishing ratio when that many texts were learnt from: at the nearest measured moment."""
    rows = evidence.rows("trace", model, size=size)
    return {
        seed: part.loc[(part["examples"] - examples).abs().idxmin(), "ratio"]
        for seed, part in rows.items()
    }


def ratio_growth(evidence: Evidence, model: str, sizes: Sequence[int]) -> PerSeed:
    """The ratio at 95 % training accuracy with the second size over that with the first."""
    small, large = (ratio_at_95(evidence, size, model) for size in sizes)
    return _over(large, small)


def lowest_ratio(evidence: Evidence, size: int, models: Sequence[str]) -> PerSeed:
    """The lowest vanishing ratio of any of the models at any time of training."""
    lowest = [
        {seed: part["ratio"].min() for seed, part in evidence.rows("trace", name, size=size).items()}
        for name in models
    ]
    return chosen(lowest, "min")


def ratio_recovery(evidence: Evidence, size: int, model: str) -> PerSeed:
    """The vanishing ratio at the end of training over that before it."""
    rows = evidence.rows("trace", model, size=size)
    ordered = {seed: part.sort_values("examples")["ratio"] for seed, part in rows.items()}
    return {seed: ratios.iloc[-1] / ratios.iloc[0] for seed, ratios in ordered.items()}


def accuracy_gap(evidence: Evidence, size: int, setting: str, choose: str = "min") -> PerSeed:
    """Test accuracy of the poolings minus that of the BiLSTM."""
    bilstm = evidence.accuracies("last", size=size, setting=setting)
    pooled = [evidence.accuracies(name, size=size, setting=setting) for name in POOLED]
    return minus(chosen(pooled, choose), bilstm)


def sweep_drop(
    evidence: Evidence, size: int, model: str, added: str, share: float, masked: bool = True
) -> PerSeed:
    """Points lost with a share of filler, the text kept where ``added`` says; "worst": of the three."""
    if added == "worst":
        drops = [sweep_drop(evidence, size, model, s, share, masked) for s in ("left", "mid", "right")]
        return chosen(drops, "max")
    none, some = (_swept(evidence, size, model, added, part, masked) for part in (0.0, share))
    return minus(none, some)


def sweep_asymmetry(
    evidence: Evidence, size: int, model: str, share: float, masked: bool = True
) -> PerSeed:
    """Accuracy with the text kept on the left minus that with it on the right."""
    left, right = (_swept(evidence, size, model, s, share, masked) for s in ("left", "right"))
    return minus(left, right)


def asymmetry_by_padding(evidence: Evidence, size: int, model: str, share: float) -> PerSeed:
    """The asymmetry of a model that padding was let into minus that of a masked one."""
    let_in, masked = (sweep_asymmetry(evidence, size, model, share, m) for m in (False, True))
    return minus(let_in, masked)


def trained_asymmetry_by_padding(evidence: Evidence, size: int, model: str) -> PerSeed:
    """Test accuracy in "left" minus "right", with padding let in minus masked."""

    def asymmetry(masked: bool) -> PerSeed:
        left, right = (
            evidence.accuracies(model, size=size, setting=setting, masked=masked)
            for setting in ("left", "right")
        )
        return minus(left, right)

    return minus(asymmetry(False), asymmetry(True))


def both_ends_against_one(evidence: Evidence, size: int, model: str, share: float) -> PerSeed:
    """Accuracy with filler on the worse single end minus that with it on both."""
    one = [_swept(evidence, size, model, added, share, True) for added in ("left", "right")]
    return minus(chosen(one, "min"), _swept(evidence, size, model, "mid", share, True))


def sweep_advantage(
    evidence: Evidence,
    size: int,
    models: Sequence[str],
    added: str,
    share: float,
    against: str = "last",
) -> PerSeed:
    """Points that the weakest of some models loses less than another."""
    worst = chosen([sweep_drop(evidence, size, name, added, share) for name in models], "max")
    return minus(sweep_drop(evidence, size, against, added, share), worst)


def importance_ends_to_middle(
    evidence: Evidence,
    size: int,
    setting: str,
    models: Sequence[str],
    choose: str = "min",
    corpus: str = "imdb",
    length: str = "long",
) -> PerSeed:
    """Mean NWI of both outer tenths over that of the middle fifth."""

    def ratio(model: str) -> PerSeed:
        wanted = {"size": size, "setting": setting, "corpus": corpus, "length": length}
        rows = evidence.rows("nwi", model, **wanted)
        found = {seed: ends_and_middle(_profile(part)) for seed, part in rows.items()}
        return {seed: ends / middle for seed, (ends, middle) in found.items()}

    return chosen([ratio(model) for model in models], choose)


def importance_text_to_filler(
    evidence: Evidence, size: int, setting: str, models: Sequence[str], choose: str = "min"
) -> PerSeed:
    """Mean NWI where the text stands over that where the filler stands."""

    def ratio(model: str) -> PerSeed:
        found = {}
        for seed, part in evidence.rows("nwi", model, size=size, setting=setting).items():
            profile = _profile(part)
            inside = where_the_text_stands(setting, part["share"].iloc[0], len(profile))
            found[seed] = profile[inside].mean() / profile[~inside].mean()
        return found

    return chosen([ratio(model) for model in models], choose)


_BY_EVIDENCE: dict[str, tuple[Callable[..., PerSeed], ...]] = {
    "gradients": (early_level, early_middle_to_ends),
    "trace": (ratio_at_95, ratio_after, ratio_growth, lowest_ratio, ratio_recovery),
    "sweep": (
        sweep_drop, sweep_asymmetry, asymmetry_by_padding, both_ends_against_one, sweep_advantage,
    ),
    "nwi": (importance_ends_to_middle, importance_text_to_filler),
    "trainings": (accuracy_gap, trained_asymmetry_by_padding),
}  # fmt: skip
QUANTITIES = {f.__name__: f for functions in _BY_EVIDENCE.values() for f in functions}
"""Those of chapter 1; see `whenpool.report.claims` for all."""
READS = {f.__name__: kind for kind, functions in _BY_EVIDENCE.items() for f in functions}
"""What each is measured on: a kind of probe, or trainings."""


def _swept(evidence: Evidence, size: int, model: str, added: str, share: float, masked: bool) -> PerSeed:
    found = {}
    for seed, part in evidence.rows("sweep", model, size=size, masked=masked).items():
        row = part[(part["setting_added"] == added) & ((part["share_added"] - share).abs() < 1e-9)]
        if len(row):
            found[seed] = float(row["accuracy"].iloc[0])
    return found


def _profile(rows: "DataFrame") -> Any:
    return rows.sort_values("position")["mean"].to_numpy()


def _known(rows: "DataFrame") -> bool:
    return "ratio_at_95" in rows and bool(rows["ratio_at_95"].notna().iloc[0])


def chosen(parts: Sequence[PerSeed], choose: str) -> PerSeed:
    """The smallest or largest of several numbers, for each seed that has all of them."""
    pick = {"min": min, "max": max}[choose]
    seeds = set.intersection(*(set(part) for part in parts))
    return {seed: pick(part[seed] for part in parts) for seed in sorted(seeds)}


def minus(first: PerSeed, second: PerSeed) -> PerSeed:
    """The difference, for each seed that both have."""
    return {seed: first[seed] - second[seed] for seed in first if seed in second}


def _over(first: PerSeed, second: PerSeed) -> PerSeed:
    return {seed: first[seed] / second[seed] for seed in first if seed in second}
