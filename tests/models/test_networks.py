"""Our BERT and ResNet are transformers', to the bit: new weights, states, gradients, dropout."""

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

from cxrtext.models.bert import ACTIVATIONS, Bert, BertConfig, MaskedBert
from cxrtext.models.image_encoder import ARCHITECTURES, ImageEncoder
from cxrtext.models.resnet import ResNet

SIZES: dict[str, Any] = {
    **{"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
    **{"intermediate_size": 64, "max_position_embeddings": 24, "initializer_range": 0.1},
}


def seeded(make: Any, *given: Any, **named: Any) -> tuple[nn.Module, Tensor]:
    """A new network, and what is drawn after it."""
    torch.manual_seed(3)
    network: nn.Module = make(*given, **named)
    return network, torch.rand(3)


def check_new(ours: tuple[nn.Module, Tensor], theirs: tuple[nn.Module, Tensor]) -> None:
    assert torch.equal(ours[1], theirs[1])
    assert [n for n, _ in ours[0].named_parameters()] == [
        n for n, _ in theirs[0].named_parameters()
    ]
    own, wanted = ours[0].state_dict(), theirs[0].state_dict()
    assert own.keys() == wanted.keys()
    assert all(torch.equal(own[name], wanted[name]) for name in wanted)


def check_step(ours: nn.Module, theirs: nn.Module, *given: Any) -> None:
    found = []
    for network in (ours, theirs):
        torch.manual_seed(1)
        states = network(*given)
        values = states if isinstance(states, Tensor) else states[0]
        network.zero_grad()
        values.square().mean().backward()
        found.append([values, *(p.grad for p in network.parameters())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-6)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_bert(activation: str, training: bool) -> None:
    config = BertConfig(hidden_act=activation, **SIZES)
    theirs = transformers.BertConfig(**asdict(config))
    ours = seeded(MaskedBert, config)
    masked = seeded(transformers.BertForMaskedLM, theirs)
    check_new(ours, masked)
    plain = seeded(Bert, config), seeded(transformers.BertModel, theirs, add_pooling_layer=False)
    check_new(*plain)
    ids = torch.randint(5, 99, (6, 11), generator=torch.Generator().manual_seed(0))
    real = torch.ones_like(ids)
    real[:3, 7:] = 0
    for mask in (None, torch.ones_like(ids), real, real.bool()[:, None, None].expand(6, 1, 11, 11)):
        check_step(ours[0].train(training), masked[0].train(training), ids, mask)
        check_step(plain[0][0].train(training), plain[1][0].train(training), ids, mask)


@pytest.mark.parametrize("architecture", [n for n in ARCHITECTURES if n != "resnet-narrow"])
def test_resnet(architecture: str) -> None:
    config = ImageEncoder(architecture).backbone.config
    values = asdict(config)
    del values["pools"]
    ours = seeded(ResNet, config)
    theirs = seeded(transformers.ResNetModel, transformers.ResNetConfig(**values))
    check_new(ours, theirs)
    images = torch.rand(2, 1, 64, 64, generator=torch.Generator().manual_seed(0))
    for training in (True, False):
        check_step(ours[0].train(training), theirs[0].train(training), images)


def test_an_own_model_needs_no_transformers_and_no_compiler(
    checkpoint: Path,
) -> None:
    code = (
        "import sys\nsys.modules |= dict.fromkeys(('transformers', 'sympy'))\n"  # torch.compile's
        "import torch\nfrom cxrtext.models import load_model\n"
        f"model = load_model({str(checkpoint)!r})\n"
        "print(model.embed_sentences(['No effusion.']).shape)\n"
        "print(model.embed_images(torch.zeros(1, 1, 64, 64)).shape[0])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.stdout.splitlines()[1:] == ["1"], done.stderr
