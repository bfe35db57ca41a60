"""The text encoder: a BERT, RoBERTa or MPNet, its pooled state, and a map to the joint space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
import torch.nn.functional as F
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

TEXT_HEADS = ("linear", "mlp")
POOLINGS = ("cls", "mean")
"""The state of the first piece (``[CLS]``, ``<s>``), or the mean over a sentence's pieces."""

Positive = Annotated[int, Field(gt=0, le=1_000_000)]
Share = Annotated[float, Field(ge=0, lt=1)]


class EncoderConfig(BaseModel):
    """The keys of a ``config.json`` that are read of any family; every other key is dropped.

    A folder's configuration can name code to run (``auto_map``), kernels to fetch
    (``_attn_implementation``) and more; none of that gets past this list.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    vocab_size: Positive
    hidden_size: Annotated[int, Field(gt=0, le=16_384)]
    num_hidden_layers: Annotated[int, Field(gt=0, le=200)]
    num_attention_heads: Annotated[int, Field(gt=0, le=1024)]
    intermediate_size: Annotated[int, Field(gt=0, le=131_072)]
    hidden_act: Literal["gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu"] = "gelu"
    hidden_dropout_prob: Share = 0.1
    attention_probs_dropout_prob: Share = 0.1
    max_position_embeddings: Annotated[int, Field(gt=2, le=100_000)] = 512
    initializer_range: Annotated[float, Field(gt=0, le=1)] = 0.02
    layer_norm_eps: Annotated[float, Field(gt=0, le=1)] = 1e-12
    tie_word_embeddings: bool = True
    pad_token_id: Annotated[int, Field(ge=0)] = 0


class BertKeys(EncoderConfig):
    """What is read of a BERT's configuration, or CXR-BERT's."""

    model_type: Literal["bert", "cxr-bert"]
    position_embedding_type: Literal["absolute"] = "absolute"
    type_vocab_size: Annotated[int, Field(gt=0, le=1024)] = 2


class RobertaKeys(EncoderConfig):
    """What is read of a RoBERTa's configuration."""

    model_type: Literal["roberta"]
    position_embedding_type: Literal["absolute"] = "absolute"
    type_vocab_size: Annotated[int, Field(gt=0, le=1024)] = 2
    pad_token_id: Annotated[int, Field(ge=0)] = 1


class MPNetKeys(EncoderConfig):
    """What is read of an MPNet's configuration.

    transformers' MPNet counts positions from 2 whatever it pads with, and has 32 buckets of
    distances whatever the configuration says.
    """

    model_type: Literal["mpnet"]
    relative_attention_num_buckets: Annotated[int, Field(ge=32, le=1024)] = 32
    pad_token_id: Annotated[int, Field(ge=1, le=1)] = 1


@dataclass(frozen=True, slots=True)
class Family:
    keys: type[EncoderConfig]  # what is read of its configuration
    config: str  # the name of transformers' class of configurations
    network: str  # that of its encoder
    prefix: str  # what stands before the encoder's names where it was saved with a head
    decoder: str  # the head's copy of the embeddings, in such a file

    def build(self, values: Mapping[str, Any]) -> Any:
        """The encoder, without a pooling layer, with random weights."""
        import transformers

        given = {key: value for key, value in values.items() if key != "model_type"}
        config = getattr(transformers, self.config)(**given)
        return getattr(transformers, self.network)(config, add_pooling_layer=False)


FAMILIES = {
    "bert": Family(BertKeys, "BertConfig", "BertModel", "bert.", "cls.predictions.decoder."),
    "roberta": Family(RobertaKeys, "RobertaConfig", "RobertaModel", "roberta.", "lm_head.decoder."),
    "mpnet": Family(MPNetKeys, "MPNetConfig", "MPNetModel", "mpnet.", "lm_head.decoder."),
}
"""All that a text encoder can be; a folder cannot name anything else."""
MODEL_TYPES = {"cxr-bert": "bert", **{name: name for name in FAMILIES}}
"""The family of each ``model_type`` that a configuration may have."""


def family_name(text: Mapping[str, Any]) -> str:
    """The family of a text encoder by what a checkpoint keeps of it; BERT where nothing is said."""
    return str(text.get("model_type", "bert"))


def text_config(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a configuration that a checkpoint keeps; others are dropped unread.

    A BERT's are without ``model_type``; a ``ValueError`` tells of what is missing or out of range.
    """
    if (family := MODEL_TYPES.get(str(values.get("model_type", "bert")))) is None:
        raise ValueError(
            f"no text encoder '{values['model_type']}'; there are {', '.join(FAMILIES)}"
        )
    checked = FAMILIES[family].keys.model_validate({**values, "model_type": family})
    dropped = {"tie_word_embeddings"} | ({"model_type"} if family == "bert" else set())
    return checked.model_dump(exclude=dropped)


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
        self.backbone: Any = FAMILIES[self.family].build(config)
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
