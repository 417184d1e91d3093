"""The poolings as a module of sentence-transformers."""

from typing import Any, Self

from sentence_transformers.base.modules.module import Module

from whenpool.base.errors import check_known
from whenpool.models.pooling import POOLINGS


class SentencePooling(Module):
    """One embedding of a text from the states of its tokens, by any pooling of `whenpool.POOLINGS`; "last"
    takes the last token, and "attention" needs the ``size`` D of a token's state. It comes after a
    transformer, and is trained and saved with it. To load such a model, sentence-transformers wants the
    option ``trust_remote_code``, since the module is not its own. Raises `InputError` for another pooling.

    Examples:
        >>> pooling = SentencePooling("max_attention")
        >>> tokens = {"token_embeddings": torch.randn(2, 7, 384), "attention_mask": torch.ones(2, 7)}
        >>> pooling(tokens)["sentence_embedding"].shape
        torch.Size([2, 384])

        With a model: ``SentenceTransformer(modules=[Transformer("..."), SentencePooling("max_attention")])``.
    """

    config_keys = ["pooling", "size"]  # noqa: RUF012 (as in the base class)

    def __init__(self, pooling: str = "max_attention", size: int | None = None) -> None:
        super().__init__()
        check_known("pooling", pooling, POOLINGS)
        self.pooling, self.size = pooling, size
        self.pool = POOLINGS[pooling](size, bidirectional=False)

    def forward(self, features: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Reads ``token_embeddings`` (B, T, D) and ``attention_mask`` (B, T); adds ``sentence_embedding``
        (B, D) and, where the pooling weighs tokens, ``pooling_weights`` (B, T)."""
        embedding, weights = self.pool(features["token_embeddings"], features["attention_mask"])
        more = {} if weights is None else {"pooling_weights": weights}
        return features | {"sentence_embedding": embedding} | more

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any) -> None:
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
