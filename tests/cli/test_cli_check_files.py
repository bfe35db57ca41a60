"""``cxrtext check-files`` on whole folders, damaged ones, and tables that their user changed."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cxrtext.errors import DataError
from cxrtext.files import write_sealed, write_sums
from cxrtext_cli.main import app
from tests.conftest import flip
from tests.models.feature_folders import drawn_regions, write_feature_folder


def check(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["check-files", *map(str, arguments)], catch_exceptions=False)
    return done.exit_code, done.stdout


@pytest.fixture
def everything(run_folder: Path, index_folder: Path, sentences_table: Path, tmp_path: Path) -> Path:
    root = tmp_path / "all"
    shutil.copytree(run_folder, root / "run")
    shutil.copytree(index_folder, root / "index")
    shutil.copytree(sentences_table.parent, root / "sentences")
    write_feature_folder(root / "features", drawn_regions(6, 1, 2, 3), "abcdef")
    return root


def test_whole_folders(everything: Path) -> None:
    code, said = check(everything)
    assert code == 0, said
    for kind in ("listed in SHA256SUMS", "training states", "scored sentences", "databases"):
        assert kind in said
    for kind in ("indexes", "tensors", "features"):
        assert kind in said


@pytest.mark.parametrize(
    "pattern",
    [
        *("run/checkpoint/model.safetensors", "run/checkpoint/training.json"),
        *("run/checkpoint/reference.safetensors", "run/state/step-*.pt"),
        *("index/regions.*.vectors", "sentences/sentences.csv"),
        *("sentences/sentences.csv.meta.json", "features/shards/000001.safetensors"),
    ],
)
def test_a_changed_byte_is_told_by_its_file(everything: Path, pattern: str) -> None:
    path = next(everything.glob(pattern))
    flip(path, max(i for i, byte in enumerate(path.read_bytes()) if byte not in (0, 255)))
    code, said = check(everything)
    assert code == 1, said
    assert "1 damaged" in said
    assert said.count("damaged: ") == 1
    assert path.parent.name in said


def test_a_model_that_was_changed_is_not_accepted(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    write_sums(tmp_path)
    with pytest.raises(DataError, match="is a model"):
        check(tmp_path, "--accept")


def test_folders_without_digests_and_notes_on_their_own(tmp_path: Path) -> None:
    (tmp_path / "image.png").write_bytes(b"png")
    code, said = check(tmp_path)
    assert (code, "no file here has a digest" in said) == (0, True)
    write_sealed(tmp_path / "note.json", {"images": 3})
    assert "1 notes" in check(tmp_path)[1]
