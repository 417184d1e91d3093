"""The poolings as a module of sentence-transformers."""

from typing import Any, Self

import torch
from sentence_transformers.sentence_transformer import modules
from torch import nn

from whenpool.base.errors import check_known
from whenpool.models.encoder import word_mask
from whenpool.models.pooling import TOKEN_POOLINGS


class SentencePooling(modules.Pooling):
    """One embedding of a text from the states of its tokens, by any pooling of `whenpool.POOLINGS`
    or by "cls". "mean", "max" and "cls", the first token, are the modes of the same name of
    sentence-transformers, and "last", the last token, is its "lasttoken"; it has none of the
    others, of which "attention" needs the ``size`` D of a token's state. Without ``include_prompt``
    the tokens of a prompt that begins each text are not pooled. It comes after a transformer, and
    is trained and saved with it. To load such a model, sentence-transformers wants the option
    ``trust_remote_code``, since the module is not its own. Raises `InputError` for another pooling.

    Examples:
        >>> pooling = SentencePooling("max_attention")
        >>> mask = torch.ones(2, 7)
        >>> tokens = {"token_embeddings": torch.randn(2, 7, 384), "attention_mask": mask}
        >>> pooling(tokens)["sentence_embedding"].shape
        torch.Size([2, 384])

        With a model: ``SentenceTransformer(modules=[Transformer("..."),
        SentencePooling("max_attention")])``.
    """

    config_keys = ["pooling", "size", "include_prompt"]  # noqa: RUF012 (as in the base class)

    def __init__(
        self, pooling: str = "max_attention", size: int | None = None, include_prompt: bool = True
    ) -> None:
        nn.Module.__init__(self)  # the base class would make a pooling of its own
        check_known("pooling", pooling, TOKEN_POOLINGS)
        self.pooling, self.size, self.include_prompt = pooling, size, include_prompt
        self.pool = TOKEN_POOLINGS[pooling](size, bidirectional=False)

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Reads ``token_embeddings`` (B, T, D) and ``attention_mask`` (B, T), or what flash
        attention leaves: the texts behind each other, (1, N, D), and their boundaries
        ``cu_seq_lens_q`` (B + 1,). Adds ``sentence_embedding`` (B, D) and, where the pooling weighs
        tokens, ``pooling_weights`` (B, T)."""
        states, mask = features["token_embeddings"], features.get("attention_mask")
        dtype, sums = states.dtype, features.get("token_weights_sum")  # the second of `WordWeights`
        if "cu_seq_lens_q" in features:
            lengths, sums = features["cu_seq_lens_q"].diff(), None
            states = nn.utils.rnn.pad_sequence(states[0].split(lengths.tolist()), batch_first=True)
            mask = word_mask(lengths, states.shape[1])
        elif mask is None or mask.shape[-1] != states.shape[1]:
            mask = torch.ones(states.shape[:2], device=states.device)
        if not self.include_prompt and "prompt_length" in features:
            # the same for each text
            prompt = torch.as_tensor(features["prompt_length"]).flatten()[0]
            start = mask.int().argmax(1, keepdim=True) + prompt
            mask = mask * (torch.arange(mask.shape[1], device=mask.device) >= start)
        embedding, weights = self.pool(states if dtype == torch.float64 else states.float(), mask)
        more = {} if weights is None else {"pooling_weights": weights.to(dtype)}
        if self.pooling == "mean" and sums is not None:
            embedding = embedding * mask.sum(1, keepdim=True) / sums.unsqueeze(1).clamp(min=1e-9)
            dtype = torch.promote_types(dtype, sums.dtype)
        return features | {"sentence_embedding": embedding.to(dtype)} | more

    def get_embedding_dimension(self) -> int | None:  # type: ignore[override]
        """D, or None where no size was given: then sentence-transformers asks the transformer."""
        return self.size

    def save(
        self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any
    ) -> None:
        """Write the configuration, and the query of "attention", into a folder."""
        self.save_config(output_path)
        if list(self.parameters()):
            self.save_torch_weights(output_path, safe_serialization=safe_serialization)

    @classmethod
    def load(cls, model_name_or_path: str, **options: Any) -> Self:  # type: ignore[override]
        """What `save` wrote, from a folder or Hugging Face's hub."""
        places = ("subfolder", "token", "cache_folder", "revision", "local_files_only")
        where = {name: options[name] for name in places if name in options}
        self = cls(**cls.load_config(model_name_or_path, **where))
        if list(self.parameters()):
            cls.load_torch_weights(model_name_or_path, model=self, **where)
        return self
