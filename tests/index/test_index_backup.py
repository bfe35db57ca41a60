"""A backup is the index of one moment, whoever writes meanwhile; a restore answers as it did."""

import json
import shutil
from pathlib import Path

import pytest

from cxrtext.errors import CheckpointError, DataError
from cxrtext.files import file_problems, write_sealed, write_sums
from cxrtext.index import delete
from cxrtext.index.backup import back_up, restore
from cxrtext.index.store.catalogue import CATALOGUE, Catalogue, set_meta
from tests.conftest import flip
from tests.index.conftest import Busy, Upload, answers, wrong


def test_a_restored_index_answers_the_same(small: Path, upload: Upload, tmp_path: Path) -> None:
    uploads, keys = tmp_path / "uploads", tmp_path / "keys"
    keys.write_text(f"one read {'0' * 64}\n")
    sent = [upload(small, uploads, seed) for seed in range(3)]
    delete(small, ["s3", "us1"])
    before = answers(small)
    made = back_up(small, tmp_path / "backup", keys=keys)
    assert (made.images, made.uploads, made.model, made.keys) == (120, 2, True, True)
    kept = {path.name for path in (tmp_path / "backup/model").iterdir()}
    assert {"familiar.safetensors", "reference.safetensors"} <= kept
    assert file_problems(tmp_path / "backup") == []
    modes = {path.stat().st_mode & 0o077 for path in (tmp_path / "backup").rglob("*")}
    assert modes == {0}
    shutil.rmtree(small)
    shutil.rmtree(uploads)
    home = tmp_path / "restored"
    restore(tmp_path / "backup", home)
    assert answers(home / "index") == before
    with Catalogue(home / "index" / CATALOGUE) as catalogue:
        found = catalogue.image("u2.png")
        assert catalogue.meta()["checkpoint"] == str(home / "model")
    assert found is not None
    assert Path(found.path).parent == home / "uploads"
    assert Path(found.path).read_bytes() == sent[2]
    assert (home / "keys.txt").read_bytes() == keys.read_bytes()
    upload(home / "index", home / "uploads", 7)
    assert wrong(home / "index") == []


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_a_backup_is_one_moment_while_others_write(
    small: Path, while_written: Busy, tmp_path: Path, count: int
) -> None:
    with while_written():
        for number in range(count):
            back_up(small, tmp_path / f"backup-{number}", model=False)
    for number in range(count):
        restore(tmp_path / f"backup-{number}", tmp_path / f"restored-{number}")
        index = tmp_path / f"restored-{number}" / "index"
        assert wrong(index) == []
        with Catalogue(index / CATALOGUE) as catalogue:
            rows = catalogue.database.execute("SELECT file FROM images WHERE file IS NOT NULL")
            named = {file for (file,) in rows}
        kept = tmp_path / f"restored-{number}" / "uploads"
        assert {path.name for path in kept.iterdir()} == named


def test_another_model_in_the_checkpoints_place_is_not_copied(
    small: Path, checkpoint: Path, tmp_path: Path
) -> None:
    """As when a training was run once more into the same folder."""
    mine, other = tmp_path / "mine", tmp_path / "other"
    for folder in (mine, other):
        shutil.copytree(checkpoint, folder)
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config, indent=7))
    write_sums(other)
    with Catalogue(small / CATALOGUE, write=True) as catalogue:
        set_meta(catalogue.database, {"checkpoint": mine})
    back_up(small, tmp_path / "backup")

    def replaced(stage: str, *_: int) -> None:
        if stage.startswith("copying"):
            shutil.rmtree(mine)
            shutil.copytree(other, mine)

    for _ in range(2):  # while it is copied, and before
        with pytest.raises(CheckpointError, match=r"holds another model than .* --model "):
            back_up(small, tmp_path / "none", progress=replaced)
        assert not (tmp_path / "none").exists()


def test_an_index_that_was_restored_there_before_is_restored_there_again(
    small: Path, upload: Upload, tmp_path: Path
) -> None:
    home, other = tmp_path / "home", tmp_path / "a"
    first = upload(small, home / "uploads", 1)
    second = upload(small, other, 2)
    back_up(small, tmp_path / "backup")
    shutil.rmtree(home)
    shutil.rmtree(other)
    restore(tmp_path / "backup", home)
    with Catalogue(home / "index" / CATALOGUE) as catalogue:
        for name, sent in (("u1.png", first), ("u2.png", second)):
            found = catalogue.image(name)
            assert found is not None
            assert Path(found.path).is_relative_to(home)
            assert Path(found.path).read_bytes() == sent


def test_what_is_refused(small: Path, tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").write_text("x")
    with pytest.raises(DataError, match="full: is not empty"):
        back_up(small, full)
    backup = tmp_path / "backup"
    back_up(small, backup)
    with pytest.raises(DataError, match="full: is not empty"):
        restore(backup, full)
    with pytest.raises(DataError, match="is not a backup"):
        restore(small, tmp_path / "new")
    vectors = next((backup / "index").glob("regions*"))
    flip(vectors, 100)
    with pytest.raises(DataError, match=r"regions.*is not what SHA256SUMS lists"):
        restore(backup, tmp_path / "new")
    vectors.unlink()
    with pytest.raises(DataError, match=r"regions.*is missing"):
        restore(backup, tmp_path / "new")
    write_sums(backup)  # whoever writes the list anew cannot hide what is missing
    with pytest.raises(DataError, match=r"index/.*is missing"):
        restore(backup, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    note = json.loads((backup / "backup.json").read_text())
    (backup / "backup.json").write_text(json.dumps({**note, "of": "x"}))
    with pytest.raises(DataError, match="is not what was written"):
        restore(backup, tmp_path / "new")
    (backup / "backup.json").unlink()
    write_sealed(backup / "backup.json", {"format": "cxrtext backup", "images": 120})
    with pytest.raises(DataError, match="a backup of another version of cxrtext"):
        restore(backup, tmp_path / "new")
    flip(next(small.glob("regions*")), 5)
    with pytest.raises(CheckpointError, match=r"regions.*damaged"):
        back_up(small, tmp_path / "of-damage")
    assert not (tmp_path / "of-damage").exists()
