"""The text encoder: a BERT, RoBERTa or MPNet, its pooled state, and a map to the joint space."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cxrtext.models.bert import Bert, BertConfig
from cxrtext.models.configurations import bert_configuration, configuration, settings_of

TEXT_HEADS = ("linear", "mlp")
POOLINGS = ("cls", "mean")
"""The state of the first piece (``[CLS]``, ``<s>``), or the mean over a sentence's pieces."""
FAMILIES = ("bert", "roberta", "mpnet")
"""All that a text encoder can be; a folder cannot name anything else."""
MODEL_TYPES = {"cxr-bert": "bert", **{name: name for name in FAMILIES}}
"""The family of each ``model_type`` that a configuration may have."""
_BUCKETS = 32  # of distances, whatever an MPNet's configuration says


def family_name(text: Mapping[str, Any]) -> str:
    """The family of a text encoder by what a checkpoint keeps of it; BERT where nothing is said."""
    return str(text.get("model_type", "bert"))


def text_configuration(values: Mapping[str, Any]) -> Any:
    """A text encoder's configuration, a BERT's or of transformers (ValueError, of one line)."""
    if (family := MODEL_TYPES.get(family_name(values))) is None:
        raise ValueError(
            f"no text encoder '{values['model_type']}'; there are {', '.join(FAMILIES)}"
        )
    if values.get("position_embedding_type", "absolute") != "absolute":
        raise ValueError("position_embedding_type: only 'absolute' is read")
    if family == "bert":
        return bert_configuration(values)
    config = configuration(family, values)
    # transformers' MPNet counts positions from 2, whatever it pads with.
    if family == "mpnet" and (
        config.pad_token_id != 1 or config.relative_attention_num_buckets < _BUCKETS
    ):
        raise ValueError(f"an MPNet pads with 1, and has {_BUCKETS} buckets of distances or more")
    return config


def text_config(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a configuration that a checkpoint keeps; others are dropped unread.

    A BERT's are without ``model_type``; a ``ValueError`` tells of what is out of range.
    """
    config = text_configuration(values)
    settings = settings_of(config)
    del settings["tie_word_embeddings"]
    more = {} if config.model_type == "bert" else {"model_type": config.model_type}
    if config.model_type != "mpnet":
        more["position_embedding_type"] = "absolute"
    last = settings.popitem()
    return {**settings, **more, last[0]: last[1]}


def longest_input(text: Mapping[str, Any]) -> int:
    """Most word pieces, special tokens included, that an encoder has positions for.

    Positions of RoBERTa and MPNet begin behind the padding's, at ``pad_token_id`` + 1.
    """
    positions = int(text["max_position_embeddings"])
    return positions if family_name(text) == "bert" else positions - int(text["pad_token_id"]) - 1


def mean_state(states: Tensor, real: Tensor | None) -> Tensor:
    """The mean over a sentence's pieces, special tokens included, of states [S, T, H].

    ``real`` is [S, T], 1 on pieces and 0 on padding; None where nothing is padded.

    Source: Reimers and Gurevych 2019 (Sentence-BERT), section 3; its library counts special
        tokens, too.
    """
    states = states.float()
    if real is None:
        return states.mean(dim=1)
    weights = real[..., None].to(states.dtype)
    return (states * weights).sum(dim=1) / weights.sum(dim=1)


def _network(config: Any) -> nn.Module:
    """An encoder with random weights."""
    if isinstance(config, BertConfig):
        return Bert(config)
    from transformers import MODEL_MAPPING

    network: Any = MODEL_MAPPING[type(config)]
    made: nn.Module = network(config, add_pooling_layer=False)
    return made


class TextEncoder(nn.Module):
    """A text encoder's pooled state and a map of it to D dimensions, linear or of two layers.

    ``config`` is of :func:`text_config`; ``pooling`` one of :data:`POOLINGS`.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        dimension: int = 128,
        head: str = "linear",
        pooling: str = "cls",
    ) -> None:
        super().__init__()
        self.family, self.pooling = family_name(config), pooling
        self.backbone: Any = _network(text_configuration(config))
        width = int(config["hidden_size"])
        self.projection: nn.Module = nn.Linear(width, dimension)
        if head == "mlp":
            self.projection = nn.Sequential(nn.Linear(width, width), nn.GELU(), self.projection)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Embed sentences as unit vectors [S, D].

        Args:
            input_ids: [S, T], word pieces with special tokens.
            attention_mask: [S, T], 1 on tokens and 0 on padding; or boolean [S, 1, T, T], the same
                for each piece; None where nothing is padded.
        """
        return self.project(self.states(input_ids, attention_mask))

    @property
    def trunk(self) -> nn.Module:
        """What makes states of pieces."""
        trunk: nn.Module = self.backbone
        return trunk

    def states(self, input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
        """Pooled states [S, H] of sentences, arguments as above."""
        real = attended = attention_mask
        if attention_mask is not None and attention_mask.ndim == 4:
            real = attention_mask[:, 0, 0]
            if self.family == "mpnet":  # it adds such a mask to its scores as it is
                barred = ~attention_mask[:, :, :1]
                lowest = torch.finfo(torch.float32).min
                attended = torch.zeros_like(barred, dtype=torch.float32).masked_fill(barred, lowest)
        found = self.backbone(input_ids=input_ids, attention_mask=attended)
        states: Tensor = found.last_hidden_state
        return states[:, 0] if self.pooling == "cls" else mean_state(states, real)

    def project(self, states: Tensor) -> Tensor:
        """Map states [S, H] to unit vectors [S, D]."""
        return F.normalize(self.projection(states), dim=-1)
