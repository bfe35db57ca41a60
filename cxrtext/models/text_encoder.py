"""A BERT that turns a sentence into one embedding."""

from collections.abc import Mapping
from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn


class TextEncoder(nn.Module):
    """BERT's ``[CLS]`` state and a linear map of it to D dimensions.

    Args:
        config: The fields of a ``BertConfig``.
        dimension: D.
    """

    def __init__(self, config: Mapping[str, Any], dimension: int = 128) -> None:
        super().__init__()
        from transformers import BertConfig, BertModel

        bert = BertConfig(**config)
        self.backbone = BertModel(bert, add_pooling_layer=False)
        self.projection = nn.Linear(bert.hidden_size, dimension)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Embed sentences.

        Args:
            input_ids: [S, T], word pieces with special tokens.
            attention_mask: [S, T], 1 on tokens and 0 on padding.

        Returns:
            [S, D], unit vectors.
        """
        states = self.backbone(input_ids=input_ids, attention_mask=attention_mask)
        return F.normalize(self.projection(states.last_hidden_state[:, 0]), dim=-1)
