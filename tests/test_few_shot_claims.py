"""What few-shot runs decide: the claims on Table 1.9, and what MiniLM indicates."""

import csv

import pandas as pd
import pytest
from test_few_shot_reports import PAPER, THESIS, invented, seeds, table

from whenpool.few_shot_run import CONTRAST, SYSTEMS
from whenpool.probing import PROBES
from whenpool.report import few_shot_quantities
from whenpool.report.claims import READS, claims, claims_table, decide
from whenpool.report.evidence import Evidence
from whenpool.report.gathering import evidence_of, few_shot_evidence
from whenpool.report.provenance import provenance_line

LEDGER = {claim.id: claim for claim in claims() if claim.chapter == "few_shot"}
TEN_CLASSES = {"corpus": "yahoo", "unlabelled": 50_000, "result": {"classes": 10}}
ACCURACIES = {  # of three seeds
    "vampire": (52.0, 60.0, 50.0),
    "bert": (60.0, 62.0, 55.0),
    "tmix": (61.0, 58.0, 56.0),
    "max_attention": (66.0, 68.0, 62.0),
    "uda": (70.0, 71.0, 60.0),
    "mixtext": (72.0, 69.0, 68.0),
}
EXAMPLES = [
    ({"systems": ["max_attention"], "over": ["vampire", "bert", "tmix"]}, {0: 5.0, 1: 6.0, 2: 6.0}),
    ({"systems": ["max_attention"], "over": ["uda", "mixtext"]}, {0: -6.0, 1: -3.0, 2: -6.0}),
    ({"systems": ["uda", "mixtext"], "over": ["bert", "max_attention"]}, {0: 4.0, 1: 1.0, 2: -2.0}),
    ({"systems": ["vampire"], "over": ["bert", "tmix"], "against": "lowest"},
     {0: -8.0, 1: 2.0, 2: -5.0}),
    ({"systems": ["max_attention"], "over": ["last_words"]}, {}),
]  # fmt: skip


def of_all(off=0.0, **changes):
    return [
        row
        for system, values in ACCURACIES.items()
        for row in seeds(system, [value + off for value in values], **changes)
    ]


def decoys(**changes):
    """What no number may come from."""
    rows = []
    for system in (*SYSTEMS, *CONTRAST):
        for other in (
            {"per_class": 30},
            {"length": "long"},
            {"corpus": "yelp"},
            {"encoder": "some/other"},
        ):
            if system not in ("vampire", *CONTRAST) or "encoder" not in other:
                rows += seeds(system, [1.0] * 3, **changes | other)
        rows += seeds(system, [2.0] * 3, **changes, result={"corpus_complete": False})
    return rows


def evidence(place, rows):
    nothing = pd.DataFrame()
    return evidence_of(place.store, nothing, nothing, table(*rows))


def gain(evidence, corpus="imdb", **arguments):
    return few_shot_quantities.few_shot_gain(evidence, corpus=corpus, **arguments)


@pytest.mark.parametrize(("arguments", "expected"), EXAMPLES, ids=str)
def test_a_quantity_is_what_was_computed_by_hand(place, arguments, expected):
    runs = evidence(place, of_all(**THESIS) + decoys(**THESIS))
    assert gain(runs, **arguments) == pytest.approx(expected)
    assert gain(runs, "yahoo", **arguments) == {}
    minilm = few_shot_evidence(table(*of_all(), *decoys()))
    assert gain(minilm, **arguments) == pytest.approx(expected)


@pytest.mark.parametrize(("arguments", "expected"), EXAMPLES, ids=str)
def test_minilm_decides_nothing_and_bert_indicates_nothing(place, arguments, expected):
    own = {**arguments, "systems": ["bert"], "over": ["tmix"]}
    rows = of_all()
    assert gain(evidence(place, rows), **own) == {}
    assert gain(few_shot_evidence(table(*of_all(**THESIS))), **own) == {}
    assert len(gain(few_shot_evidence(table(*rows)), **own)) == 3


def test_a_seed_that_one_system_lacks_has_no_number(place):
    rows = [row for row in of_all(**THESIS) if (row["system"], row["seed"]) != ("tmix", 1)]
    found = gain(evidence(place, rows), systems=["max_attention"], over=["vampire", "bert", "tmix"])
    assert found == {0: 5.0, 2: 6.0}


