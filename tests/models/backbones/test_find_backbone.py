"""A checkpoint's backbone, found by its digest."""

import os
import shutil
from pathlib import Path

import pytest

from cxrtext.errors import CheckpointError
from cxrtext.models.backbones import find_backbone, load_backbone
from tests import small_backbones


@pytest.fixture(autouse=True)
def no_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXRTEXT_BACKBONES", raising=False)


def test_it_is_found_in_the_checkpoint_where_it_was_and_in_listed_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = small_backbones.write(tmp_path / "here" / "small-vit", "vit")
    note = load_backbone(folder, size=35).note()
    checkpoint = tmp_path / "checkpoint"
    assert find_backbone(note, checkpoint).folder == folder
    shutil.copytree(folder, checkpoint / "backbone")
    found = find_backbone(note, checkpoint)
    assert found.folder == checkpoint / "backbone"
    assert (found.digest, found.grid) == (note["digest"], (5, 5))
    shutil.rmtree(checkpoint)
    listed = tmp_path / "models"
    small_backbones.write(listed / "aaa", "vit", seed=1)
    shutil.move(folder, listed / "of another name")
    with pytest.raises(CheckpointError):
        find_backbone(note, checkpoint)
    monkeypatch.setenv("CXRTEXT_BACKBONES", os.pathsep.join([str(tmp_path / "no"), str(listed)]))
    assert find_backbone(note, None).folder == listed / "of another name"
    monkeypatch.setenv("CXRTEXT_BACKBONES", str(listed / "of another name"))
    assert find_backbone(note, None).folder == listed / "of another name"


def test_without_it_the_ways_out_are_named(tmp_path: Path) -> None:
    folder = small_backbones.write(tmp_path / "small-vit", "vit")
    note = load_backbone(folder).note()
    shutil.rmtree(folder)
    with pytest.raises(CheckpointError) as error:
        find_backbone(note, tmp_path / "run")
    line = str(error.value)
    assert f"backbone 'small-vit' (digest {note['digest'][:12]}…) is not here" in line
    assert f"looked in {tmp_path / 'run' / 'backbone'}, {folder}" in line
    assert f"copy its folder to {tmp_path / 'run' / 'backbone'}" in line
    assert "CXRTEXT_BACKBONES" in line
    assert "\n" not in line


@pytest.mark.parametrize("what", ["weights", "preprocessing", "kind"])
def test_another_of_the_same_name_is_refused_by_name(tmp_path: Path, what: str) -> None:
    folder = small_backbones.write(tmp_path / "small-vit", "vit")
    note = load_backbone(folder).note()
    if what == "weights":
        small_backbones.build("vit", seed=1).save_pretrained(folder)
        said = "its digest is [0-9a-f]{12}…: other weights"
    elif what == "preprocessing":
        small_backbones.write(folder, "vit", processor=small_backbones.PROCESSOR)
        said = "its images are prepared with resize 28, and were with 32"
    else:
        shutil.rmtree(folder)
        small_backbones.write(folder, "dinov2")
        said = "its digest is"
    with pytest.raises(CheckpointError, match=f"{folder} is another: {said}"):
        find_backbone(note, None)


def test_a_damaged_note_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="note of its backbone is damaged"):
        find_backbone({"name": "x", "digest": "0"}, tmp_path)
