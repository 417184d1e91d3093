"""Which few-shot runs the chapter on Table 1.9 draws from (thesis §1.10)."""

from collections.abc import Iterable
from itertools import product
from typing import Any

from whenpool.base.errors import check_known
from whenpool.corpora import find
from whenpool.corpora.published import PUBLICATIONS
from whenpool.corpora.sources import statistics_of
from whenpool.fewshot.pretrained import DEFAULT_ENCODER, MINILM
from whenpool.runs.kinds.few_shot import CONTRAST, SYSTEMS, FewShot
from whenpool.runs.request import Request
from whenpool.runs.run import VECTORS, Place, find_vectors

PAPER_UNLABELLED = 5_000  # Unlabelled texts of each class, as in Chen et al. (2020)
LABELS = (1, 3, 10, 30, 100)  # Labelled texts of each class; the thesis has 10
Settings = dict[str, Any]
_FINE_TUNED: Settings = {"learning_rate": 5e-5, "head_learning_rate": 1e-3, "max_tokens": 128}
_PAIRED: Settings = {"batch_size": 4, "unlabelled": 5_000, "replaced": 0.3}
_SMALL: Settings = {"validation": 100, "test": 1_000, "steps": 100}
_TINY: Settings = {"validation": 40, "test": 200, "max_tokens": 64, "steps": 20, "looks": 3}
_SMOKE: Settings = {
    "validation": 8, "test": 16, "max_tokens": 16, "steps": 2, "looks": 1,
    "unlabelled": 40, "hidden_size": 8, "topics": 4, "pretraining": 4,
}  # fmt: skip
PAPER: dict[str, Settings] = {
    "vampire": {"learning_rate": 1e-3},
    "bert": {"learning_rate": 5e-6},
    "tmix": {"learning_rate": 5e-6},
    "uda": {"learning_rate": 5e-6, "batch_size": 4, "steps": 20_000, "looks": 20},
    "mixtext": {
        "learning_rate": 5e-6, "batch_size": 4, "steps": 20_000, "looks": 20, "augmentations": 2,
    },
    "max_attention": {"max_tokens": 512},
    "last_words": {"max_tokens": 512},
    "max_attention_words": {"max_tokens": 512},
}  # fmt: skip
"""By the released commands of Chen et al. (2020), and the thesis's 512 tokens."""
SMALL: dict[str, Settings] = {
    "vampire": _SMALL | {"learning_rate": 3e-3, "steps": 300, "unlabelled": 5_000},
    "bert": _SMALL | _FINE_TUNED,
    "tmix": _SMALL | _FINE_TUNED,
    "uda": _SMALL | _FINE_TUNED | _PAIRED,
    "mixtext": _SMALL | _FINE_TUNED | _PAIRED,
    **dict.fromkeys(("max_attention", *CONTRAST), _SMALL | {"max_tokens": 512, "steps": 200}),
}
"""On published corpora: minutes a run on a processor, with a small encoder."""
EMBEDDED: dict[str, Settings] = {
    "vampire": SMALL["vampire"] | _TINY | {"steps": 100, "pretraining": 400},
    **{name: SMALL[name] | _TINY for name in ("bert", "tmix", "uda", "mixtext")},
    **dict.fromkeys(("max_attention", *CONTRAST), _TINY | {"steps": 60, "hidden_size": 48}),
}
"""On the embedded corpus, or a file of the reader's own: seconds a run."""


def few_shots(request: Request, place: Place) -> Iterable[FewShot]:
    """Table 1.9, or its likeness in small, and accuracy over the number of labels."""
    for name in request.systems or ():
        check_known("system", name, (*SYSTEMS, *CONTRAST))
    paper, smoke = request.profile == "paper", request.profile == "smoke"
    systems = request.systems or (*SYSTEMS, *CONTRAST)
    # short texts: what a pretrained encoder reads of one takes a hundred times what a BiLSTM does
    embedded = "synthetic:density=0.1,longest=48,shortest=32"
    for corpus in request.corpora or (("imdb", "yahoo") if paper else (embedded,)):
        published = corpus in PUBLICATIONS
        # what depends on the corpus and the reader; a system takes what it has use for
        asked: Settings = {"encoder": request.encoder or (DEFAULT_ENCODER if paper else MINILM)}
        asked["paraphrases"] = request.paraphrases
        labels: tuple[int, ...] = (FewShot.per_class,)
        if smoke:
            asked, labels = asked | _SMOKE, (2,)
        elif published:
            asked["vectors"] = find_vectors(place) or VECTORS[0]
            labels = LABELS if request.profile == "quick" else labels
            if paper:
                asked["unlabelled"] = PAPER_UNLABELLED * PUBLICATIONS[corpus].classes
        elif not request.labels and (source := find(corpus, place.data)).path:
            mine = statistics_of(source, "any")  # half of the texts of a file stay unlabelled
            labels = (max(1, min(FewShot.per_class, mine["train_size"] // mine["classes"] // 2)),)
        if request.unlabelled:
            asked["unlabelled"] = request.unlabelled
        settings = PAPER if paper else SMALL if published else EMBEDDED
        seeds = request.seeds or (5 if paper else 3 if published else 1)
        for seed, per_class, system in product(range(seeds), request.labels or labels, systems):
            yield FewShot(corpus, system, per_class, seed, **settings[system] | asked)
