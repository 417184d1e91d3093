"""The rows of finished runs that count."""

from whenpool.runs.kinds import FewShot, Probe, Tagging, Training

training_of, probe_of, few_shot_of, tagging_of = (
    Training.of_row,
    Probe.of_row,
    FewShot.of_row,
    Tagging.of_row,
)


def current_trainings(place):
    return place.store.current("training")


def current_probes(place):
    return place.store.current("probe")


def current_few_shots(place):
    return place.store.current("few-shot")


def current_taggings(place):
    return place.store.current("tagging")
