"""Advice on which pooling to take, each tied to claims and their verdicts: ``data/paper/advice.yml``."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from whenpool.base.errors import check, check_known
from whenpool.base.paths import project_root
from whenpool.book.report.claims import claims, decide, entries_of
from whenpool.book.report.few_shot import NAMES
from whenpool.book.report.measures import Runs
from whenpool.book.report.verdicts import paper_file
from whenpool.fewshot.pretrained import MINILM
from whenpool.runs.kinds.few_shot import READ_BY_ENCODER, FewShot
from whenpool.runs.run import Place

WHERE = ("unknown", "everywhere", "start", "middle", "end")
"""Where in a text the words stand that decide its label."""


@dataclass(frozen=True)
class Advice:
    """One advice of the file, and how far our runs support it."""

    id: str
    text: str  # what to do, in whole sentences
    claims: tuple[str, ...]  # ids of those that it rests on
    verdicts: tuple[str, ...] = ()  # on each of them, see `with_verdicts`
    topic: str = ""  # its heading
    when: str = ""  # the case that it is for
    words: tuple[float, float] | None = None  # from and up to how many a text has
    texts: tuple[float, float] | None = None  # likewise labelled texts
    where: tuple[str, ...] = ()  # a part of `WHERE`; empty: wherever
    beside: str = ""  # "few_shot": the text ends with what our own runs with few labels found

    @property
    def general(self) -> bool:
        """Whether it is for no particular texts."""
        return self.words is self.texts is None and not self.where

    def fits(self, words: float, texts: int, where: str) -> bool:
        """Whether it is for such texts."""
        spans = ((self.words, int(words)), (self.texts, texts))
        within = all(span is None or span[0] <= value <= span[1] for span, value in spans)
        return not self.general and within and (not self.where or where in self.where)


def advice_for(words: float, texts: int, where: str = "unknown") -> list[Advice]:
    """What the book advises for texts of so many ``words`` (mean or median), of which so many ``texts`` are
    labelled, but for what our runs contradict; ``where`` is one of `WHERE`. Nothing outside a clone."""
    check_known("place of the evidence", where, WHERE)
    check(words >= 0 and texts >= 0, f"words and texts must be at least 0, not {words} and {texts}")
    if project_root() is None:
        return []
    fitting = [entry for entry in entries() if entry.fits(words, texts, where)]
    found = with_verdicts(fitting, Runs(Place.default()))
    return [advice for advice in found if support(advice) != "contradicted"]


def with_verdicts(chosen: Sequence[Advice], runs: Runs) -> list[Advice]:
    """Some advice with the verdicts on its claims, at the thesis's scale where they were run there."""
    wanted = {name for entry in chosen for name in entry.claims}
    verdicts = {claim.id: decide(claim, runs).told for claim in claims() if claim.id in wanted}
    found = []
    for each in chosen:
        text = each.text + (_rank_with_few_labels(runs) if each.beside else "")
        found.append(replace(each, text=text, verdicts=tuple(verdicts[name] for name in each.claims)))
    return found


def _rank_with_few_labels(runs: Runs) -> str:
    """The place of max-attention in our own runs with few labels; nothing where it is the best or not run."""
    rows = runs.select("few-shot", corpus="imdb", length="any", per_class=FewShot.per_class)
    own = rows["encoder"].isna() | (rows["encoder"] == MINILM) | ~rows["system"].isin(READ_BY_ENCODER)
    ranked = rows[own].groupby("system")["test_accuracy"].mean().sort_values(ascending=False)
    if "max_attention" not in ranked.index[1:]:
        return ""
    place = list(ranked.index).index("max_attention") + 1
    return (
        f" In our own runs with {FewShot.per_class} labelled IMDb reviews of each class, "
        f"{NAMES[str(ranked.index[0])]} reaches {ranked.iloc[0]:.0f} % and max-attention on the frozen "
        f"encoder MiniLM {ranked['max_attention']:.0f} %, place {place} of {len(ranked)}."
    )


def support(advice: Advice) -> str:
    """How far our runs support an advice; they contradict it where a claim fails and none holds."""
    full = [verdict.removesuffix(" (compact)") for verdict in advice.verdicts]
    bare = [verdict.removeprefix("so far ") for verdict in full]
    if all(verdict == "holds" for verdict in bare):
        return "supported" if bare == full else "supported so far"
    if "holds" in bare:
        return "supported in part"
    if "does not hold" in bare:
        return "contradicted"
    return "undecided" if "undecided" in bare else "untested"


def entries(file: Path | None = None) -> list[Advice]:
    """All advice there is. Raises `InputError` outside a clone, or for an incomplete entry, named."""
    known = {"claims": {claim.id for claim in claims()}, "where": set(WHERE)}

    def advice(entry: dict[str, Any]) -> Advice:
        values = entry | {name: tuple(entry.get(name, ())) for name in ("claims", "where")}
        for name in {"words", "texts"} & set(entry):
            least, most = entry[name]
            values[name] = (least, float("inf") if most is None else most)
        if not values["claims"]:
            raise ValueError("it has no claim; name one of data/paper/claims.yml")
        for kind, names in known.items():
            for name in set(values[kind]) - names:
                choices = f"a claim of data/paper/claims.yml nor one of {', '.join(WHERE)}"
                raise ValueError(f"it names {name!r}, which is neither {choices}")
        return Advice(**values)

    return entries_of(file or paper_file("advice.yml", "the advice is"), "advice", "advice", advice)
