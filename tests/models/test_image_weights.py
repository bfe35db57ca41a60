"""Weights in others' layouts, against what torchvision computes, written here."""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from cxrtext.errors import CheckpointError
from cxrtext.images import Preprocessing
from cxrtext.models.image_encoder import ImageEncoder
from cxrtext.models.image_weights import load_image_weights, set_norms
from cxrtext.models.resnet import ResNet
from cxrtext.models.weight_files import save_sealed
from tests.conftest import flip
from tests.grids import some

State = dict[str, Tensor]
BLOCKS = {"resnet18": (2, 2, 2, 2), "resnet50": (3, 4, 6, 3)}


@cache
def torchvision_state(name: str, channels: int = 3) -> State:
    """Random tensors of a ResNet under torchvision's names."""
    state: State = {}
    generator = torch.Generator().manual_seed(0)

    def add(conv: str, norm: str, out: int, into: int, side: int) -> None:
        weight = torch.randn(out, into, side, side, generator=generator)
        state[f"{conv}.weight"] = weight / weight[0].numel() ** 0.5
        for part in ("weight", "running_var"):
            state[f"{norm}.{part}"] = torch.rand(out, generator=generator) + 0.5
        for part in ("bias", "running_mean"):
            state[f"{norm}.{part}"] = torch.randn(out, generator=generator) / 10
        state[f"{norm}.num_batches_tracked"] = torch.tensor(0)

    add("conv1", "bn1", 64, channels, 7)
    into = 64
    for stage, blocks in enumerate(BLOCKS[name], 1):
        width = 32 * 2**stage
        deep = [(width, 1), (width, 3), (4 * width, 1)]
        widths = deep if name == "resnet50" else [(width, 3)] * 2
        for at in (f"layer{stage}.{block}" for block in range(blocks)):
            given = into
            for k, (out, side) in enumerate(widths, 1):
                add(f"{at}.conv{k}", f"{at}.bn{k}", out, into, side)
                into = out
            if given != into:
                add(f"{at}.downsample.0", f"{at}.downsample.1", into, given, 1)
    return {**state, "fc.weight": torch.zeros(10, into), "fc.bias": torch.zeros(10)}


def torchvision_features(state: State, x: Tensor) -> Tensor:
    """What torchvision computes up to its last feature map."""

    def normed(conv: str, norm: str, x: Tensor, stride: int = 1) -> Tensor:
        weight = state[f"{conv}.weight"]
        x = F.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)
        parts = ("running_mean", "running_var", "weight", "bias")
        mean, variance, scale, bias = (state[f"{norm}.{part}"] for part in parts)
        return F.batch_norm(x, mean, variance, scale, bias)

    x = F.max_pool2d(F.relu(normed("conv1", "bn1", x, 2)), 3, stride=2, padding=1)
    for at in dict.fromkeys(name[:8] for name in state if name.startswith("layer")):
        stride = 2 if at.endswith(".0") and at != "layer1.0" else 1
        y, last = x, 3 if f"{at}.conv3.weight" in state else 2
        for k in range(1, last + 1):
            # BasicBlock has the stride in its first convolution, Bottleneck in its second.
            y = normed(f"{at}.conv{k}", f"{at}.bn{k}", y, stride if k == last - 1 else 1)
            y = F.relu(y) if k < last else y
        if f"{at}.downsample.0.weight" in state:
            x = normed(f"{at}.downsample.0", f"{at}.downsample.1", x, stride)
        x = F.relu(y + x)
    return x


@torch.inference_mode()
def check_features(encoder: ImageEncoder, state: State, size: int) -> None:
    """An encoder computes of one channel what torchvision does of three equal ones."""
    gray = torch.randn(1, 1, size, size, generator=torch.Generator().manual_seed(9))
    found = encoder.eval().backbone(gray).last_hidden_state
    wanted = torchvision_features(state, gray.expand(-1, 3, -1, -1))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def others(encoder: ImageEncoder) -> State:
    return {n: x.clone() for n, x in encoder.state_dict().items() if "backbone" not in n}


