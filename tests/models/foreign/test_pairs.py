"""Finished pairs of elsewhere: equal to their own forward pass, and caught where they are not."""

import json
import os
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file, save_file

from cxrtext.config import load_config
from cxrtext.errors import CheckpointError, ConfigError, InputError
from cxrtext.files import write_sums
from cxrtext.models import load_model
from cxrtext.models.checkpoint import checkpoint_fingerprint, copy_model
from cxrtext.models.folders import layout_of, read_checkpoint_config
from cxrtext.service import Service
from cxrtext.training.initialization import build_model
from tests.models.foreign.folders import (
    LEVELS,
    MEAN,
    SCALES,
    SENTENCES,
    SMALL_SWIN,
    STD,
    WRITERS,
    Forward,
)


@pytest.fixture(scope="module", params=WRITERS)
def pair(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Forward]:
    folder = tmp_path_factory.mktemp(request.param)
    with torch.random.fork_rng():
        forward = WRITERS[request.param](folder)
    return request.param, folder, forward


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    folder = tmp_path / "clip"
    folder.mkdir()
    with torch.random.fork_rng():
        WRITERS["clip"](folder)
    return folder


@torch.no_grad()
def test_image_text_and_score_are_those_of_its_own_classes(
    pair: tuple[str, Path, Forward], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, folder, forward = pair
    monkeypatch.setattr(transformers, "SwinConfig", lambda: SMALL_SWIN)
    model = load_model(folder)
    assert float(model.gamma_sq) == pytest.approx(SCALES[name], rel=1e-5)
    gray = np.random.default_rng(1).integers(0, 256, (1, 90, 70), dtype=np.uint8)
    square = model.spec.preprocessing.square(gray)
    pixels = torch.from_numpy(model.spec.preprocessing.normalize(square))[None]
    mean, std = (torch.tensor(one).view(1, 3, 1, 1) for one in LEVELS.get(name, (MEAN, STD)))
    tokens = model.tokenize(SENTENCES)
    image, text = (F.normalize(one, dim=-1) for one in forward((pixels - mean) / std, tokens))
    regions = model.embed_images(pixels).flatten(1, 2)
    own = F.normalize(regions.mean(dim=1), dim=-1)
    texts = model.embed_sentences(SENTENCES)
    assert len(set(map(tuple, tokens["input_ids"].tolist()))) == len(SENTENCES)
    torch.testing.assert_close(own, image, atol=1e-5, rtol=0)
    torch.testing.assert_close(texts, text, atol=1e-5, rtol=0)
    torch.testing.assert_close(model.scores(regions, texts), text @ image.T, atol=1e-5, rtol=0)
    assert model.has_regions == name.startswith("biovil")
    assert model.maps(regions, texts).abs().max() <= 1 + 1e-5


@pytest.fixture
def copied(clip: Path) -> Path:
    """A copy as cxrtext makes it."""
    copy_model(clip.parent / "copied", load_model(clip))
    return clip.parent / "copied"


def test_loading_writes_nothing_and_a_copy_is_a_checkpoint(clip: Path) -> None:
    for name in (".hidden", "LICENSE-key", "notes"):  # a private key, say
        (clip / name).symlink_to("/etc/hostname")
    os.mkfifo(clip / "README.md")
    (clip / "LICENSE").write_text("MIT")
    before = {path: path.lstat() for path in clip.rglob("*")}
    first, again = load_model(clip), load_model(clip)
    assert (first.fingerprint, first.spec) == (again.fingerprint, again.spec)
    copy_model(clip.parent / "copy", first)
    untouched = {path: path.lstat()[:-3] for path in clip.rglob("*")}  # but for the times
    assert untouched == {path: status[:-3] for path, status in before.items()}
    copy = shutil.copytree(clip.parent / "copy", clip.parent / "moved")
    assert not {".hidden", "LICENSE-key", "README.md", "notes"} & {x.name for x in copy.iterdir()}
    assert (copy / "LICENSE").read_text() == "MIT"
    assert read_checkpoint_config(copy)["layout"] == "clip"
    moved = load_model(copy)
    assert (moved.fingerprint, moved.spec.image_title) == (first.fingerprint, "clip (clip)")
    assert checkpoint_fingerprint(clip) == checkpoint_fingerprint(copy) == first.fingerprint
    (clip / "config.json").rename(clip / "notes.json")
    (clip / "config.json").symlink_to("notes.json")
    with pytest.raises(InputError, match=r"config.json: is a link; copy the folder with its files"):
        copy_model(clip.parent / "another", load_model(clip))


def another_mean(folder: Path) -> None:
    path = folder / "preprocessor_config.json"
    path.write_text(path.read_text().replace("0.45", "0.47"))


def without_a_projection(folder: Path) -> None:
    path = folder / "model.safetensors"
    state = load_file(path)
    del state["visual_projection.weight"]
    save_file(state, path)


def another_pooling(folder: Path) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["text_config"]["eos_token_id"] = 42
    path.write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (another_mean, "regions of the golden example differ"),
        (without_a_projection, "has no visual_projection.weight"),
        (another_pooling, "text of the golden example differ"),
    ],
)
def test_a_wrong_model_is_caught(copied: Path, spoil: Any, said: str) -> None:
    spoil(copied)
    with pytest.raises(CheckpointError, match="is not what SHA256SUMS lists"):
        load_model(copied)
    write_sums(copied)
    with pytest.raises(CheckpointError, match=said):
        load_model(copied)


