"""What a trained model does with a text: gradients, natural positional bias, word importance.

The probes take a `whenpool.TextClassifier`, or a model of your own with these steps::

    class Mine(nn.Module):
        def embed(self, ids): ...                # (B, T) int64 -> (B, T, E)
        def encode(self, embedded, lengths): ... # (B, T, E), (B,) -> (B, T, D), one state a word
        def classify(self, states, lengths): ... # (B, T, D), (B,) -> (B, C) logits
        def forward(self, ids, lengths):
            return self.classify(self.encode(self.embed(ids), lengths), lengths)

All but those of gradients need ``forward`` alone, recurrent or not. Lengths reach
the model on its own device: one that packs its input calls ``lengths.cpu()`` first.
Gradients see torch's recurrences and ours, and a loop over words at the end of ``encode``,
``torch.stack(states, dim=1)``; another loop or a quantised model is refused. A recurrence
inside a single operation, ``cumsum`` or a function of autograd's, they cannot see.
`position_profile` needs no model, but any function from texts to embeddings.
"""

from whenpool.probes.gradients import (
    gradient_norms,
    gradient_profile,
    tagging_gradient_norms,
    vanishing_ratio,
)
from whenpool.probes.memory import step_megabytes
from whenpool.probes.position import position_profile
from whenpool.probes.sweep import padding_sweep
from whenpool.probes.word_importance import nwi, window_importance

__all__ = [
    "gradient_norms",
    "gradient_profile",
    "nwi",
    "padding_sweep",
    "position_profile",
    "step_megabytes",
    "tagging_gradient_norms",
    "vanishing_ratio",
    "window_importance",
]