def same(one: State, other: State) -> bool:
    return one.keys() == other.keys() and all(torch.equal(x, other[n]) for n, x in one.items())


GRAY = {"image_mean": [0.0], "image_std": [1.0]}


def write(
    folder: Path, state: Any, name: str = "weights.pt", levels: Mapping[str, Any] = GRAY
) -> Path:
    save = save_file if name.endswith(".safetensors") else torch.save
    save(state, folder / name)
    (folder / "preprocessor_config.json").write_text(json.dumps({"size": 384, **levels}))
    return folder / name


@pytest.mark.parametrize("name", some(["resnet18", "resnet50"], 2))  # BioViL's is a ResNet-50
def test_torchvision_weights_compute_what_torchvision_does(name: str, tmp_path: Path) -> None:
    state = torchvision_state(name)
    encoder = ImageEncoder(name, 16)
    before = others(encoder)
    summary = load_image_weights(encoder, write(tmp_path, state)).line
    check_features(encoder, state, 97)
    assert same(others(encoder), before)
    assert summary.startswith(f"{len(state) - 2} tensors of a ResNet of ")
    assert "summed over three channels" in summary
    assert summary.endswith("; ignored: 'fc.bias', 'fc.weight'")


def test_biovil_s_trunk_is_taken_and_its_projector_is_not(tmp_path: Path) -> None:
    encoder, trunk = ImageEncoder("resnet50", 128), torchvision_state("resnet50")
    before = others(encoder)
    convolutions = nn.Conv2d(2048, 128, 1, bias=False), nn.Conv2d(128, 128, 1)
    projector = nn.Sequential(convolutions[0], nn.BatchNorm2d(128), nn.ReLU(), convolutions[1])
    state = {f"encoder.encoder.{name}": x for name, x in trunk.items()}
    state |= projector.state_dict(prefix="projector.model.")
    summary = load_image_weights(encoder, write(tmp_path, state)).line
    check_features(encoder, trunk, 65)
    assert same(others(encoder), before)
    assert "projection" not in summary
    assert "ignored: 'encoder.encoder.fc.bias', 'encoder.encoder.fc.weight'" in summary


@pytest.mark.parametrize("prefix", some(["resnet.", "", "image_encoder.backbone."], 3))
def test_transformers_layout_and_this_programs_own(prefix: str, tmp_path: Path) -> None:
    torch.manual_seed(1)
    source, encoder = ImageEncoder("resnet18", 16), ImageEncoder("resnet18", 16)
    state = {prefix + n: x for n, x in source.backbone.state_dict().items()}
    for name in ("projection.weight", *(f"backbone.layer.{i}.weight" for i in range(9))):
        state[f"text_encoder.{name}"] = torch.zeros(2)
    summary = load_image_weights(encoder, write(tmp_path, state, "model.safetensors")).line
    assert same(encoder.backbone.state_dict(), source.backbone.state_dict())
    assert "; ignored: 'text_encoder." in summary


# A file becomes tensors before their names are looked at: each format once.
@pytest.mark.parametrize(
    ("prefix", "file"), [("model.", "w.pth"), ("module.", "w.bin"), ("a.b.", "w.safetensors")]
)
def test_prefixes_and_formats(prefix: str, file: str, tmp_path: Path) -> None:
    state = torchvision_state("resnet18", channels=1)
    counters = [name for name in state if name.endswith("num_batches_tracked")]
    wrapped = {prefix + name: x for name, x in state.items() if name not in counters}
    nested = file.endswith(".pth")
    path = write(tmp_path, {"epoch": 3, "state_dict": wrapped} if nested else wrapped, file)
    encoder = ImageEncoder("resnet18", 16)
    summary = load_image_weights(encoder, path).line
    assert "channels" not in summary
    torch.testing.assert_close(
        encoder.backbone.state_dict()["encoder.stages.3.layers.1.layer.1.convolution.weight"],
        state["layer4.1.conv2.weight"],
    )
    stem = encoder.backbone.state_dict()["embedder.embedder.convolution.weight"]
    torch.testing.assert_close(stem, state["conv1.weight"])


