"""What a few-shot run is: one system of Table 1.9 trained on few labelled texts (thesis §1.10)."""

import math
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from whenpool.base.errors import InputError
from whenpool.base.files import fingerprint
from whenpool.corpora.corpus import check_length
from whenpool.fewshot.pretrained import DEFAULT_ENCODER, MINILM, MINILM_NAMES, encoder_fingerprint
from whenpool.runs.training_run import Place, Training

FEW_SHOT_PROTOCOL = 1
"""Raised by hand when the meaning of a few-shot result changes."""

SYSTEMS = ("vampire", "bert", "tmix", "max_attention", "uda", "mixtext")
"""The rows of Table 1.9, in its order."""
CONTRAST = ("last_words", "max_attention_words")
"""BiLSTM and max-attention on word vectors, as in the other chapters, for contrast."""
READ_BY_ENCODER = ("bert", "tmix", "max_attention", "uda", "mixtext")
"""Systems whose texts a pretrained encoder reads."""
UNLABELLED = ("vampire", "uda", "mixtext")
"""Systems that read unlabelled texts as well."""


def check_system(system: str) -> None:
    """Raises `InputError` for a name that is not in `SYSTEMS` or `CONTRAST`."""
    if system not in (names := (*SYSTEMS, *CONTRAST)):
        raise InputError(f"system {system!r} is unknown; choose one of {', '.join(names)}")


@dataclass(frozen=True)
class FewShot:
    """One system trained on some labelled texts of each class, and the test of its best weights.

    As with `Training`, a default must never change. What a system does not use is set back to its
    default.
    """

    corpus: str  # a name for `whenpool.corpora.load`
    system: str  # one of `SYSTEMS` or `CONTRAST`
    per_class: int = 10  # labelled texts
    seed: int = 0  # of the labelled texts, and of all that is drawn
    length: str = "any"  # of the texts: "long", "short" or "any"
    validation: int = 1_000  # texts, or all where there are fewer
    test: int | None = None  # texts, or all where there are fewer; None: all
    max_tokens: int = 256  # a longer text is cut
    steps: int = 1_000  # of training, about: whole passes over the labelled texts
    looks: int = 10  # at the validation texts, at most: at least one pass lies between two
    batch_size: int = 8  # labelled texts
    learning_rate: float = 2e-3  # Adam's; of a fine-tuned encoder: of its own weights
    head_learning_rate: float = 5e-4  # of the classifier on a fine-tuned encoder
    hidden_size: int = 256  # of a BiLSTM, per direction
    encoder: str = DEFAULT_ENCODER  # a name or folder that transformers loads
    vectors: str | None = None  # word vectors of the systems in `CONTRAST`; None: random ones
    unlabelled: int = 10_000  # texts, or all where there are fewer
    unlabelled_batch: int = 8  # texts, beside the labelled ones
    augmentations: int = 1  # of each unlabelled text, by replacing words (TF-IDF)
    replaced: float = 0.7  # part of the words that are replaced
    paraphrases: str | None = None  # a file of them, in place of those
    topics: int = 64  # of VAMPIRE
    pretraining: int = 2_000  # steps of VAMPIRE on unlabelled texts

    def __post_init__(self) -> None:
        check_system(self.system)
        for name in self._unused:
            object.__setattr__(self, name, getattr(FewShot, name))  # the default
        if self.encoder in MINILM_NAMES:
            object.__setattr__(self, "encoder", MINILM)
        for name in _COUNTS:
            if (value := getattr(self, name)) is not None and value < 1:
                raise InputError(f"{name} of a few-shot run must be at least 1, not {value}")
        if not 0 < self.replaced <= 1:
            raise InputError(f"replaced is a part of all words in (0, 1], not {self.replaced}")

    def changed(self) -> dict[str, Any]:
        """The fields that are not at their default."""
        return {f.name: v for f in fields(self) if (v := getattr(self, f.name)) != f.default}

    @property
    def training(self) -> None:
        """It is not a `Training`: see `Run`."""
        return

    @property
    def needs(self) -> Training | None:
        """Nothing."""
        return None

    @property
    def epochs(self) -> int:
        return self.looks

    @property
    def reads_unlabelled(self) -> bool:
        return self.system in UNLABELLED

    @property
    def has_encoder(self) -> bool:
        return self.system in READ_BY_ENCODER

    @property
    def cost(self) -> float:
        """Tokens read, weighed by what they cost, as `Training.cost` has it."""
        texts = self.steps * self.batch_size
        if self.system in ("uda", "mixtext"):
            texts += self.steps * self.unlabelled_batch * 2
        words = texts * min(self.max_tokens, 250)
        return words * (1 if self.system in CONTRAST or self.system == "vampire" else 20)

    def identity(self, place: Place) -> dict[str, Any]:
        """What makes a run this run: configuration, data, protocol.

        Raises:
            InputError: for data or an encoder that are not here.
        """
        check_length(self.length)
        source = place.source(self)
        data = {"corpus": source.fingerprint(self.length)}
        own = self.changed() | {"corpus": source.label}
        if self.has_encoder:
            data["encoder"] = encoder_fingerprint(self.encoder)
            own["encoder"] = self.labels["encoder"]
        if self.vectors:
            data["vectors"] = fingerprint(place.vectors_file(self.vectors))
        if self.paraphrases:
            file = Path(self.paraphrases)
            if not file.is_file():
                raise InputError(f"paraphrases {file} are not there; give a file of JSON lines")
            data["paraphrases"] = fingerprint(file)
            own["paraphrases"] = self.labels["paraphrases"]
        return {"run": own, "data": data, "protocol": FEW_SHOT_PROTOCOL}

    @property
    def _unused(self) -> list[str]:
        """The fields that say nothing of this system."""
        unused = [name for name, systems in USED_BY.items() if self.system not in systems]
        return unused + (["augmentations", "replaced"] if self.paraphrases else [])

    @property
    def shape(self) -> "FewShot":
        """The run without its vectors, and without the folders of its files."""
        return replace(self, vectors=None, **self.labels)  # type: ignore[arg-type]

    @property
    def labels(self) -> dict[str, str | None]:
        """What its encoder and its file of paraphrases are called, without their folders."""
        encoder, paraphrases = Path(self.encoder).expanduser(), self.paraphrases
        return {
            "encoder": encoder.name if encoder.is_dir() else self.encoder,
            "paraphrases": Path(paraphrases).name if paraphrases else None,
        }

    def __str__(self) -> str:
        encoder = f" ({Path(self.encoder).name})" if self.has_encoder else ""
        return f"{self.corpus} {self.system}{encoder} {self.per_class} per class seed {self.seed}"


