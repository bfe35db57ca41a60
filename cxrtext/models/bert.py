"""BERT, with and without its language-model head, for training, scoring and serving.

Tensors have transformers' names, and a new network draws the same weights, so both compute the
same.  transformers itself is not imported, because that takes seconds.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "gelu": nn.GELU,
    "gelu_new": lambda: nn.GELU("tanh"),
    "gelu_pytorch_tanh": lambda: nn.GELU("tanh"),
    "relu": nn.ReLU,
    "silu": nn.SiLU,
}
"""By transformers' names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BertConfig:
    """The keys read from a BERT's ``config.json``, with transformers' defaults."""

    model_type: ClassVar = "bert"
    vocab_size: int = 30_522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    initializer_range: float = 0.02
    layer_norm_eps: float = 1e-12
    tie_word_embeddings: bool = True
    pad_token_id: int = 0
    type_vocab_size: int = 2


class States(NamedTuple):
    """A network's output, with transformers' name."""

    last_hidden_state: Tensor


class Embeddings(nn.Module):
    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.word_embeddings = nn.Embedding(
            config.vocab_size, width, padding_idx=config.pad_token_id
        )
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, input_ids: Tensor) -> Tensor:
        words: Tensor = self.word_embeddings(input_ids)
        words = words + self.token_type_embeddings(torch.zeros_like(input_ids))
        places = torch.arange(input_ids.shape[1], device=input_ids.device)
        embedded: Tensor = self.LayerNorm(words + self.position_embeddings(places[None]))
        dropped: Tensor = self.dropout(embedded)
        return dropped


class SelfAttention(nn.Module):
    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.size = width // config.num_attention_heads
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, width)
        self.value = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        q, k, v = (
            part(x).unflatten(-1, (-1, self.size)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        dropped = self.dropout.p if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropped)
        return mixed.transpose(1, 2).flatten(2)


class Residual(nn.Module):
    """A linear map, added to the earlier states and normalized."""

    def __init__(self, inputs: int, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, x: Tensor, before: Tensor) -> Tensor:
        normalized: Tensor = self.LayerNorm(self.dropout(self.dense(x)) + before)
        return normalized


class Attention(nn.Module):
    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.self = SelfAttention(config)
        self.output = Residual(config.hidden_size, config)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        mixed: Tensor = self.output(self.self(x, mask), x)
        return mixed


class Dense(nn.Module):
    """A linear map and an activation."""

    def __init__(self, inputs: int, outputs: int, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, outputs)
        self.activation: nn.Module = ACTIVATIONS[config.hidden_act]()

    def forward(self, x: Tensor) -> Tensor:
        activated: Tensor = self.activation(self.dense(x))
        return activated


class Layer(nn.Module):
    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.intermediate = Dense(config.hidden_size, config.intermediate_size, config)
        self.output = Residual(config.intermediate_size, config)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = self.attention(x, mask)
        states: Tensor = self.output(self.intermediate(x), x)
        return states


class Encoder(nn.Module):
    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.layer = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        for layer in self.layer:
            x = layer(x, mask)
        return x


class Bert(nn.Module):
    """The encoder, without a pooling layer."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)
        initialize(self, config)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> States:
        """States [S, T, H] of word pieces [S, T].

        Args:
            attention_mask: [S, T], 1 on tokens and 0 on padding; or boolean, to be broadcast to
                [S, 1, T, T]; None without padding.
        """
        mask = attention_mask
        if mask is not None and mask.ndim == 2:
            real, count = mask.bool(), mask.shape[1]
            # Only checked on a CPU, where it does not wait for the device.
            is_full = real.device.type == "cpu" and bool(real.all())
            mask = None if is_full else real[:, None, None].expand(-1, 1, count, -1)
        return States(self.encoder(self.embeddings(input_ids), mask))


class Transform(Dense):
    def __init__(self, config: BertConfig) -> None:
        super().__init__(config.hidden_size, config.hidden_size, config)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, x: Tensor) -> Tensor:
        normalized: Tensor = self.LayerNorm(super().forward(x))
        return normalized


class Predictions(nn.Module):
    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.transform = Transform(config)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.decoder.bias = self.bias

    def forward(self, states: Tensor) -> Tensor:
        logits: Tensor = self.decoder(self.transform(states))
        return logits


class Head(nn.Module):
    """The language model's head: logits [..., V] of states [..., H]."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.predictions = Predictions(config)

    def forward(self, states: Tensor) -> Tensor:
        logits: Tensor = self.predictions(states)
        return logits


class MaskedBert(nn.Module):
    """A BERT with its language-model head (transformers' ``BertForMaskedLM``)."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.bert = Bert(config)
        self.cls = Head(config)
        initialize(self.cls, config)
        if config.tie_word_embeddings:
            self.cls.predictions.decoder.weight = self.bert.embeddings.word_embeddings.weight

    @property
    def device(self) -> torch.device:
        return self.cls.predictions.bias.device

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Logits [S, T, V] of word pieces; arguments as in :class:`Bert`."""
        logits: Tensor = self.cls(self.bert(input_ids, attention_mask).last_hidden_state)
        return logits


@torch.no_grad()
def initialize(network: nn.Module, config: BertConfig) -> None:
    """Draw new weights like BERT's authors, in transformers' order."""

    def draw(module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            module.weight.normal_(0.0, config.initializer_range or 0.02)
        if isinstance(module, nn.Linear):
            module.bias.zero_()
        elif isinstance(module, nn.Embedding) and module.padding_idx is not None:
            module.weight[module.padding_idx].zero_()

    network.apply(draw)
