"""Running many runs on processes of this machine, undisturbed and disturbed."""

from dataclasses import replace

import pytest

from whenpool import InputError
from whenpool.runs.engine import Workforce, run_all
from whenpool.runs.engine.local import LocalPool
from whenpool.runs.engine.tasks import Job
from whenpool.runs.kinds.training import Training
from whenpool.runs.run import Place, key
from whenpool.runs.store import Store

SMALL = Training(
    "synthetic:train=60,validation=20,test=30,shortest=10,longest=14", "standard", 30, "max",
    length="any", embedding_size=8, hidden_size=6, epochs=2,
)  # fmt: skip
GRID = [
    replace(SMALL, pooling=pooling, setting=setting, seed=seed)
    for pooling in ("last", "max_attention")
    for setting in ("standard", "mid")
    for seed in (0, 1)
]


def results(store):
    """What must not depend on how the runs were made."""
    table = store.rows("training").set_index("key").sort_index()
    return table[["test_accuracy", "test_loss", "validation_accuracy", "best_epoch"]].to_dict("index")


def fresh(place, name):
    return Place(Store(place.store.directory.with_name(name)), place.data, place.cache)


def test_runs_are_stored_and_not_run_twice(place):
    report = run_all(GRID, place, Workforce(workers=2))
    assert (report.done, report.failed) == (len(GRID), {})
    assert place.store.keys() == {key(run, place) for run in GRID}
    files = {file: file.stat().st_mtime_ns for file in place.store.directory.glob("*.json")}
    assert run_all(GRID, place, Workforce(workers=2)).done == 0
    assert {file: file.stat().st_mtime_ns for file in files} == files


def test_results_do_not_depend_on_the_number_of_workers(place):
    one, two = fresh(place, "one"), fresh(place, "two")
    run_all(GRID, one, Workforce(workers=1))
    run_all(GRID[::-1], two, Workforce(workers=2))
    assert results(one.store) == results(two.store)


def test_weights_are_kept_for_the_runs_that_name_them(place):
    import safetensors.torch

    run_all(GRID[:2], place, Workforce(workers=1))
    wanted = GRID[0]
    assert (
        run_all(GRID[:2], place, Workforce(workers=1), keep_weights=lambda run: run == wanted).done == 1
    )
    weights = safetensors.torch.load_file(place.store.weights_file(key(wanted, place)))
    assert weights["encoder.layers.0.0.weight_hh_l0"].shape == (24, 6)
    assert not place.store.weights_file(key(GRID[1], place)).exists()


def test_a_run_that_fails_is_reported_and_the_others_go_on(place):
    bad = replace(SMALL, size=1000)
    diverging = replace(SMALL, learning_rate=3e38)
    report = run_all([bad, SMALL, diverging], place, Workforce(workers=2))
    assert report.done == 1
    assert report.failed[bad] == "the corpus has 60 train texts, 1,000 were asked for; choose fewer"
    assert "the loss became" in report.failed[diverging]
    assert place.store.failures()[key(bad, place)] == report.failed[bad]


def test_missing_cuda_is_named(place):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(InputError, match="device cuda was asked for, but torch sees no GPU"):
        run_all([SMALL], place, Workforce(device="cuda"))
    with pytest.raises(InputError, match="device 'tpu' is unknown; choose cpu or cuda"):
        run_all([SMALL], place, Workforce(device="tpu"))


def test_vectors_of_another_width_are_named(place):
    (place.data / "glove.6B.100d.txt").write_text("the 1 2 3\nof 4 5 6\n")
    report = run_all([replace(SMALL, vectors="glove.6B.100d")], place, Workforce(workers=1))
    assert "have 3 numbers, the model's embedding 8" in next(iter(report.failed.values()))
    with pytest.raises(InputError, match=r"word vectors nowhere.txt are not in .*fetch glove"):
        run_all([replace(SMALL, vectors="nowhere")], place, Workforce(workers=1))


def test_notes_on_the_corpora_are_told(place):
    assert run_all([SMALL], place, Workforce(workers=1)).notes == ["Texts made by a small grammar."]


def test_an_idle_worker_that_has_died_is_replaced(place):
    pool = LocalPool(place, Workforce(), 1)
    place.store.check_writable()
    task = (Job(SMALL, key(SMALL, place)),)
    try:
        first = pool.begin(task)
        while pool.listen(None)[-1][1] != "idle":
            pass
        first.process.kill()
        first.process.join()
        second = pool.begin(task)
        assert second is not first
        assert not first.process.is_alive()
    finally:
        pool.close()
    assert not second.process.is_alive()
