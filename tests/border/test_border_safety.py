"""Nothing is lost, nothing stays that is to go, and nothing is written where it must not be."""

import shutil
from pathlib import Path

import pytest

import cxrtext
from tests.border.conftest import answer, build, flip, refusal, rows_of, tree
from tests.commands import cxrtext as command


def test_a_forgotten_patient_leaves_no_byte(drawn: Path, checkpoint: Path, tmp_path: Path) -> None:
    data = Path(shutil.copytree(drawn, tmp_path / "data"))
    row = rows_of(data / "manifest.csv")[7]
    build(data / "manifest.csv", checkpoint, tmp_path / "index")
    studies = [one["study_id"] for one in rows_of(data / "manifest.csv")
               if one["patient_id"] == row["patient_id"]]  # fmt: skip
    places = data, tmp_path / "index"
    log = "--log", tmp_path / "forgotten/log.jsonl"
    command("forget", *places, "--patient", row["patient_id"], "--dry-run", *log)
    assert any(row["patient_id"].encode() in one for one in tree(data).values())
    command("forget", *places, "--patient", row["patient_id"], *log)
    ids = [name.encode() for name in (row["patient_id"], *studies)]
    for place in places:
        for name, content in tree(place).items():
            assert not any(one in content or one in name.encode() for one in ids), name
    assert len(rows_of(data / "manifest.csv")) == 72 - len(studies)
    hits = answer("search", tmp_path / "index", "Pleural effusion.", "-k", 200)
    assert len(hits) == 72 - len(studies)


def test_a_backup_restores_to_the_same_answers(index: Path, tmp_path: Path) -> None:
    command("backup", index, "--out", tmp_path / "backup")
    command("restore", tmp_path / "backup", "--out", tmp_path / "restored")
    (restored,) = (path.parent for path in (tmp_path / "restored").rglob("index.json"))
    query = "Left pleural effusion.", "-k", 9
    assert answer("search", restored, *query) == answer("search", index, *query)


def test_a_damaged_backup_is_not_restored(index: Path, tmp_path: Path) -> None:
    command("backup", index, "--out", tmp_path / "backup")
    damaged = max((tmp_path / "backup").rglob("*"), key=lambda path: path.stat().st_size)
    flip(damaged)
    line = refusal("restore", tmp_path / "backup", "--out", tmp_path / "restored")
    assert damaged.name in line
    assert not (tmp_path / "restored").exists()


def test_every_damaged_file_is_named(checkpoint: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(checkpoint, tmp_path / "checkpoint"))
    command("check-files", copied)
    flip(copied / "model.safetensors")
    flip(copied / "tokenizer.json")
    done = command("check-files", copied, code=1)
    assert "model.safetensors" in done.stdout + done.stderr
    assert "tokenizer.json" in done.stdout + done.stderr


def test_a_changed_table_is_named_until_it_is_accepted(drawn: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(drawn, tmp_path / "set"))
    with (copied / "labels.csv").open("a") as handle:
        handle.write("\n")
    done = command("check-files", copied, code=1)
    assert "labels.csv" in done.stdout + done.stderr
    command("check-files", copied, "--accept")
    command("check-files", copied)


@pytest.mark.parametrize(
    "hostile",
    [
        {"config.json": b"{"}, {"config.json": b"[1, 2]"}, {"config.json": b"{}"},
        {"config.json": b'{"model": {"dimension": 1e99}}'}, {"model.safetensors": b"\xff" * 64},
        {"model.safetensors": b""}, {"SHA256SUMS": b"0" * 64 + b"  ../../outside\n"},
        {"tokenizer.json": b"[" * 100_000},
    ],
)  # fmt: skip
def test_a_hostile_model_folder_is_refused_and_nothing_is_written(
    hostile: dict[str, bytes], checkpoint: Path, film: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(checkpoint, tmp_path / "inner/model"))
    for name, content in hostile.items():
        (folder / name).write_bytes(content)
    before = tree(tmp_path)
    assert str(folder) in refusal("classify", folder, film)
    with pytest.raises(Exception, match="model") as caught:
        cxrtext.load_model(folder)
    assert type(caught.value).__module__ == "cxrtext.errors"
    assert tree(tmp_path) == before


def test_commands_answer_for_help_and_a_wrong_name() -> None:
    text = command("--help").stdout
    for name in ("fit", "import", "score-text", "train", "evaluate", "index", "search", "serve"):
        assert name in text
        assert "Usage" in command(name, "--help").stdout
    assert "serach" in command("serach", code=2).stderr
    assert command("--version").stdout.split()[-1] == cxrtext.__version__


def test_an_unknown_patient_is_refused_and_leaves_no_file(index: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(index, tmp_path / "index"))
    before = tree(copied)
    refusal("forget", copied, "--patient", "nobody")
    assert tree(copied) == before