def change(name: str, value: Tensor | None) -> Callable[[State], State]:
    def changed(state: State) -> State:
        state = {n: x for n, x in state.items() if n != name}
        return state if value is None else {**state, name: value}

    return changed


@pytest.mark.parametrize(
    ("mend", "message"),
    [
        (change("layer2.0.conv1.weight", None), "missing: .*stages.1.layers.0"),
        (change("layer1.0.se.weight", torch.zeros(1)), "unexpected: .*se.weight"),
        (change("layer1.1.bn2.bias", torch.zeros(3)), r"has shape \[3\], not \[64\]"),
        (change("layer1.1.bn2.bias", torch.zeros(64, dtype=torch.int8)), "of type torch.int8"),
        (change("layer1.1.bn2.bias", torch.full((64,), torch.nan)), "not finite"),
        (change("conv1.weight", torch.zeros(64, 4, 7, 7)), r"\[64, 4, 7, 7\], not one or three"),
        (change("conv1.weight", None), "holds no ResNet"),
        (lambda s: {**s, **{f"teacher.{n}": x for n, x in s.items()}}, "2 ResNets .*teacher"),
        (
            lambda _: torchvision_state("resnet50"),
            "is not a ResNet of 2-2-2-2 basic blocks: .*unexpected",
        ),
    ],
)
def test_other_weights_are_refused_and_change_nothing(
    mend: Callable[[State], State], message: str, tmp_path: Path
) -> None:
    path = write(tmp_path, mend(torchvision_state("resnet18")))
    encoder = ImageEncoder("resnet18", 16)
    before = {name: x.clone() for name, x in encoder.state_dict().items()}
    with pytest.raises(CheckpointError, match=f"weights.pt: .*{message}"):
        load_image_weights(encoder, path)
    assert same(encoder.state_dict(), before)


def test_a_configuration_that_tensors_do_not_show_is_refused(tmp_path: Path) -> None:
    source = ImageEncoder("resnet50", 16).backbone
    path = write(tmp_path, dict(source.state_dict()), "model.safetensors")
    config = {"model_type": "resnet", **asdict(source.config)}
    (tmp_path / "config.json").write_text(json.dumps(config))
    load_image_weights(ImageEncoder("resnet50", 16), path)
    (tmp_path / "config.json").write_text(json.dumps({**config, "downsample_in_bottleneck": True}))
    with pytest.raises(CheckpointError, match="downsample_in_bottleneck is True"):
        load_image_weights(ImageEncoder("resnet50", 16), path)
    (tmp_path / "config.json").unlink()
    os.mkfifo(tmp_path / "config.json")  # nobody ever writes into it
    with pytest.raises(CheckpointError, match=r"config.json: not a readable JSON file"):
        load_image_weights(ImageEncoder("resnet50", 16), path)


def test_unreadable_files(tmp_path: Path) -> None:
    encoder = ImageEncoder("resnet18", 16)
    with pytest.raises(CheckpointError, match="no such file"):
        load_image_weights(encoder, tmp_path / "none.pt")
    for name in ("a.pt", "a.safetensors"):
        (tmp_path / name).write_bytes(b"not weights")
        with pytest.raises(CheckpointError, match=f"{name}: not"):
            load_image_weights(encoder, tmp_path / name)
    with pytest.raises(CheckpointError, match="could run code"):
        load_image_weights(encoder, write(tmp_path, ImageEncoder("resnet-narrow", 4), "module.pt"))
    with pytest.raises(CheckpointError, match="no tensors by name"):
        load_image_weights(encoder, write(tmp_path, [torch.zeros(1)], "list.pt"))


