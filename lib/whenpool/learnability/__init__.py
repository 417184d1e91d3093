"""Four ways to train an LSTM without pooling that leave the model as it is (thesis §2.2).

Each is an `whenpool.training.loop.Objective`: it says what is minimised and how that changes over
the epochs. The model that is trained has no pooling, and it is validated and tested as it is: its last
states, forward →h_n and backward ←h_1, classify the text.

===================  ======  ===================================================================
teacher forcing      §2.2.4  its embedding follows that of a trained max-pooled model
penalty attention    §2.2.5  it attends at first, and attending to other states costs more and more
dropout attention    §2.2.6  it attends at first, and other states are dropped more and more often
gradient-directed    §2.2.7  gradients spread evenly over the words at first, less and less so
===================  ======  ===================================================================
"""

from whenpool.learnability.gradient_directed import GradientDirected
from whenpool.learnability.last_attention import AttentionForm, DropoutAttention, PenaltyAttention
from whenpool.learnability.teacher_forcing import TeacherForcing

__all__ = [
    "AttentionForm", "DropoutAttention", "GradientDirected", "PenaltyAttention", "TeacherForcing",
]  # fmt: skip