USED_BY = {
    "max_tokens": (*READ_BY_ENCODER, *CONTRAST),
    "encoder": READ_BY_ENCODER,
    "head_learning_rate": ("bert", "tmix", "uda", "mixtext"),
    "hidden_size": ("max_attention", *CONTRAST),
    "vectors": CONTRAST,
    "unlabelled": UNLABELLED,
    "topics": ("vampire",),
    "pretraining": ("vampire",),
    **dict.fromkeys(
        ("unlabelled_batch", "augmentations", "replaced", "paraphrases"), ("uda", "mixtext")
    ),
}
"""The systems that a field is of, where it is not of all."""
_COUNTS = (
    "per_class", "validation", "test", "max_tokens", "steps", "looks", "batch_size", "hidden_size",
    "unlabelled", "unlabelled_batch", "augmentations", "topics", "pretraining",
)  # fmt: skip


def passes_of(run: FewShot, labelled: int) -> tuple[int, int]:
    """How often a run looks at the validation texts, and passes over its labelled texts between two
    looks, so that it makes about as many steps as it asks for."""
    per_pass = math.ceil(labelled / run.batch_size)
    passes = math.ceil(run.steps / run.looks / per_pass)
    return max(1, round(run.steps / (passes * per_pass))), passes


def steps_of(run: FewShot, labelled: int) -> int:
    """The steps of training that a run makes."""
    looks, passes = passes_of(run, labelled)
    return looks * passes * math.ceil(labelled / run.batch_size)
