"""The table of the chapter on theory, on small networks."""

from whenpool.book.report import theory
from whenpool.theory import comparison


def test_the_table_has_a_row_for_each_model_in_order():
    frame = comparison.factors_by_size((4, 6), 3, 1, 4, input_size=3)
    table = theory.factor_table(frame, 6)
    assert list(table["model"]) == list(comparison.MODELS)
    own = frame[(frame["model"] == "GRU") & (frame["hidden_size"] == 6)]
    measured = own[own["kind"] == "measured"]["factor"]
    row = table.set_index("model").loc["GRU"]
    assert row["measured"] == f"{measured.mean():.3f} ± {measured.std():.3f} (3)"
    assert row["expected"] == f"{own[own['kind'] == 'expected']['factor'].item():.3f}"
    assert row["independent steps"] == f"{own[own['kind'] == 'independent']['factor'].item():.3f}"
