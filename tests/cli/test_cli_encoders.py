"""``cxrtext encoders``, and which encoders ``cxrtext fit --encoder`` takes."""

import shutil
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from transformers import ResNetConfig, ResNetModel

from cxrtext.errors import CheckpointError
from cxrtext.models.folders import BACKBONES_VARIABLE, is_hub_name
from cxrtext.project.encoders import copy_of, find_encoder, keep_copy, listed_encoders
from tests import small_backbones
from tests.cli.conftest import Refused, cxrtext
from tests.models.foreign.folders import WRITERS


def test_encoders_are_listed_with_all_that_one_needs_to_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rad-dino").mkdir()
    monkeypatch.setenv(BACKBONES_VARIABLE, str(tmp_path))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    listed = [asdict(one) for one in listed_encoders()]
    text = "name", "what", "trained_on", "licence", "offline"
    assert all(isinstance(one[key], str) and one[key] for one in listed for key in text)
    assert all(isinstance(one["megabytes"], int | None) for one in listed)
    assert {one["use"] for one in listed} == {"--encoder", "--model"}
    # What can be fetched by its name has one; the others say where else they come from.
    assert all(is_hub_name(one["name"]) or len(one["offline"]) > 30 for one in listed)
    assert {one["name"] for one in listed if one["tried"]} == {
        "resnet50-thin-open-nsfw",
        "efficientnet-lite0",
    }
    here = {one["name"]: one["here"] for one in listed if one["here"]}
    assert here == {"microsoft/rad-dino": str(tmp_path / "rad-dino")}
    shown = cxrtext("encoders").stdout
    assert f"on this machine: {tmp_path / 'rad-dino'}" in shown
    assert all(one["licence"] in shown for one in listed)


def test_a_resnet_that_can_be_trained_is_known_by_its_configuration(tmp_path: Path) -> None:
    folder = small_backbones.write(tmp_path / "dino", "dinov2")
    assert find_encoder(str(folder)).image == "backbone"
    assert find_encoder(str(small_backbones.write(tmp_path / "small", "resnet"))).image == (
        "backbone"
    )
    config = ResNetConfig(layer_type="basic", hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2])
    torch.manual_seed(0)
    ResNetModel(config).save_pretrained(tmp_path / "resnet")
    shutil.copy(tmp_path / "small/preprocessor_config.json", tmp_path / "resnet")
    assert find_encoder(str(tmp_path / "resnet")).image == "resnet18"


@pytest.mark.parametrize("layout", ["biomedclip", "openai"])
def test_a_finished_pair_is_sent_to_model(layout: str, tmp_path: Path) -> None:
    with torch.random.fork_rng():
        WRITERS[layout](tmp_path)
    with pytest.raises(CheckpointError, match="is a finished pair.*with --model"):
        find_encoder(str(tmp_path))


def test_a_listed_pair_is_not_looked_for(refused: Refused, data_folder: Path) -> None:
    name = "microsoft/BiomedVLP-BioViL-T"
    assert f"{name}: is a finished pair" in refused("fit", data_folder, "--encoder", name, "--plan")


def test_the_copy_is_of_what_is_read_and_stays_until_another_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = small_backbones.write(tmp_path / "dino", "dinov2")
    for name in ("LICENSE", "modeling_x.py", "pytorch_model.bin"):
        (folder / name).write_text("x")
    monkeypatch.setenv(BACKBONES_VARIABLE, "")
    keep_copy(tmp_path, str(folder))
    copy = copy_of(tmp_path, str(folder))
    assert {path.name for path in copy.iterdir()} == {
        "LICENSE", "SHA256SUMS", "config.json", "model.safetensors", "preprocessor_config.json",
    }  # fmt: skip
    other = small_backbones.write(tmp_path / "other/dino", "dinov2", seed=2)
    before = (copy / "model.safetensors").read_bytes()
    shutil.rmtree(folder)
    keep_copy(tmp_path, str(folder))  # is there, whatever became of the folder
    assert (copy / "model.safetensors").read_bytes() == before
    keep_copy(tmp_path, str(other))
    assert (copy / "model.safetensors").read_bytes() != before


def test_a_link_out_of_an_encoder_s_folder_is_not_followed(tmp_path: Path) -> None:
    folder, secret = small_backbones.write(tmp_path / "dino", "dinov2"), tmp_path / "secret"
    secret.write_text("a key")
    (folder / "README.md").symlink_to(secret)
    said = r"README.md: is a link out of its folder; copy"
    with pytest.raises(CheckpointError, match=said):
        find_encoder(str(folder))
    with pytest.raises(CheckpointError, match=said):
        keep_copy(tmp_path / "project", str(folder))
    assert not copy_of(tmp_path / "project", str(folder)).exists()


def test_an_option_that_is_gone_names_the_one_that_takes_its_place(
    refused: Refused, data_folder: Path
) -> None:
    said = refused("fit", data_folder, "--weights", "half")
    assert said.startswith("--weights is now --encoder")
