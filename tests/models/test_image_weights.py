"""Weights written key by key in others' layouts, against their networks written as functions."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from cxrtext.errors import CheckpointError
from cxrtext.models.image_encoder import ImageEncoder
from cxrtext.models.image_weights import load_image_weights
from cxrtext.models.weight_files import save_sealed
from tests.grids import some

State = dict[str, Tensor]
BLOCKS = {"resnet18": (2, 2, 2, 2), "resnet50": (3, 4, 6, 3)}


def write_norm(state: State, name: str, channels: int) -> None:
    state[f"{name}.weight"] = torch.rand(channels) + 0.5
    state[f"{name}.bias"] = torch.randn(channels) * 0.1
    state[f"{name}.running_mean"] = torch.randn(channels) * 0.1
    state[f"{name}.running_var"] = torch.rand(channels) + 0.5
    state[f"{name}.num_batches_tracked"] = torch.tensor(7)


def write_convolution(state: State, name: str, out: int, into: int, size: int) -> None:
    state[f"{name}.weight"] = torch.randn(out, into, size, size) / (into * size * size) ** 0.5


def torchvision_state(name: str, channels: int = 3) -> State:
    """A ResNet's tensors under torchvision's names, in its order."""
    return dict(_torchvision_state(name, channels))


@cache
def _torchvision_state(name: str, channels: int) -> State:
    torch.manual_seed(0)
    state: State = {}
    write_convolution(state, "conv1", 64, channels, 7)
    write_norm(state, "bn1", 64)
    into = 64
    for stage, blocks in enumerate(BLOCKS[name]):
        width = 64 * 2**stage
        for block in range(blocks):
            at = f"layer{stage + 1}.{block}"
            if name == "resnet50":
                sizes = [(width, into, 1), (width, width, 3), (4 * width, width, 1)]
            else:
                sizes = [(width, into, 3), (width, width, 3)]
            for k, (out, source, size) in enumerate(sizes, 1):
                write_convolution(state, f"{at}.conv{k}", out, source, size)
                write_norm(state, f"{at}.bn{k}", out)
            out = sizes[-1][0]
            if block == 0 and (stage > 0 or out != into):
                write_convolution(state, f"{at}.downsample.0", out, into, 1)
                write_norm(state, f"{at}.downsample.1", out)
            into = out
    state["fc.weight"], state["fc.bias"] = torch.randn(10, into), torch.randn(10)
    return state


def normalize(state: State, name: str, x: Tensor) -> Tensor:
    mean, var = state[f"{name}.running_mean"], state[f"{name}.running_var"]
    return F.batch_norm(x, mean, var, state[f"{name}.weight"], state[f"{name}.bias"])


def torchvision_forward(state: State, name: str, x: Tensor, stride_in: int = 2) -> Tensor:
    """What torchvision computes up to its last feature map.

    Args:
        state: Without prefix.
        name: The architecture.
        x: [B, channels, H, W].
        stride_in: The convolution of a bottleneck that has the stride: 2 in torchvision, 1 in the
            original paper.
    """
    x = F.conv2d(x, state["conv1.weight"], stride=2, padding=3)
    x = F.max_pool2d(F.relu(normalize(state, "bn1", x)), 3, stride=2, padding=1)
    for stage, blocks in enumerate(BLOCKS[name], 1):
        for block in range(blocks):
            at, stride = f"layer{stage}.{block}", 2 if stage > 1 and block == 0 else 1
            y, last = x, 3 if name == "resnet50" else 2
            strided = stride_in if name == "resnet50" else 1
            for k in range(1, last + 1):
                weight = state[f"{at}.conv{k}.weight"]
                step = stride if k == strided else 1
                y = F.conv2d(y, weight, stride=step, padding=weight.shape[-1] // 2)
                y = normalize(state, f"{at}.bn{k}", y)
                y = F.relu(y) if k < last else y
            if f"{at}.downsample.0.weight" in state:
                x = F.conv2d(x, state[f"{at}.downsample.0.weight"], stride=stride)
                x = normalize(state, f"{at}.downsample.1", x)
            x = F.relu(x + y)
    return x


def biovil_state() -> State:
    """BioViL's image model: a ResNet-50 with its unused head, and a projector."""
    trunk = torchvision_state("resnet50")
    state = {f"encoder.encoder.{name}": x for name, x in trunk.items()}
    write_convolution(state, "projector.model.0", 128, 2048, 1)
    write_norm(state, "projector.model.1", 128)
    write_convolution(state, "projector.model.3", 128, 128, 1)
    state["projector.model.3.bias"] = torch.randn(128)
    return state


def features(encoder: ImageEncoder, gray: Tensor) -> Tensor:
    with torch.inference_mode():
        found: Tensor = encoder.eval().backbone(gray).last_hidden_state
    return found


