"""Sequence labelling: what the chapter runs and measures."""

from collections.abc import Iterable
from itertools import product

from pandas import DataFrame

from paper.chapters.shared import Measure
from paper.corpora.tagged import GENERATED, PUBLISHED, find_tagged, is_tagged
from paper.runs.kinds import Tagging
from paper.runs.plans import FEWER_SEEDS, TABLES, Options, Study
from paper.verdicts.results import Runs, has
from whenpool.corpora.tokens import VECTORS, find_vectors
from whenpool.models.registry import LISTED_CELLS

SMALL_TAGGERS: dict[str, Options] = TABLES["small_taggers"]


def plan(study: Study) -> Iterable[Tagging]:
    """Both directions against one, letters, and another encoding of entities. Beside corpora of
    labelled texts, which have no tags and are asked of other chapters, this one has its own."""
    request = study.request
    whole = request.is_whole and request.corpora is None
    usual = tuple(PUBLISHED) if whole else (GENERATED,)
    cell = LISTED_CELLS[request.cell or Tagging.cell]
    if cell.adds or not cell.recurrent:  # no tagger has such a cell
        return
    fields = {"cell": request.cell, "layers": request.layers}
    named = {name: value for name, value in fields.items() if value}
    for corpus in tuple(filter(is_tagged, request.corpora or ())) or usual:
        name = corpus.partition(":")[0]
        variants: list[Options] = [{}, {"bidirectional": False}, {"filters": 50}]
        if name == "wnut17":
            variants.append({"encoding": "io"})
        options = TABLES["brief_taggers"]
        if name in PUBLISHED:
            options = SMALL_TAGGERS[name] | {"vectors": study.vectors}
            if study.paper:
                options |= {"hidden_size": 256, "layers": 2, "epochs": 20}
        elif name != GENERATED:
            find_tagged(corpus, study.place.data)  # raises for what is no file
            options = {"vectors": find_vectors(study.place.data)}
        seeds = 2 if name == GENERATED else FEWER_SEEDS
        for seed, variant in product(study.seeds(seeds, seeds), variants):
            yield Tagging(corpus, seed=seed, **(options | named | variant))


def taggers(runs: Runs) -> DataFrame:
    """Taggers of one layer, trained for as many epochs as the compact settings of their corpus
    say."""
    rows = runs.table("tagging")
    epochs = {name: options["epochs"] for name, options in SMALL_TAGGERS.items()}
    usual = rows["epochs"].eq(rows["corpus"].map(epochs))
    usual &= has(rows, {"layers": 1, "filters": [None, 0]})
    return rows[usual].assign(
        boundary_share=100 * rows["entities_boundary"] / rows["entities_predicted"],
        accuracy_above_f1=rows["test_accuracy"] - rows["entity_f1"],
        encoding=rows["encoding"].astype(object).fillna("own"),
    )


_FIXED: Options = {"bidirectional": True, "encoding": "own", "cell": "lstm", "vectors": VECTORS[0]}
_FIXED["hidden_size"] = Tagging.hidden_size
MEASURES = {
    f"tagging_{name}": Measure(taggers, name, fixed={"compact": _FIXED})
    for name in (
        "test_accuracy",
        "entity_f1",
        "boundary_share",
        "accuracy_above_f1",
        "gradient_evenness",
        "gradient_reach",
    )
}
