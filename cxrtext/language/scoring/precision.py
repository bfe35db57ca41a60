"""A masked language model arranged for scoring, in the precision asked for."""

import torch
from transformers import BertForMaskedLM

from cxrtext.errors import ConfigError
from cxrtext.language.scoring.layers import layers_of
from cxrtext.language.scoring.linear import can_pack
from cxrtext.language.scoring.masked_copies import SpecialIds, masked_copies
from cxrtext.language.scoring.masked_network import MaskedNetwork, make_network
from cxrtext.language.scoring.options import Precision, check_precision
from cxrtext.language.scoring.quantized import Ranges, can_quantize, make_quantized_layer

CALIBRATION_SENTENCES, CALIBRATION_PIECES, CALIBRATION_SEED = 32, 16, 1
"""What int8 takes its scales from: random word pieces, so that they depend on the model alone.
On a model trained on reports, scales from reports were measured and gave no smaller error."""


def _calibrate(model: BertForMaskedLM, special: SpecialIds) -> Ranges:
    """Ranges of all inputs of products, from sentences of random word pieces."""
    ranges = Ranges()
    network = make_network(model, torch.float32, ranges)
    generator = torch.Generator().manual_seed(CALIBRATION_SEED)
    length = min(CALIBRATION_PIECES, int(model.config.max_position_embeddings) - 2)
    ids = torch.randint(
        model.config.vocab_size, (CALIBRATION_SENTENCES, length), generator=generator
    )
    copies = masked_copies(ids, range(ids.numel()), length, special)
    network.log_probabilities(copies, special.mask)
    return ranges


def _quantized_network(model: BertForMaskedLM, special: SpecialIds) -> MaskedNetwork:
    if model.device.type != "cpu" or not can_quantize():
        raise ConfigError(
            "int8 needs a CPU with oneDNN's integer products, and this is none; "
            "take bfloat16 or float32"
        )
    dtype = torch.bfloat16 if can_pack(torch.bfloat16) else torch.float32
    ranges = _calibrate(model, special)
    layers = [
        make_quantized_layer(layer, number, ranges, dtype, model.config.hidden_act)
        for number, layer in enumerate(layers_of(model))
    ]
    return MaskedNetwork(model, layers, dtype)


def build_network(
    model: BertForMaskedLM, special: SpecialIds, precision: Precision
) -> MaskedNetwork:
    """Arrange a model for scoring.

    Args:
        model: The model, on its device.
        special: Ids of its special tokens.
        precision: Arithmetic of the network.

    Raises:
        ConfigError: The precision is unknown, or not to be had on the model's device.
    """
    check_precision(precision)
    if precision == "float16" and model.device.type == "cpu":
        raise ConfigError("float16 is for GPUs; on a CPU take bfloat16 or int8")
    if precision == "int8":
        return _quantized_network(model, special)
    return make_network(model, getattr(torch, precision))
