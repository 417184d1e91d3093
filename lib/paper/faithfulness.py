"""Whether the words that an importance names are those that a prediction rests on.

The thesis's word importance is compared with two methods of captum, occlusion of each word and
integrated gradients, and with chance. A faithful importance names words without which the model is
less sure (*comprehensiveness*), and which suffice for its prediction (*sufficiency*; DeYoung et al.
2020).
"""

import time
from collections.abc import Callable
from typing import Any

import torch
from pandas import Series
from torch import Tensor

from whenpool.base.errors import InputError
from whenpool.corpora.batches import UNKNOWN_INDEX, Ragged, Texts
from whenpool.probes.protocol import evaluating
from whenpool.probes.word_importance import occlusion
from whenpool.training.loop import answers

IG_STEPS = 32  # Points of the path along which gradients are summed
WINDOW = 5  # Words of a window of the thesis's importance
PART = 0.1  # Of a text's words, those that matter most
Importance = Callable[[Any, Tensor, int], Tensor]
"""Of a model, the words (n,) of a text and a class: how much each word speaks for the class,
(n,)."""


def methods(seed: int = 0) -> dict[str, Importance]:
    """Each method by name. Raises `InputError` where captum is not installed."""
    try:
        from captum.attr import LayerIntegratedGradients, Occlusion
    except ModuleNotFoundError:
        raise InputError("faithfulness needs captum: pip install -e 'lib/paper[captum]'") from None
    random = torch.Generator().manual_seed(seed)

    def by_window(model: Any, ids: Tensor, label: int) -> Tensor:
        """By how much log P falls when the word's window is replaced; 0 behind the last full
        one."""
        changes = occlusion(model, ids.unsqueeze(0), torch.tensor([len(ids)]), WINDOW)[1][
            0, :, label
        ]
        return torch.cat([-changes.repeat_interleave(WINDOW), changes.new_zeros(len(ids) % WINDOW)])

    def log_probability(ids: Tensor, model: Any) -> Any:
        return model(ids, torch.full((len(ids),), ids.shape[1])).log_softmax(1)

    def by_word(model: Any, ids: Tensor, label: int) -> Tensor:
        """By how much log P falls when the word is replaced by <unk>."""
        with torch.no_grad():
            return Occlusion(log_probability).attribute(
                ids.unsqueeze(0),
                (1,),
                baselines=UNKNOWN_INDEX,
                target=label,
                additional_forward_args=model,
                perturbations_per_eval=64,
            )[0]

    def by_gradients(model: Any, ids: Tensor, label: int) -> Tensor:
        """The gradient of log P summed on the way from a text of <unk> to this one."""
        along = LayerIntegratedGradients(log_probability, model.embedding)
        start = torch.full_like(ids, UNKNOWN_INDEX).unsqueeze(0)
        return along.attribute(
            ids.unsqueeze(0), start, target=label, additional_forward_args=model, n_steps=IG_STEPS
        )[0].sum(1)

    return {
        # up or down, as the thesis has it (§1.9.3)
        "nwi": lambda *arguments: by_window(*arguments).abs(),
        "signed_windows": by_window,
        "occlusion": by_word,
        "integrated_gradients": by_gradients,
        "random": lambda _, ids, label: torch.rand(len(ids), generator=random),
    }


def faithfulness(model: Any, texts: Texts, seed: int = 0) -> list[dict[str, Any]]:
    """What is left of a model's predictions without the tenth of each text's words that matters
    most, and with it alone; by each of `methods` a row:

    - ``confidence``: the mean probability of the class that the model predicts from the whole text;
      ``without`` and ``kept``: the same without those words, and with them alone;
    - ``accuracy``, ``accuracy_without``, ``accuracy_kept``: in %;
    - ``agreement``: the mean of Spearman's correlation with the thesis's importance over a text's
    words;
    - ``seconds``: of a processor.

    Words are removed, not replaced. ``model`` is a `whenpool.TextClassifier` on the CPU.
    """
    words, labels = [texts.ids.row(number).long() for number in range(len(texts))], texts.labels
    with evaluating(model):
        whole = probabilities(model, words)
        predicted = whole.argmax(1)
        rows: list[dict[str, Any]] = []
        first: list[Series] = []  # ranks by the thesis's method
        for name, importance in methods(seed).items():
            started, pairs = time.process_time(), zip(words, predicted.tolist(), strict=True)
            of_words = [importance(model, ids, label).detach().double() for ids, label in pairs]
            row = {"method": name, "seconds": time.process_time() - started}
            ranks = [Series(of_text.numpy()).rank() for of_text in of_words]
            first = first or ranks
            row["agreement"] = Series([a.corr(b) for a, b in zip(ranks, first, strict=True)]).mean()
            # of each text the places of its words from the most to the least important, the first
            # of equals
            places = [of.argsort(descending=True, stable=True).argsort() for of in of_words]
            matters = [place < max(1, round(PART * len(place))) for place in places]
            row |= _scores("", whole, predicted, labels)
            for part_name, is_kept in (("without", False), ("kept", True)):
                left = [ids[chosen == is_kept] for ids, chosen in zip(words, matters, strict=True)]
                row |= _scores(part_name, probabilities(model, left), predicted, labels)
            rows.append(row)
    return rows


def _scores(
    name: str, probabilities: Tensor, predicted: Tensor, labels: Tensor
) -> dict[str, float]:
    """The mean probability (N, C) of the predicted classes, and the accuracy."""
    confidence = probabilities.gather(1, predicted.unsqueeze(1)).mean().item()
    accuracy = 100 * (probabilities.argmax(1) == labels).double().mean().item()
    return {name or "confidence": confidence, f"accuracy_{name}".rstrip("_"): accuracy}


@torch.inference_mode()
def probabilities(model: Any, words: list[Tensor]) -> Tensor:
    """P(class | text), (N, C), of texts of any lengths."""
    texts = Texts(
        Ragged.of([ids.tolist() for ids in words]), torch.zeros(len(words), dtype=torch.int64)
    )
    parts, _, logits = zip(*answers(model, texts), strict=True)
    return torch.cat(logits).double().softmax(1)[torch.cat(parts).argsort()]