def test_numbers_come_in_the_order_of_the_seeds(place):
    found = gain(evidence(place, of_all(**THESIS)[::-1]), systems=["uda"], over=["bert"])
    assert list(found) == [0, 1, 2]


def test_without_runs_there_is_no_number(place):
    nothing = [evidence_of(place.store, pd.DataFrame(), pd.DataFrame())]
    nothing += [evidence_of(place.store, pd.DataFrame(), pd.DataFrame(), place.store.few_shots())]
    nothing += [few_shot_evidence(place.store.few_shots())]
    nothing += [Evidence(pd.DataFrame(), dict.fromkeys(PROBES, pd.DataFrame()))]
    for found in nothing:
        assert {decide(claim, found).verdict for claim in LEDGER.values()} == {"not run"}


def test_every_claim_is_decided_by_runs_with_the_thesiss_encoder(place):
    rows = of_all(**THESIS) + of_all(5.0, **THESIS | TEN_CLASSES) + decoys(**THESIS)
    decided = {name: decide(claim, evidence(place, rows)) for name, claim in LEDGER.items()}
    verdicts = {name: decision.verdict for name, decision in decided.items()}
    per_corpus = {
        "max-attention-best-without-unlabelled": "holds",
        "max-attention-five-points-ahead": "undecided",  # 5 is not over 5
        "max-attention-competitive": "undecided",
        "vampire-is-lowest": "undecided",
    }
    expected = {f"{name}-{corpus}": v for name, v in per_corpus.items() for corpus in ("imdb", "yahoo")}
    assert verdicts == expected | {"unlabelled-texts-help-imdb": "undecided"}
    assert decided["max-attention-competitive-yahoo"].measured == "-6, -3, -6"


def test_the_last_column_is_what_minilm_says():
    minilm = few_shot_evidence(table(*of_all(), *seeds("bert", [60.0], corpus="yahoo",
                                                       result={"corpus_complete": False})))  # fmt: skip
    nothing = Evidence(pd.DataFrame(), dict.fromkeys(PROBES, pd.DataFrame()))
    decided = [decide(claim, nothing) for claim in LEDGER.values()]
    indicated = [decide(claim, minilm) for claim in LEDGER.values()]
    frame = claims_table(decided, indicated, "MiniLM, IMDb")
    column = dict(zip(LEDGER, frame["MiniLM, IMDb"], strict=True))
    assert column["max-attention-five-points-ahead-imdb"] == "5, 6, 6 (obeyed by 2 of 3)"
    assert all(text == "" for name, text in column.items() if name.endswith("yahoo"))
    assert set(frame["verdict"]) == {"**not run**"}


def test_the_thesis_obeys_its_own_claims():
    """Its numbers as if they were runs: every rule holds."""
    with open(PAPER, newline="") as file:
        numbers = list(csv.DictReader(file))
    rows = [
        invented(row["model"], float(row["accuracy"]), seed=seed, **THESIS
                 | (TEN_CLASSES if row["corpus"] == "yahoo" else {}))
        for row in numbers for seed in range(3)
    ]  # fmt: skip
    nothing = pd.DataFrame()
    found = evidence_of(_NoStore(), nothing, nothing, table(*rows))
    assert {name: decide(claim, found).verdict for name, claim in LEDGER.items()} == dict.fromkeys(
        LEDGER, "holds"
    )


class _NoStore:
    """A store that holds nothing."""

    def measured_on(self, probes, kind):
        return pd.DataFrame()

    def histories(self):
        return pd.DataFrame()


def test_claims_name_systems_that_there_are_and_read_few_shot_runs():
    assert {READS[claim.quantity] for claim in LEDGER.values()} == {"few_shots"}
    for claim in LEDGER.values():
        assert {*claim.arguments["systems"], *claim.arguments["over"]} <= set(SYSTEMS)
        assert not {*claim.arguments["systems"]} & {*claim.arguments["over"]}
        assert claim.arguments["corpus"] in ("imdb", "yahoo")


def test_the_runs_behind_the_verdicts_have_a_line_of_provenance(place):
    runs = evidence(place, of_all(**THESIS)).few_shots
    assert provenance_line(runs).startswith(
        "Provenance: 18 runs; corpus imdb; 20 training texts; encoder bert-base-uncased; cpu;"
    )