def grey_image(size: int = 65) -> Tensor:
    return torch.randn(1, 1, size, size, generator=torch.Generator().manual_seed(9))


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes tensors in the format that a name asks for."""

    def to_file(state: object, name: str = "weights.pt") -> Path:
        path = tmp_path / name
        if path.suffix == ".safetensors":
            assert isinstance(state, dict)
            save_file(state, path)
        else:
            torch.save(state, path)
        return path

    return to_file


@pytest.mark.parametrize("name", some(["resnet18", "resnet50"], 2))  # BioViL's is a ResNet-50
def test_torchvision_weights_compute_what_torchvision_does(
    name: str, write: Callable[..., Path]
) -> None:
    state = torchvision_state(name)
    encoder = ImageEncoder(name, 16)
    before = encoder.projection.weight.detach().clone()
    summary = load_image_weights(encoder, write(state))
    gray = grey_image(97)
    expected = torchvision_forward(state, name, gray.expand(-1, 3, -1, -1))
    found = features(encoder, gray)
    assert found.shape == expected.shape == (1, 512 if name == "resnet18" else 2048, 4, 4)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert torch.equal(encoder.projection.weight, before)
    trunk = len(state) - 2
    assert summary.startswith(f"{trunk} tensors of a ResNet of ")
    assert "summed over three channels" in summary
    assert summary.endswith("; ignored: fc.bias, fc.weight")


def test_the_stride_of_a_bottleneck_is_in_its_3x3_convolution(write: Callable[..., Path]) -> None:
    """The other place gives maps of the same size from the same tensors, and other numbers."""
    state = torchvision_state("resnet50", channels=1)
    encoder = ImageEncoder("resnet50", 16)
    load_image_weights(encoder, write(state))
    convolutions = dict(encoder.backbone.named_modules())
    strides = [
        [
            convolutions[f"encoder.stages.{s}.layers.0.layer.{k}.convolution"].stride[0]
            for k in range(3)
        ]
        for s in range(4)
    ]
    assert strides == [[1, 1, 1], [1, 2, 1], [1, 2, 1], [1, 2, 1]]
    gray = grey_image()
    found = features(encoder, gray)
    other = torchvision_forward(state, "resnet50", gray, stride_in=1)
    assert other.shape == found.shape
    assert float((other - found).norm() / found.norm()) > 0.1


@pytest.mark.parametrize("size", [480, 448, 97])
def test_the_grid_is_the_size_over_32_rounded_up(size: int) -> None:
    with torch.inference_mode():
        x = torch.zeros(1, 1, size, size)
        assert ImageEncoder("resnet18", 8).eval()(x).shape == (1, -(-size // 32), -(-size // 32), 8)


def test_biovil_s_trunk_is_taken_and_its_projector_is_not(write: Callable[..., Path]) -> None:
    state = biovil_state()
    encoder = ImageEncoder("resnet50", 128)
    before = {n: x.clone() for n, x in encoder.state_dict().items() if "backbone" not in n}
    summary = load_image_weights(encoder, write(state))
    trunk = {n.removeprefix("encoder.encoder."): x for n, x in state.items()}
    gray = grey_image()
    expected = torchvision_forward(trunk, "resnet50", gray.expand(-1, 3, -1, -1))
    with torch.inference_mode():
        found = encoder.backbone.eval()(gray).last_hidden_state
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert all(torch.equal(x, encoder.state_dict()[n]) for n, x in before.items())
    assert "projection" not in summary
    assert "ignored: encoder.encoder.fc.bias, encoder.encoder.fc.weight, projector.* (" in summary


def test_a_projection_of_another_size_is_left(write: Callable[..., Path]) -> None:
    encoder = ImageEncoder("resnet18", 8)
    before = {n: x.clone() for n, x in encoder.state_dict().items() if "backbone" not in n}
    summary = load_image_weights(encoder, write(dict(ImageEncoder("resnet18", 16).state_dict())))
    assert "projection left as it was: " in summary
    assert all(torch.equal(x, encoder.state_dict()[n]) for n, x in before.items())


@pytest.mark.parametrize("prefix", some(["resnet.", "", "image_encoder.backbone."], 3))
def test_transformers_layout_and_this_programs_own(prefix: str, write: Callable[..., Path]) -> None:
    torch.manual_seed(1)
    source, encoder = ImageEncoder("resnet18", 16), ImageEncoder("resnet18", 16)
    state = {prefix + n: x for n, x in source.backbone.state_dict().items()}
    for name, x in source.projection.state_dict().items():
        state[f"image_encoder.projection.{name}"] = x
    for name in ("projection.weight", *(f"backbone.layer.{i}.weight" for i in range(9))):
        state[f"text_encoder.{name}"] = torch.zeros(2)
    summary = load_image_weights(encoder, write(state, "model.safetensors"))
    for name, x in source.state_dict().items():
        assert torch.equal(x, encoder.state_dict()[name]), name
    assert summary.endswith(", with its projection; ignored: text_encoder.* (10 tensors)")


# A file becomes tensors before their names are looked at: each format, and each prefix, once.
@pytest.mark.parametrize(
    ("prefix", "file"),
    [
        ("model.", "w.pth"),
        ("module.", "w.bin"),
        ("encoder.", "w.safetensors"),
        ("backbone.", "w.pth"),
        ("a.b.", "w.safetensors"),
    ],
)
def test_prefixes_and_formats(prefix: str, file: str, write: Callable[..., Path]) -> None:
    state = torchvision_state("resnet18", channels=1)
    counters = [name for name in state if name.endswith("num_batches_tracked")]
    wrapped = {prefix + name: x for name, x in state.items() if name not in counters}
    nested = file.endswith(".pth")
    path = write({"epoch": 3, "state_dict": wrapped} if nested else wrapped, file)
    encoder = ImageEncoder("resnet18", 16)
    summary = load_image_weights(encoder, path)
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
        (change("layer1.0.se.weight", torch.zeros(1)), "unexpected: .*layer1.0.se.weight"),
        (change("layer1.1.bn2.bias", torch.zeros(3)), r"has shape \[3\], not \[64\]"),
        (change("layer1.1.bn2.bias", torch.zeros(64, dtype=torch.int8)), "of type torch.int8"),
        (change("layer1.1.bn2.bias", torch.full((64,), torch.nan)), "no finite"),
        (change("conv1.weight", torch.zeros(64, 4, 7, 7)), r"\[64, 4, 7, 7\], not one or three"),
        (change("conv1.weight", None), "holds no ResNet"),
        (lambda s: {**s, **{f"teacher.{n}": x for n, x in s.items()}}, "2 ResNets, .*teacher"),
        (lambda _: torchvision_state("resnet50"), "2-2-2-2 basic blocks: .*unexpected"),
    ],
)
def test_other_weights_are_refused_and_change_nothing(
    mend: Callable[[State], State], message: str, write: Callable[..., Path]
) -> None:
    path = write(mend(torchvision_state("resnet18")))
    encoder = ImageEncoder("resnet18", 16)
    before = {name: x.clone() for name, x in encoder.state_dict().items()}
    with pytest.raises(CheckpointError, match=f"weights.pt: .*{message}"):
        load_image_weights(encoder, path)
    for name, x in encoder.state_dict().items():
        assert torch.equal(before[name], x), name


def test_resnet18_weights_do_not_fit_other_encoders(write: Callable[..., Path]) -> None:
    path = write(torchvision_state("resnet18"))
    for architecture in ("resnet50", "resnet-narrow"):
        with pytest.raises(CheckpointError, match="not the weights of this model's"):
            load_image_weights(ImageEncoder(architecture, 16), path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("downsample_in_bottleneck", True),
        pytest.param("hidden_act", "gelu", marks=pytest.mark.slow),
    ],
)
def test_a_configuration_that_tensors_do_not_show_is_refused(
    key: str, value: object, tmp_path: Path, write: Callable[..., Path]
) -> None:
    source = ImageEncoder("resnet50", 16)
    path = write(dict(source.backbone.state_dict()), "model.safetensors")
    (tmp_path / "config.json").write_text(source.backbone.config.to_json_string())
    assert "resnet" in json.loads((tmp_path / "config.json").read_text())["model_type"]
    load_image_weights(ImageEncoder("resnet50", 16), path)
    changed = {**source.backbone.config.to_dict(), key: value}
    (tmp_path / "config.json").write_text(json.dumps(changed))
    with pytest.raises(CheckpointError, match=f"{key} is {value!r}"):
        load_image_weights(ImageEncoder("resnet50", 16), path)


def test_unreadable_files(tmp_path: Path, write: Callable[..., Path]) -> None:
    encoder = ImageEncoder("resnet18", 16)
    with pytest.raises(CheckpointError, match="no such file"):
        load_image_weights(encoder, tmp_path / "none.pt")
    for name in ("a.pt", "a.safetensors"):
        (tmp_path / name).write_bytes(b"not weights")
        with pytest.raises(CheckpointError, match=f"{name}: not"):
            load_image_weights(encoder, tmp_path / name)
    with pytest.raises(CheckpointError, match="could run code"):
        load_image_weights(encoder, write(ImageEncoder("resnet-narrow", 4), "module.pt"))
    with pytest.raises(CheckpointError, match="no tensors by name"):
        load_image_weights(encoder, write([torch.zeros(1)], "list.pt"))


def test_weights_of_the_program_are_compared_with_their_digest(tmp_path: Path) -> None:
    path, encoder = tmp_path / "encoder.safetensors", ImageEncoder("resnet-narrow")
    save_sealed(path, encoder.state_dict(), {"of": "a test"})
    load_image_weights(encoder, path)
    data = path.read_bytes()
    path.write_bytes(data[:-3] + bytes([data[-3] ^ 1]) + data[-2:])
    with pytest.raises(CheckpointError, match="its digest differs"):
        load_image_weights(encoder, path)
