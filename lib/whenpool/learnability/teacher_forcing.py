"""Teacher forcing (thesis §2.2.4).

Letters: B texts, N texts of the training set, D units of an embedding.
"""

import torch
from torch import Tensor
from torch.nn import functional

from whenpool.base.errors import InputError
from whenpool.corpora.batches import PADDING_INDEX, Batch, Texts, batches_for
from whenpool.models.text_classifier import TextClassifier
from whenpool.probes.protocol import evaluating
from whenpool.training.loop import Objective

TEACHER_WORDS = 32_768  # Padded words of a batch that the teacher reads


class TeacherForcing(Objective):
    """ℓ = ‖s(x) - s'(x)‖² / D: the embedding s of the model follows s', the teacher's.

    The classifier is the teacher's and is not trained. The teacher's embeddings are computed once.

    Args:
        teacher: trained, with max-pooling in the thesis; its classifier fits the model.

    Examples:
        >>> from whenpool.corpora.batches import Ragged, Texts
        >>> texts = Texts(Ragged.of([[5, 6, 7], [8, 9]]), torch.tensor([0, 1]))
        >>> teacher, model = (whenpool.TextClassifier(50, 2, name) for name in ("max", "last"))
        >>> objective = TeacherForcing(teacher)
        >>> objective.begin(model, texts)
        >>> objective.loss(model, texts.batch(torch.arange(2), 1), torch.arange(2))[0].shape
        torch.Size([])
    """

    def __init__(self, teacher: TextClassifier) -> None:
        self.teacher = teacher
        self._targets = torch.empty(0)

    def begin(self, model: TextClassifier, texts: Texts) -> None:
        words, known = model.embedding.num_embeddings, self.teacher.embedding.num_embeddings
        if words != known:
            raise InputError(
                f"the teacher knows {known:,} words and the model {words:,}: give both one vocabulary"
            )
        mine, theirs = (tuple(m.classifier.weight.shape) for m in (model, self.teacher))
        if mine != theirs:
            raise InputError(
                f"the teacher's classifier is {theirs}, classes by units, and the model's {mine}: give "
                "both the same"
            )
        model.classifier.load_state_dict(self.teacher.classifier.state_dict())
        model.classifier.requires_grad_(False)
        self._targets = sentence_embeddings(self.teacher.to(texts.labels.device), texts)

    def loss(self, model: TextClassifier, batch: Batch, indices: Tensor) -> tuple[Tensor, Tensor]:
        if not len(self._targets):
            raise InputError("the teacher has read no texts yet: call begin(model, texts) first")
        states = model.encode(model.embed(batch.ids), batch.lengths)
        embedding = model.pool(states, batch.lengths)[0]  # (B, D)
        target = self._targets[indices.to(self._targets.device)]
        return functional.mse_loss(embedding, target), model.classifier(embedding)


@torch.no_grad()
def sentence_embeddings(model: TextClassifier, texts: Texts) -> Tensor:
    """What a model's pooling makes of each text: (N, D), in the order of the texts."""
    embeddings = torch.empty(len(texts), model.encoder.output_size, device=texts.labels.device)
    with evaluating(model):
        for indices in batches_for(model, texts.ids.lengths, TEACHER_WORDS):
            batch = texts.batch(indices, PADDING_INDEX)
            states = model.encode(model.embed(batch.ids), batch.lengths)
            embeddings[indices] = model.pool(states, batch.lengths)[0]
    return embeddings
