import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler
from torch import nn

from cxrtext.experiments.data.images import CIFAR10, ImageSet, SplitImages
from cxrtext.experiments.simclr.encoders import PickedConv2d, build_small_encoder
from cxrtext.experiments.simclr.probes import PROBES, Features, resamples_of
from cxrtext.models.image_encoder import ARCHITECTURES, ImageEncoder
from cxrtext.training.image_pretraining.networks import ProjectionHead


def count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


@pytest.mark.parametrize(
    ("name", "channels", "width", "features", "parameters"),
    [
        # SimCLR's numbers for CIFAR-10: torchvision's without classifier and with a 3×3 stem.
        ("resnet18", 3, 64, 512, 11_176_512 - 64 * 3 * 49 + 64 * 3 * 9),
        ("resnet50", 3, 64, 2048, 23_508_032 - 64 * 3 * 49 + 64 * 3 * 9),
        ("lenet5", 3, 64, 84, (75 + 1) * 6 + (150 + 1) * 16 + 401 * 120 + 121 * 84),
        ("resnet18", 1, 8, 64, None),
    ],
)
def test_shapes_and_sizes(
    name: str, channels: int, width: int, features: int, parameters: int | None
) -> None:
    encoder = build_small_encoder(name, channels=channels, width=width)
    assert encoder.features == features
    assert parameters is None or count(encoder) == parameters
    assert encoder(torch.rand(2, channels, 32, 32)).shape == (2, features)


@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_no_pooling_before_the_last_stage(name: str) -> None:
    encoder = build_small_encoder(name, channels=3, width=4)
    grids: list[tuple[int, ...]] = []
    for block in encoder.get_submodule("blocks").children():
        block.register_forward_hook(lambda _m, _i, out: grids.append(tuple(out.shape[2:])))
    encoder(torch.rand(2, 3, 32, 32))
    assert grids[0] == (32, 32)
    assert grids[-1] == (4, 4)


@pytest.mark.parametrize("name", ["resnet18", "resnet50", "lenet5"])
def test_every_weight_learns(name: str) -> None:
    torch.manual_seed(0)
    encoder = build_small_encoder(name, channels=1, width=4)
    encoder(torch.rand(4, 1, 32, 32)).square().sum().backward()
    assert all(p.grad is not None and bool(p.grad.any()) for p in encoder.parameters())


def test_resnet_of_other_sizes() -> None:
    assert build_small_encoder("resnet18", channels=1, width=2)(torch.rand(2, 1, 48, 40)).ndim == 2


def test_a_head_wants_a_size() -> None:
    with pytest.raises(ValueError, match="one size or more"):
        ProjectionHead(4, ())


def test_head_with_and_without_norms() -> None:
    plain = ProjectionHead(6, (5, 3))
    assert plain(torch.rand(4, 6)).shape == (4, 3)
    assert count(plain) == 7 * 5 + 6 * 3
    normed = ProjectionHead(6, (5, 5, 3), norm=True)
    assert sum(isinstance(m, nn.BatchNorm1d) for m in normed.modules()) == 2
    x, w = torch.rand(4, 6), dict(plain.named_parameters())
    hidden = (x @ w["layers.0.weight"].T + w["layers.0.bias"]).clamp(min=0)
    expected = hidden @ w["layers.2.weight"].T + w["layers.2.bias"]
    assert torch.allclose(plain(x), expected, atol=1e-6)


def strided_pointwise(encoder: nn.Module) -> Iterator[nn.Conv2d]:
    """Every 1×1 convolution with a stride."""
    for module in encoder.modules():
        if (
            isinstance(module, nn.Conv2d)
            and module.kernel_size == (1, 1)
            and module.stride != (1, 1)
        ):
            yield module


@pytest.mark.parametrize("width", [1, 2, 3, 4, 7, 8, 12, 15, 16, 64])
@pytest.mark.parametrize("name", ["resnet18", "resnet50"])
def test_a_strided_shortcut_of_few_channels_picks_its_pixels_first(name: str, width: int) -> None:
    torch.manual_seed(0)
    encoder = build_small_encoder(name, channels=1, width=width)
    assert all(module.in_channels >= 16 for module in strided_pointwise(encoder))
    shortcuts = [module for module in encoder.modules() if isinstance(module, PickedConv2d)]
    assert all(module.in_channels < 16 and module.every == 2 for module in shortcuts)
    assert len(shortcuts) + len(list(strided_pointwise(encoder))) == 3


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_encoders_of_radiographs_have_no_strided_shortcut_of_few_channels(
    architecture: str,
) -> None:
    shortcuts = list(strided_pointwise(ImageEncoder(architecture)))
    assert shortcuts
    assert all(module.in_channels >= 16 for module in shortcuts)


@pytest.mark.parametrize("size", [(8, 8), (7, 5)])
def test_picking_first_gives_what_a_stride_gives(size: tuple[int, int]) -> None:
    torch.manual_seed(0)
    picked = PickedConv2d(3, 5, 2).double()
    strided = nn.Conv2d(3, 5, 1, 2, bias=False).double()
    strided.load_state_dict(picked.state_dict())  # of the same names: files of weights still fit
    x = torch.rand(4, 3, *size).double().contiguous(memory_format=torch.channels_last)
    one, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    torch.testing.assert_close(picked(one), strided(other))
    picked(one).square().sum().backward()
    strided(other).square().sum().backward()
    torch.testing.assert_close(one.grad, other.grad)
    torch.testing.assert_close(picked.weight.grad, strided.weight.grad)