def test_rules_that_are_not_known_are_refused(tmp_path: Path) -> None:
    with torch.random.fork_rng():
        WRITERS["biomedclip"](tmp_path)
    path = tmp_path / "open_clip_config.json"
    whole = json.loads(path.read_text())
    for part, key, value, said in [
        ("vision_cfg", "timm_pool", "avg", "of open_clip's models a vit_"),
        ("vision_cfg", "timm_model_name", None, "of open_clip's models a vit_"),
        ("text_cfg", "hf_pooler_type", "max_pooler", "of open_clip's models a vit_"),
    ]:
        changed = json.loads(json.dumps(whole))
        changed["model_cfg"][part][key] = value
        path.write_text(json.dumps(changed))
        with pytest.raises(CheckpointError, match=said):
            load_model(tmp_path)


def varint(value: int) -> bytes:
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def field(number: int, content: bytes) -> bytes:
    """A field of a protobuf message, of so many bytes."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def test_sentencepieces_model_gives_the_pieces_that_tokenizer_json_does(tmp_path: Path) -> None:
    with torch.random.fork_rng():
        WRITERS["siglip"](tmp_path)
    wanted = load_model(tmp_path).embed_sentences(SENTENCES)
    path = tmp_path / "tokenizer.json"
    pieces = json.loads(path.read_text())["model"]["vocab"]
    path.unlink()
    parts = [field(1, piece.encode()) + struct.pack("<Bf", 21, score) for piece, score in pieces]
    rules = field(3, field(1, b"nmt_nfkc")) + varint(9 << 3) + varint(300)
    (tmp_path / "spiece.model").write_bytes(b"".join(field(1, part) for part in parts) + rules)
    assert torch.equal(load_model(tmp_path).embed_sentences(SENTENCES), wanted)


def test_a_pair_without_patches_says_that_it_cannot_say_where(clip: Path) -> None:
    model = load_model(clip)
    service = Service(model)
    image = service.embed(np.full((1, 40, 30), 0.5, dtype=np.float32))
    with pytest.raises(InputError, match="has one embedding per image"):
        service.ground(image, "Left pleural effusion.")
    service.close()


def test_layouts_are_told_by_their_files(tmp_path: Path) -> None:
    assert layout_of(tmp_path) is None
    (tmp_path / "a.pt").touch()
    assert layout_of(tmp_path) == "openai"
    (tmp_path / "b.pt").touch()
    with pytest.raises(CheckpointError, match="wants one file"):
        load_model(tmp_path)
    (tmp_path / "config.json").write_text('{"format": "cxrtext image-text model"}')
    assert layout_of(tmp_path) is None


def test_a_pair_is_not_trained_on(clip: Path, options: list[str]) -> None:
    with pytest.raises(ConfigError, match="is a finished pair, which is not trained on; give its"):
        build_model(load_config(None, [*options, f"model.init={clip}"]))


def test_what_another_version_noted_is_refused_in_one_line(copied: Path) -> None:
    path = copied / "cxrtext.json"
    noted = json.loads(path.read_text())
    path.write_text(json.dumps({**noted, "version": 0}))
    write_sums(copied)
    with pytest.raises(
        CheckpointError, match=r"cxrtext.json: written by another version of cxrtext;"
    ):
        load_model(copied)
