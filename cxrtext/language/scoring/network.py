"""BERT arranged to score one word piece in each of many masked copies of a sentence.

It leaves out what this does not need, with the same result.  Copies of a sentence share the first
layer's queries, keys and values, except those of [MASK].  The last layer and the projection onto
the vocabulary only compute the masked position.
"""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from cxrtext.language.scoring.linear import Linear, make_linear
from cxrtext.models.bert import Layer as BertLayer
from cxrtext.models.bert import MaskedBert


@dataclass(frozen=True, slots=True)
class SpecialIds:
    """Ids of the special tokens that a masked sentence needs."""

    begin: int
    end: int
    mask: int


@dataclass(frozen=True, slots=True)
class MaskedCopies:
    """Copies of texts of one length, each with one word piece masked, which is to be scored."""

    base: Tensor  # word pieces with special tokens, nothing masked, [S, T]
    owner: Tensor  # the text of each copy, [R]
    masked: Tensor  # where a copy has [MASK], [R, T]
    position: Tensor  # the column to score, [R]
    target: Tensor  # the original word piece there, [R]


def masked_copies(ids: Tensor, rows: range, window: int, special: SpecialIds) -> MaskedCopies:
    """Make the masked copies with the numbers ``rows`` for sentences of one length.

    A sentence longer than the window is not cut off: each word piece is scored in the window with
    the piece nearest to its middle, so every piece sees as much context as fits.  ``ids`` [S, n]
    have no special tokens; copy ``s · n + t`` scores piece t of sentence s.
    """
    length = ids.shape[1]
    width = min(length, window)
    row = torch.arange(rows.start, rows.stop, device=ids.device)
    sentence, place = row // length, row % length
    start = (place - width // 2).clamp(0, length - width)
    if length <= window:
        first = rows.start // length
        base = ids[first : (rows.stop - 1) // length + 1]
        owner = sentence - first
    else:
        base = ids[sentence[:, None], start[:, None] + torch.arange(width, device=ids.device)]
        owner = torch.arange(len(row), device=ids.device)
    column = torch.arange(width + 2, device=ids.device) - 1 + start[:, None]  # in the sentence
    masked = column == place[:, None]
    edge = base.new_ones(len(base), 1)
    framed = torch.cat([edge * special.begin, base, edge * special.end], dim=1)
    return MaskedCopies(framed, owner, masked, place - start + 1, ids[sentence, place])


class Norm:
    def __init__(self, module: nn.LayerNorm, dtype: torch.dtype) -> None:
        # torch accepts float32 weights with bfloat16 input on the CPU but not on a GPU.
        kept = torch.float32 if module.weight.device.type == "cpu" else dtype
        self.weight, self.bias = module.weight.detach().to(kept), module.bias.detach().to(kept)
        self.epsilon = module.eps

    def __call__(self, x: Tensor) -> Tensor:
        """Normalize [..., D]."""
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.epsilon)


@dataclass(frozen=True, slots=True)
class Layer:
    qkv: Linear  # to queries, keys and values side by side, D to 3 D
    query: Linear  # the first third of ``qkv``, D to D
    key_value: Linear  # the rest, D to 2 D
    mix: Linear  # after attention, D to D
    widen: Linear  # D to 4 D
    narrow: Linear  # back
    activation: str  # between the two
    attention_norm: Norm  # after ``mix`` and its residual
    output_norm: Norm  # after ``narrow`` and its residual


def make_layer(layer: BertLayer, dtype: torch.dtype, hidden_act: str) -> Layer:
    attention = layer.attention.self
    parts = [attention.query, attention.key, attention.value]
    weight = torch.cat([part.weight for part in parts])  # [3 D, D]
    bias = torch.cat([part.bias for part in parts])
    width = weight.shape[1]
    mix, widen, narrow = layer.attention.output, layer.intermediate.dense, layer.output.dense
    return Layer(
        qkv=make_linear(weight, bias, dtype),
        query=make_linear(weight[:width], bias[:width], dtype),
        key_value=make_linear(weight[width:], bias[width:], dtype),
        mix=make_linear(mix.dense.weight, mix.dense.bias, dtype),
        widen=make_linear(widen.weight, widen.bias, dtype),
        narrow=make_linear(narrow.weight, narrow.bias, dtype),
        activation=hidden_act,
        attention_norm=Norm(mix.LayerNorm, dtype),
        output_norm=Norm(layer.output.LayerNorm, dtype),
    )


class MaskedNetwork:
    """A masked language model for inference on masked copies.

    ``model`` is in evaluation mode; its weights are copied only if packing needs it.  ``dtype``
    (float32, bfloat16 or float16) is for everything except the embeddings and, on the CPU, the
    vocabulary projection, which stay float32: one word piece's result decides the score.
    """

    def __init__(self, model: MaskedBert, dtype: torch.dtype) -> None:
        self.dtype, self.activation = dtype, model.config.hidden_act
        layers = [cast(BertLayer, layer) for layer in model.bert.encoder.layer]
        self.layers = [make_layer(layer, dtype, self.activation) for layer in layers]
        self.heads = int(model.config.num_attention_heads)
        embeddings = model.bert.embeddings
        self.words = embeddings.word_embeddings.weight.detach()
        self.places = (
            embeddings.position_embeddings.weight + embeddings.token_type_embeddings.weight[0]
        ).detach()
        self.embedding_norm = Norm(embeddings.LayerNorm, torch.float32)
        head = model.cls.predictions
        head_dtype = torch.float32 if self.words.device.type == "cpu" else dtype
        self.transform = make_linear(
            head.transform.dense.weight, head.transform.dense.bias, head_dtype
        )
        self.transform_norm = Norm(head.transform.LayerNorm, head_dtype)
        self.decode = make_linear(head.decoder.weight, head.decoder.bias, head_dtype)

    @torch.inference_mode()
    def log_probabilities(self, copies: MaskedCopies, mask_id: int) -> Tensor:
        """Log-probability of each copy's word piece, float32 [R]; R copies of S sentences."""
        states = self._states(copies, mask_id)
        hidden = self.transform(states.to(self.transform.bias.dtype), self.activation)
        logits = self.decode(self.transform_norm(hidden)).float()  # [R, V]
        return logits.gather(1, copies.target[:, None])[:, 0] - logits.logsumexp(1)

    def _embed(self, copies: MaskedCopies, mask_id: int) -> tuple[Tensor, Tensor]:
        """Embeddings of all tokens, then of [MASK] at each place, and the rows for each copy.

        [S · T + T, D], and row numbers, [R · T].
        """
        count, length = copies.base.shape
        places = self.places[:length]
        plain = self.words[copies.base] + places  # [S, T, D]
        masked = self.words[mask_id] + places  # [T, D]
        table = self.embedding_norm(torch.cat([plain.flatten(0, 1), masked])).to(self.dtype)
        column = torch.arange(length, device=copies.base.device)
        first = torch.where(copies.masked, count * length, copies.owner[:, None] * length)
        return table, (first + column).flatten()

    def _states(self, copies: MaskedCopies, mask_id: int) -> Tensor:
        """The last layer's output at the masked places, [R, D]."""
        rows, length = copies.masked.shape
        table, index = self._embed(copies, mask_id)
        x = table.index_select(0, index)  # [R · T, D]
        asked = torch.arange(rows, device=x.device) * length + copies.position
        for number, layer in enumerate(self.layers):
            if number == 0:
                # Until attention mixes them, a copy's tokens are those of the sentence.
                qkv = layer.qkv(table).index_select(0, index)
            elif number == len(self.layers) - 1:
                key_value = layer.key_value(x)
                x = x.index_select(0, asked)
                x = self._finish(layer, x, self._attend(layer.query(x), key_value, rows))
                continue
            else:
                qkv = layer.qkv(x)
            width = x.shape[1]
            query, key_value = qkv[:, :width], qkv[:, width:]
            if number == len(self.layers) - 1:
                query, x = query.index_select(0, asked), x.index_select(0, asked)
            x = self._finish(layer, x, self._attend(query, key_value, rows))
        return x

    def _attend(self, query: Tensor, key_value: Tensor, rows: int) -> Tensor:
        """Attention of [R · Q, D] over [R · T, 2 D]; R copies with Q queries each."""
        width = query.shape[1]
        size = width // self.heads
        q = query.unflatten(0, (rows, -1)).unflatten(2, (self.heads, size)).transpose(1, 2)
        kv = key_value.unflatten(0, (rows, -1)).unflatten(2, (2, self.heads, size))
        k, v = kv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v)  # [R, heads, Q, size]
        return mixed.transpose(1, 2).reshape(-1, width)

    def _finish(self, layer: Layer, x: Tensor, mixed: Tensor) -> Tensor:
        """The second half of a layer, after attention."""
        x = layer.attention_norm(layer.mix.add_to(x, mixed))
        return layer.output_norm(layer.narrow.add_to(x, layer.widen(x, layer.activation)))
