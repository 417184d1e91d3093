"""What the columns of runs of record, and of stored runs, hold; see `whenpool.runs.store`."""

from whenpool.base.documents import Columns

_RUN = "key protocol corpus length seed"
_MADE = "seconds commit device torch finished"
_TRAINED = "setting size pooling masked hidden_size embedding_size layers cell bidirectional epochs"
_TAGGED = "hidden_size layers cell bidirectional epochs features entities"
_TESTED = "test_accuracy corpus_complete"
"""Empty where a training diverged."""
_NUMBERS = frozenset(
    "protocol size seed share max_words validation test layers embedding_size hidden_size "
    "drop_connect epochs batch_size learning_rate weight_decay test_accuracy test_loss "
    "validation_accuracy best_epoch majority_accuracy classes train_texts validation_texts "
    "test_texts vocabulary parameters encoder_parameters train_words filler_passes_train "
    "filler_passes_validation filler_passes_test seconds threads together strength texts k shortest "
    "longest texts_probed left middle right probe_protocol ratio middle_to_ends sample "
    "ratio_at_start ratio_at_95 examples_at_95 per_class max_tokens steps looks head_learning_rate "
    "unlabelled unlabelled_batch augmentations replaced topics pretraining steps_done "
    "accuracy_both accuracy_forward accuracy_backward "
    "halvings exponent labelled_texts unlabelled_texts unlabelled_read test_cut tokens_read "
    "feature_size dropout unknown_rate profiled lexicon_accuracy unseen_words later_words test_words "
    "unseen_accuracy later_accuracy entity_precision entity_recall entity_f1 entities_true "
    "entities_predicted entities_right entities_boundary entities_mistyped entities_spurious "
    "entities_missed gradient_evenness gradient_reach".split()
)
_FLAGS = frozenset(
    "bidirectional masked corpus_complete complete orthogonal untrained features entities".split()
)
_POINTS = frozenset(
    "epoch train_loss train_accuracy validation_loss validation_accuracy seconds factor "
    "attention_accuracy mass_left divergence position mean median std share_added accuracy words "
    "examples ratio band_ratio megabytes supervised consistency margin confidence left_out confident "
    "single validation_entity_precision validation_entity_recall validation_entity_f1".split()
)
_COMPARED = (
    "size hidden_size epochs together together_other pairs identical with_weights mean_difference "
    "largest_accuracy largest_loss"
)
_SIDES = "corpus length setting masked device precision engine device_other precision_other engine_other"
_MEASURED = "classes average_length max_length train_size test_size"

RUNS = Columns(numbers=_NUMBERS, flags=_FLAGS)
"""Of the configuration, result and provenance of any stored run."""
POINTS = Columns(numbers=_POINTS)
"""Of what a stored run gives for each epoch or position."""


def _columns(required: str, numbers: frozenset[str], present: str = "", unique: str = "") -> Columns:
    return Columns(frozenset(required.split()), frozenset(present.split()), numbers, _FLAGS, unique)


def _runs(required: str, present: str = "") -> Columns:
    return _columns(f"{_RUN} {required}", _NUMBERS, f"{_MADE} {present}", "key")


def _points(required: str) -> Columns:
    return _columns(f"key {required}", _POINTS)


COLUMNS = {
    "trainings.csv": _runs(_TRAINED, _TESTED),
    "probes.csv": _runs(f"{_TRAINED} probe probe_protocol"),
    "few_shots.csv": _runs("system per_class", _TESTED),
    "taggings.csv": _columns(
        f"key protocol corpus seed {_TAGGED}", _NUMBERS, f"{_MADE} {_TESTED}", "key"
    ),
    "trainings_history.csv": _points("epoch"),
    "few_shots_history.csv": _points("epoch"),
    "taggings_history.csv": _points("epoch"),
    "taggings_gradients.csv": _points("stage position mean single"),
    "probes_gradients.csv": _points("position mean"),
    "probes_first_steps.csv": _points("position mean"),
    "probes_directions.csv": _points("direction accuracy"),
    "probes_memory.csv": _points("words megabytes"),
    "probes_nwi.csv": _points("position mean"),
    "probes_sweep.csv": _points("share_added accuracy setting_added"),
    "probes_trace.csv": _points("examples ratio"),
    "comparisons.csv": _columns(
        f"key {_SIDES} {_COMPARED}",
        frozenset(f"{_COMPARED} std_difference largest_weight".split()),
        unique="key",
    ),
    "corpora.csv": _columns(
        f"corpus length {_MEASURED}", frozenset([*_MEASURED.split(), "validation_size"])
    ),
}
"""Of each file of record, by its name."""
