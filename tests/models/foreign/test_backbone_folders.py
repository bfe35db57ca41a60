"""Folders of backbones: what is taken, what is left out, and what is refused."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from cxrtext.device import has_bfloat16
from cxrtext.errors import CheckpointError, ConfigError
from cxrtext.files import write_sums
from cxrtext.models.foreign import backbone as backbones
from cxrtext.models.foreign import load_backbone
from tests import small_backbones
from tests.models.conftest import Change, configured, pickled, tensors

CONFIG, WEIGHTS = "config.json", "model.safetensors"
BIAS, STEM = "layernorm.bias", "embeddings.patch_embeddings.projection.weight"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return small_backbones.write(tmp_path / "small", "dinov2")


def some_images(side: int = 28) -> torch.Tensor:
    return torch.rand(2, 1, side, side, generator=torch.Generator().manual_seed(3))


def test_it_is_frozen_and_stays_in_evaluation(folder: Path) -> None:
    backbone = load_backbone(folder)
    holder = torch.nn.Sequential(backbone).train()
    assert not any(module.training for module in backbone.modules())
    assert not any(p.requires_grad for p in holder.parameters())
    assert not backbone(some_images()).requires_grad
    with pytest.raises(ValueError, match=r"of small are \[B, 1, 28, 28\], not \[1, 3, 28, 28\]"):
        backbone(torch.rand(1, 3, 28, 28))


@pytest.mark.parametrize(
    ("files", "line"),
    [
        ({}, ""),
        ({"README.md": "---\n: [\n---\n", "LICENSE": "\n  MIT   License\n\nText"}, "MIT License"),
        (
            {
                "README.md": "---\nlicense: other\nlicense_name: terms\n"
                "license_link: https://a.example\n---\n"
            },
            "other, terms, https://a.example",
        ),
        ({"README.md": "---\ntags: [a]\nlicense: ['mit']\n---\nlicense: none"}, "mit"),
        ({"README.md": "license: none"}, ""),
    ],
)
def test_the_licence_is_a_line_of_the_card(
    tmp_path: Path, files: dict[str, str], line: str
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert backbones.licence_of(tmp_path) == line


def test_the_digest_is_of_contents(folder: Path, tmp_path: Path) -> None:
    first = load_backbone(folder)
    other = shutil.copytree(folder, tmp_path / "other name")
    tensors(lambda s: [s.update({f"dinov2.{n}": s.pop(n)}) for n in reversed(list(s))])(other)
    pickled(other)
    configured(auto_map={"AutoModel": "code.Model"}, transformers_version="4")(other)
    assert load_backbone(other).digest == first.digest
    digests = {first.digest, load_backbone(folder, size=35).digest}
    for change in (configured(layer_norm_eps=1e-5), tensors(lambda s: s[BIAS].add_(1e-4))):
        change(folder)
        digests.add(load_backbone(folder).digest)
    assert len(digests) == 4


@pytest.mark.parametrize(
    ("model_type", "head", "extra"),
    [
        ("dinov2", "ForImageClassification", {}),
        ("vit", "ForMaskedImageModeling", {"encoder_stride": 7}),
    ],
)
def test_a_head_is_left_out(
    tmp_path: Path, model_type: str, head: str, extra: dict[str, Any]
) -> None:
    folder = small_backbones.write(tmp_path / "headed", model_type, head=head, **extra)
    plain = small_backbones.build(model_type, head=head, **extra).base_model.eval()
    side = small_backbones.SIZES.get(model_type, 28)
    backbone = load_backbone(folder)
    images = some_images(side)
    with torch.inference_mode():
        states = plain(pixel_values=(images - backbone.mean) / backbone.std).last_hidden_state
    wanted = states[:, -(backbone.grid[0] ** 2) :].reshape(2, *backbone.grid, -1)
    torch.testing.assert_close(backbone(images), wanted, rtol=0, atol=1e-6)


def test_a_whole_siglip_and_its_vision_tower_are_one_backbone(tmp_path: Path) -> None:
    whole = small_backbones.build("siglip")
    small_backbones.write(tmp_path / "a", "siglip")
    tower = small_backbones.write(tmp_path / "b", "siglip_vision_model")
    whole.vision_model.save_pretrained(tower)
    pair = [load_backbone(tmp_path / name) for name in "ab"]
    assert pair[0].digest == pair[1].digest
    torch.testing.assert_close(*(backbone(some_images()) for backbone in pair), rtol=0, atol=0)


def test_one_channel_is_fine(tmp_path: Path) -> None:
    processor = {"image_processor_type": "BitImageProcessor", "size": {"shortest_edge": 28}}
    levels = {"image_mean": [0.4], "image_std": [0.2, 0.2, 0.2]}
    given = {**processor, **levels, "crop_size": 28}
    folder = small_backbones.write(tmp_path, "vit", processor=given, num_channels=1)
    backbone = load_backbone(folder)
    images = some_images()
    state = backbone.model(pixel_values=(images - 0.4) / 0.2).last_hidden_state
    wanted = state[:, 1:].reshape(2, 4, 4, 24)
    torch.testing.assert_close(backbone(images), wanted, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("model_type", "size", "said"),
    [
        ("dinov2", 30, "30 px is not a multiple of 7, .* its dinov2, .*--size 28 or 35"),
        ("dinov2", 0, "size 0 is not between"),
        (
            "resnet",
            36,
            "not a multiple of 8, the pixels of a region of its resnet,.*--size 32 or 40",
        ),
    ],
)
def test_sizes_that_would_leave_out_a_margin_are_refused(
    tmp_path: Path, model_type: str, size: int, said: str
) -> None:
    folder = small_backbones.write(tmp_path / "m", model_type)
    with pytest.raises(CheckpointError, match=f"^m: .*{said}"):
        load_backbone(folder, size=size)


def put(name: str, tensor: torch.Tensor) -> Change:
    return tensors(lambda state: state.update({name: tensor}))


@pytest.mark.parametrize(
    ("change", "file", "said"),
    [
        (
            configured(model_type="timm_wrapper"),
            CONFIG,
            "model_type 'timm_wrapper' is not a known backbone",
        ),
        (configured(hidden_act="code.run"), CONFIG, "hidden_act: 'code.run' is not known"),
        (configured(num_hidden_layers=10**6), CONFIG, "hidden_layers: 1000000 is not between"),
        (
            configured(hidden_size=25),
            CONFIG,
            "hidden_size 25 is not a multiple of num_attention_hea",
        ),
        (configured(image_size=35), WEIGHTS, "position_embeddings has shape [1, 17, 24], not "),
        (tensors(lambda s: s.pop(BIAS)), WEIGHTS, f"missing: '{BIAS}'"),
        (tensors(lambda s: s.pop(STEM)), WEIGHTS, "holds no vision models in transformers' names"),
        (put("adapter.weight", torch.ones(2)), WEIGHTS, "unexpected: 'adapter.weight'"),
        (put(BIAS, torch.full((24,), torch.nan)), WEIGHTS, "not finite numbers"),
        (
            put(f"teacher.{STEM}", torch.ones(2)),
            WEIGHTS,
            "names, under '', 'teacher.'",
        ),
    ],
)
def test_what_does_not_fit_is_refused(folder: Path, change: Change, file: str, said: str) -> None:
    change(folder)
    with pytest.raises(CheckpointError) as error:
        load_backbone(folder)
    line = str(error.value)
    assert line.startswith(f"{folder / file}: ")
    assert said in line
    assert "\n" not in line


def test_half_precision_files_and_a_lost_mask_token_are_fine(folder: Path) -> None:
    wanted = load_backbone(folder)(some_images())
    tensors(lambda s: s.pop("embeddings.mask_token"))(folder)
    tensors(lambda s: s.update({n: x.bfloat16() for n, x in s.items()}))(folder)
    backbone = load_backbone(folder)
    assert {p.dtype for p in backbone.model.parameters()} == {torch.float32}
    assert (backbone(some_images()) - wanted).abs().mean() < 0.05 * wanted.abs().mean()


@pytest.mark.parametrize(
    "lacking", ["config.json", "model.safetensors", "preprocessor_config.json"]
)
def test_a_missing_file_is_named(folder: Path, lacking: str) -> None:
    (folder / lacking).unlink()
    with pytest.raises(CheckpointError, match=lacking.split(".")[0]):
        load_backbone(folder)
    (folder / lacking).write_text("{")
    with pytest.raises(CheckpointError, match="not readable|not a readable"):
        load_backbone(folder)


def test_a_file_that_is_not_what_its_folder_lists_is_refused(folder: Path) -> None:
    write_sums(folder)
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")  # which anybody may write
    assert load_backbone(folder).licence == "mit"
    put(BIAS, torch.ones(24))(folder)
    with pytest.raises(CheckpointError, match="model.safetensors: is not what SHA256SUMS"):
        load_backbone(folder)
    write_sums(folder)
    path = folder / "preprocessor_config.json"
    path.write_text(path.read_text().replace("0.53", "0.5"))
    with pytest.raises(CheckpointError, match="preprocessor_config.json: is not what SHA256SUMS"):
        load_backbone(folder)


def test_weights_in_parts_are_refused(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    (folder / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(CheckpointError, match="the weights are in several files; write them as on"):
        load_backbone(folder)


def test_loading_says_nothing_and_draws_no_random_number(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    capfd.readouterr()
    torch.manual_seed(0)
    before = torch.get_rng_state()
    load_backbone(folder)
    assert torch.equal(torch.get_rng_state(), before)
    assert capfd.readouterr() == ("", "")


def test_bfloat16_where_the_processor_has_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = load_backbone(folder)
    images = some_images()
    half = plain(images, precision="bfloat16")
    assert half.dtype == torch.float32
    assert 0 < (half - plain(images)).abs().mean() < 0.05 * half.abs().mean()
    with torch.autocast("cpu", torch.bfloat16):  # float32 is float32 inside autocast too
        assert torch.equal(plain(images), load_backbone(folder)(images))
    if has_bfloat16(torch.device("cpu")):
        asked = load_backbone(folder, precision="bfloat16")
        assert torch.equal(asked(images), half)
        assert asked.digest == plain.digest
    monkeypatch.setattr(backbones, "has_bfloat16", lambda _: False)
    with pytest.raises(ConfigError, match="no units for bfloat16"):
        load_backbone(folder, precision="bfloat16")
    with pytest.raises(ConfigError, match="'int8' is not float32 or bfloat16"):
        load_backbone(folder, precision="int8")  # type: ignore[arg-type]
