"""Learning from few labelled texts: the six systems of Table 1.9 (thesis §1.10).

Max-attention on frozen embeddings of a pretrained encoder is the thesis's own; BERT, TMix, UDA and
MixText fine-tune such an encoder, each with another objective; VAMPIRE reads bags of words. What
needs the package `transformers` imports it when it is used.
"""

from paper.fewshot.fine_tuning import FineTuned
from paper.fewshot.pretrained import contextual_classifier, embed, load_encoder
from paper.fewshot.selection import select

__all__ = ["FineTuned", "contextual_classifier", "embed", "load_encoder", "select"]