LIMITED = """
import sys

import torch
from cxrtext.experiments.simclr.encoders import build_small_encoder

torch.set_num_threads(int(sys.argv[1]))
torch.manual_seed(0)
encoder = build_small_encoder("resnet18", channels=3, width=2).to(memory_format=torch.channels_last)
for block, size in zip(encoder.blocks[2:7:2], (8, 16, 32), strict=True):
    conv = block.shortcut[0]
    x = torch.randn(32, conv.in_channels, size, size).contiguous(memory_format=torch.channels_last)
    wanted = torch.randn(32, conv.out_channels, size // 2, size // 2)
    exact = torch.einsum("bohw,bihw->oi", wanted.double(), x[:, :, ::2, ::2].double())
    for _ in range(20):
        conv.weight.grad = None
        (conv(x) * wanted).sum().backward()
        error = float((conv.weight.grad[:, :, 0, 0] - exact).abs().max() / exact.abs().max())
        if error > 1e-4:
            sys.exit(f"{conv}: the gradient is {error:.0%} off")
images = torch.rand(8, 3, 16, 16).contiguous(memory_format=torch.channels_last)
encoder(images).sum().backward()
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_gradients_on_a_processor_without_avx512(threads: int) -> None:
    # With a stride of its own: killed by a signal with one thread, wrong by 100 % or without an
    # end with two.
    environment = {
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OMP_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "passive",
    }
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(threads)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-500:]


N, M = 600, 300


def part(count: int, seed: int) -> SplitImages:
    generator = np.random.default_rng(seed)
    return SplitImages(
        np.zeros((count, 1, 1, 1), np.uint8),
        np.arange(count) // 2,
        {
            "class": np.arange(count, dtype=np.int64) % 10,
            "kind": generator.integers(0, 7, count),
            "site": generator.integers(0, 4, count),
            "findings": generator.integers(0, 2, (count, 2)),
            "color": generator.uniform(0, 255, (count, 3)).astype(np.float32),
        },
    )


HELD = ImageSet(part(N, 0), part(M, 1), names=CIFAR10)


def features_of(target: str, noise: float = 0.01) -> Features:
    """Features that hold one target and nothing else."""
    parts = []
    for i, one in enumerate((HELD.train, HELD.test)):
        value = torch.from_numpy(one.targets[target].astype(np.float64))
        coded = value if value.ndim > 1 else torch.nn.functional.one_hot(value.long()).double()
        drawn = torch.randn(coded.shape, generator=torch.Generator().manual_seed(i))
        parts.append((coded + noise * drawn).float())
    train, test = parts
    return Features(train, test, HELD, resamples_of(HELD.test, 40), seed=0, epochs=200, steps=100)


@pytest.mark.parametrize("probe", ["classes", "classes-lbfgs"])
def test_classes(probe: str) -> None:
    found = PROBES[probe](features_of("class"))
    assert found["acc@1"].estimate == found["acc@5"].estimate == 100
    assert found["acc@1"].values.tolist() == [100] * 40
    blind = PROBES[probe](features_of("site"))
    assert blind["acc@1"].estimate < 25
    assert 35 < blind["acc@5"].estimate < 65
    assert blind["acc@1"].values.std() > 0.5


def test_fewer_labels_tell_less_and_thinned_classes_are_a_part() -> None:
    found = PROBES["labels"](features_of("class", noise=0.6))
    few, some, whole = (
        found[name].estimate
        for name in ("accuracy, 1 % of labels", "accuracy, 10 % of labels", "accuracy")
    )
    assert 10 < few < some < whole < 90
    thinned = found["accuracy, thinned classes"]
    assert thinned.estimate != whole
    assert len(thinned.rows) == M // 2


def test_color_error_is_in_squared_grey_values() -> None:
    told = PROBES["digit-color"](features_of("color", noise=5.0))
    assert told["color MSE"].estimate == pytest.approx(25, rel=0.15)
    blind = PROBES["digit-color"](features_of("class"))
    assert blind["color MSE"].estimate == pytest.approx(255**2 / 12, rel=0.1)
    assert blind["accuracy"].estimate == 100


def test_findings_beside_sklearn() -> None:
    features = features_of("findings", noise=1.0)
    found = PROBES["findings-site"](features)
    scaler = StandardScaler().fit(features.train)
    areas = []
    for column in range(2):
        fitted = LogisticRegression(C=100 / N, tol=1e-8, max_iter=2000).fit(
            scaler.transform(features.train), HELD.train.targets["findings"][:, column]
        )
        scores = fitted.decision_function(scaler.transform(features.test))
        areas.append(roc_auc_score(HELD.test.targets["findings"][:, column], scores))
    assert found["AUC"].estimate == pytest.approx(np.mean(areas), abs=1e-6)
    assert found["AUC"].values.std() > 0
    assert found["site accuracy"].estimate < 45


def test_resamples_are_of_patients_and_the_same_for_all_runs() -> None:
    counts = resamples_of(HELD.test, 20)
    assert (counts[:, ::2] == counts[:, 1::2]).all()
    np.testing.assert_array_equal(counts, resamples_of(HELD.test, 20))
    one = features_of("class", noise=0.6)
    first, second = PROBES["classes"](one), PROBES["classes"](replace(one, seed=1))
    assert first["acc@1"].rows == second["acc@1"].rows
