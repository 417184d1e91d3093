"""What was executed, how long it took, and with which versions."""

import json
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from whenpool.book.report.literal import corpus_name
from whenpool.book.report.provenance import duration

if TYPE_CHECKING:
    from pandas import DataFrame

    from whenpool.runs.training_run import Place

PACKAGES = (
    "torch", "torchtext", "numpy", "pandas", "scipy", "matplotlib", "seaborn", "jupytext", "papermill",
    "jupyter-book", "myst-nb", "transformers",
)  # fmt: skip


def chapters_table(log_file: str) -> "DataFrame":
    """Chapters with the profile they were executed in, and the time that took."""
    import pandas as pd

    try:
        log = json.loads(Path(log_file).read_text())
    except (OSError, ValueError):
        log = {}
    rows = [
        {"chapter": name, "profile": entry["profile"], "time": duration(entry["seconds"])}
        for name, entry in log.items()
    ]
    return pd.DataFrame(rows or [{"chapter": "none yet", "profile": "", "time": ""}])


def runs_table(place: "Place") -> "DataFrame":
    """Finished runs by kind, corpus, device and protocol."""
    import pandas as pd

    store = place.store
    parts = [
        store.trainings().assign(probe="training"),
        store.probes(),
        store.few_shots().assign(probe="few-shot"),
        store.taggings().assign(probe="tagging"),
    ]
    if not any(len(part) for part in parts):
        return pd.DataFrame({"runs": [0]})
    columns = ["key", "probe", "corpus", "device", "precision", "protocol", "seconds", "finished"]
    runs = pd.concat([part[columns] for part in parts if len(part)]).rename(columns={"probe": "kind"})
    runs = runs.assign(corpus=[corpus_name(str(name).split(":")[0]) for name in runs["corpus"]])
    grouped = runs.groupby(["kind", "corpus", "device", "precision", "protocol"], sort=False)
    table = grouped.agg(runs=("key", "size"), computing=("seconds", "sum"), newest=("finished", "max"))
    table["computing"] = table["computing"].map(duration)
    table["newest"] = table["newest"].str[:10]
    return table.reset_index()


def versions_table() -> "DataFrame":
    """Versions of what made the pages, the commit, and the time."""
    import pandas as pd

    from whenpool.runs.provenance import commit
    from whenpool.runs.training_run import PROTOCOL

    rows = [
        ("built", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
        ("commit", commit() or "unknown"),
    ]
    rows += [("protocol of runs", str(PROTOCOL)), ("python", platform.python_version())]
    for name in PACKAGES:
        try:
            rows.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return pd.DataFrame(rows, columns=["what", "version"])
