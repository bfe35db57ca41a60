"""The text encoder: a BERT, pooling of its states, and a map to the joint space."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from cxrtext.models.bert import Bert, BertConfig
from cxrtext.models.configurations import bert_configuration, settings_of

POOLINGS = ("cls", "mean")
"""The state of the first piece (``[CLS]``), or the mean over a sentence's pieces."""
MODEL_TYPES = ("bert", "cxr-bert")
"""The ``model_type`` values that a configuration may have."""


def text_configuration(values: Mapping[str, Any]) -> BertConfig:
    """A text encoder's configuration (ValueError with one line)."""
    if (kind := values.get("model_type", "bert")) not in MODEL_TYPES:
        raise ValueError(
            f"model_type: {str(kind)[:40]!r} is not read here, only {', '.join(MODEL_TYPES)}"
        )
    if values.get("position_embedding_type", "absolute") != "absolute":
        raise ValueError("position_embedding_type: only 'absolute' is read")
    return bert_configuration(values)


def text_config(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a configuration that a checkpoint keeps; others are dropped unread.

    Raises ``ValueError`` for values out of range.
    """
    settings = settings_of(text_configuration(values))
    del settings["tie_word_embeddings"]
    segments = settings.pop("type_vocab_size")
    return {**settings, "position_embedding_type": "absolute", "type_vocab_size": segments}


def mean_state(states: Tensor, real: Tensor | None) -> Tensor:
    """The mean of states [S, T, H] over a sentence's pieces, with special tokens.

    ``real`` is [S, T], 1 on pieces and 0 on padding; None without padding.

    Source: Reimers and Gurevych 2019 (Sentence-BERT), section 3; its library counts special
        tokens too.
    """
    states = states.float()
    if real is None:
        return states.mean(dim=1)
    weights = real[..., None].to(states.dtype)
    return (states * weights).sum(dim=1) / weights.sum(dim=1)


class TextEncoder(nn.Module):
    """A text encoder's pooled state and a linear map of it to D dimensions.

    ``config`` comes from :func:`text_config`; ``pooling`` is one of :data:`POOLINGS`.
    """

    def __init__(
        self, config: Mapping[str, Any], dimension: int = 128, pooling: str = "cls"
    ) -> None:
        super().__init__()
        self.pooling = pooling
        self.backbone: Any = Bert(text_configuration(config))
        self.projection = nn.Linear(int(config["hidden_size"]), dimension)

    def extra_repr(self) -> str:
        """What states depend on apart from the weights."""
        return "" if self.pooling == "cls" else self.pooling

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Embed sentences as unit vectors [S, D].

        Args:
            input_ids: [S, T], word pieces with special tokens.
            attention_mask: [S, T], 1 on tokens and 0 on padding; or boolean [S, 1, T, T], the same
                for each piece; None without padding.
        """
        return self.project(self.states(input_ids, attention_mask))

    @property
    def trunk(self) -> nn.Module:
        """The network that gives the states of pieces."""
        trunk: nn.Module = self.backbone
        return trunk

    def states(self, input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Pooled states [S, H] of sentences; arguments as in :meth:`forward`."""
        output = self.backbone(input_ids=input_ids, attention_mask=attention_mask)
        states: Tensor = output.last_hidden_state
        if self.pooling == "cls":
            return states[:, 0]
        real = attention_mask
        if real is not None and real.ndim == 4:
            real = real[:, 0, 0]
        return mean_state(states, real)

    def project(self, states: Tensor) -> Tensor:
        """Map states [S, H] to unit vectors [S, D]."""
        return F.normalize(self.projection(states), dim=-1)
