"""How much each state of a sentence moves a tagger's losses: why gradients do not vanish where every
word has a loss of its own (beside §1.5, whose probe is of one loss for a text).

Letters: B sentences, T words of the longest, F columns of numbers of a word, D units of a state, C tags.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from whenpool.base.errors import InputError
from whenpool.models.encoder import word_mask
from whenpool.probes.gradients import total_norms
from whenpool.probes.protocol import check_steps, evaluating
from whenpool.probes.taps import tapped


def tagging_gradient_norms(
    model: nn.Module, ids: Tensor, lengths: Tensor, tags: Tensor, word: Tensor | None = None
) -> Tensor:
    """‖∂L/∂h_t‖ of every sentence and word of a tagger: the *total* gradient, as for `gradient_norms`.

    L is the sum of the cross-entropies of all words of the sentence, or that of one word alone.

    Args:
        model: offers ``embed``, ``encode`` and ``classify``, whose logits are (B, T, C), such as
            `whenpool.SequenceTagger`. It is put into evaluation mode for the time.
        ids: (B, T) or (B, T, F) int64, right-padded.
        lengths: (B,), words of each sentence.
        tags: (B, T) int64; a negative one has no loss.
        word: (B,), counted from 0: the one word whose loss L is; default: all.

    Returns:
        (B, T), NaN behind the end of each sentence.

    Raises:
        InputError: for a model without the three steps, shapes that do not fit, a length or word
            outside of its sentence, or a tag that the model does not have.

    Examples:
        >>> model = whenpool.SequenceTagger(50, tags=4, embedding_size=8, hidden_size=16)
        >>> ids, lengths = torch.randint(50, (2, 40)), torch.tensor([40, 25])
        >>> tagging_gradient_norms(model, ids, lengths, torch.randint(4, (2, 40))).shape
        torch.Size([2, 40])
    """
    check_steps(model, "tagging_gradient_norms")
    _check(ids, lengths, tags, word)
    steps: Any = model
    counted = word_mask(lengths, ids.shape[1]) & (tags >= 0)  # (B, T)
    if word is not None:
        counted &= torch.arange(ids.shape[1], device=counted.device) == word.unsqueeze(1)
    with evaluating(model), torch.inference_mode(False), torch.enable_grad(), tapped(model) as taps:
        states = steps.encode(steps.embed(ids).detach(), lengths)
        if not states.requires_grad:  # nothing before the classifier learns
            states = states.detach().requires_grad_()
        logits = steps.classify(states, lengths)
        if logits.dim() != 3:
            raise InputError(f"{type(model).__name__} gives no logits for each word; see gradient_norms")
        if bool((tags >= logits.shape[-1]).any()):
            raise InputError(f"there is a tag {int(tags.max())}; the model has {logits.shape[-1]}")
        rows = torch.log_softmax(logits, -1).gather(-1, tags.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        loss = -(rows * counted).sum()
        norms = total_norms(loss, model, states, taps, lengths)  # (B, T), or fewer if packed
    norms = pad(norms, (0, ids.shape[1] - norms.shape[1]))
    return norms.masked_fill(~word_mask(lengths, ids.shape[1]), torch.nan)


def _check(ids: Tensor, lengths: Tensor, tags: Tensor, word: Tensor | None) -> None:
    if ids.dim() not in (2, 3) or not ids.numel():
        raise InputError(f"ids are (B, T) or (B, T, F), not {tuple(ids.shape)}")
    B, T = ids.shape[:2]
    if tags.shape != (B, T):
        raise InputError(f"tags have the shape {tuple(tags.shape)}; {B} sentences need {(B, T)}")
    for name, values, least in (("lengths", lengths, 1), ("word", word, 0)):
        if values is not None and values.shape != (B,):
            raise InputError(f"{B} sentences need {B} values in {name}, not {tuple(values.shape)}")
        if values is not None and bool(((values < least) | (values > T)).any()):
            raise InputError(f"{name} of a sentence of up to {T} words is between {least} and {T}")
    if word is not None and bool((word >= lengths).any()):
        raise InputError("word counts from 0 and lies inside of its sentence")