def test_weights_of_the_program_are_compared_with_their_digest(tmp_path: Path) -> None:
    path, encoder = tmp_path / "encoder.safetensors", ImageEncoder("resnet-narrow")
    notes = {"preprocessing": Preprocessing().to_dict()}
    save_sealed(path, encoder.state_dict(), notes)
    load_image_weights(encoder, path)
    flip(path, -3)
    with pytest.raises(CheckpointError, match="its digest differs"):
        load_image_weights(encoder, path)


def test_the_source_s_levels_filter_and_fit_are_taken_along(tmp_path: Path) -> None:
    """Weights of photographs see a radiograph as their own code shows it to them."""
    torch.manual_seed(5)
    encoder = ImageEncoder("resnet18", 16)
    source = ResNet(replace(encoder.backbone.config, num_channels=3))
    levels = {
        "image_processor_type": "ViTImageProcessor",
        "resample": 3,
        "image_mean": [0.485, 0.456, 0.406],
        "image_std": [0.229, 0.224, 0.225],
    }
    path = write(tmp_path, source.state_dict(), "model.safetensors", levels)
    start = load_image_weights(encoder, path)
    own = start.prepared(256, 224)
    assert (own.resize, own.crop, own.resample, own.fit) == (256, 224, "bicubic", "stretch")
    assert own.mean == pytest.approx(0.449)
    assert own.std == 1.0  # taken into the weights
    gray = torch.rand(1, 1, 224, 224, generator=torch.Generator().manual_seed(1))
    mean, std = (torch.tensor(levels[f"image_{x}"]).view(1, 3, 1, 1) for x in ("mean", "std"))
    with torch.inference_mode():
        wanted = source.eval()((gray - mean) / std).last_hidden_state
        prepared = (gray - own.mean) / own.std
        found = encoder.eval().backbone(prepared).last_hidden_state
    # At the border the channels' black differs.
    torch.testing.assert_close(found, wanted, rtol=0, atol=0.05 * float(wanted.std()))


def test_weights_start_alike_whatever_scale_their_source_was_fed_in(tmp_path: Path) -> None:
    """A step of AdamW, which takes no heed of a weight's size, then changes as little of each."""
    state = torchvision_state("resnet18")
    bytes_as_they_are = {**state, "conv1.weight": state["conv1.weight"] / 255}
    started = []
    for name, tensors, std in ("unit", state, 1.0), ("bytes", bytes_as_they_are, 1 / 255):
        (tmp_path / name).mkdir()
        levels = {"image_mean": [0.5] * 3, "image_std": [std] * 3}
        encoder = ImageEncoder("resnet18", 16)
        start = load_image_weights(encoder, write(tmp_path / name, tensors, levels=levels))
        started.append(encoder.backbone.state_dict())
        assert (start.preprocessing.mean, start.preprocessing.std) == (0.5, 1.0)
    unit, others_fed = started
    for name, tensor in unit.items():
        torch.testing.assert_close(others_fed[name], tensor, rtol=1e-5, atol=1e-6)


def test_a_scale_that_is_not_known_is_asked_for(tmp_path: Path) -> None:
    path = write(tmp_path, torchvision_state("resnet18"))
    (tmp_path / "preprocessor_config.json").unlink()
    with pytest.raises(CheckpointError, match="scaled is not known; copy it from the model, or wr"):
        load_image_weights(ImageEncoder("resnet18", 16), path)


def test_folded_norms_are_set_so_that_training_sees_the_source_s_features() -> None:
    torch.manual_seed(6)
    network = ImageEncoder("resnet18", 16).backbone.eval()
    images = torch.rand(16, 1, 96, 96, generator=torch.Generator().manual_seed(2))
    with torch.inference_mode():
        source = network(images).last_hidden_state
        set_norms(network, [images[:7], images[7:]])
        kept = network(images).last_hidden_state
        trained = network.train()(images).last_hidden_state
    torch.testing.assert_close(kept, source, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(trained, source, rtol=1e-3, atol=1e-3)
