"""An index: searched, filtered, added to, deleted from; one image asked."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cxrtext
from tests.border.conftest import answer, build, flip, killed_once, refusal, rows_of, tree
from tests.commands import cxrtext as command
from tests.datasets.written import save_table
from tests.warm import Warm

QUERY = "Left pleural effusion."


@pytest.fixture
def copied(index: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(index, tmp_path / "index"))


def found(index: Path, *options: object) -> list[dict[str, Any]]:
    hits: list[dict[str, Any]] = answer("search", index, *options)
    return hits


@pytest.mark.parametrize("mode", ["auto", "exact", "fast"])
def test_hits_come_in_the_order_of_the_models_own_scores(
    mode: str, index: Path, checkpoint: Path, drawn: Path
) -> None:
    hits = found(index, QUERY, "-k", 12, "--mode", mode, "--as-written")
    with cxrtext.open(checkpoint) as project:
        scores = {
            row["image"]: float(project.score(drawn / row["image"], QUERY))
            for row in rows_of(drawn / "manifest.csv")
        }
    best = sorted(scores.values(), reverse=True)[:12]
    assert [hit["score"] for hit in hits] == pytest.approx(best, abs=2e-3)
    for hit in hits:
        assert hit["score"] == pytest.approx(scores[hit["image"]], abs=2e-3)


FILTERS: dict[str, Callable[[dict[str, str]], bool]] = {
    "age > 60": lambda row: int(row["age"]) > 60,
    "sex = 'F' and age <= 50": lambda row: row["sex"] == "F" and int(row["age"]) <= 50,
    "split in ('test', 'val')": lambda row: row["split"] in ("test", "val"),
    "not (view = 'PA' or age between 30 and 60)": lambda row: (
        not (row["view"] == "PA" or 30 <= int(row["age"]) <= 60)
    ),
    "patient_id = 'p000002'": lambda row: row["patient_id"] == "p000002",
    "follow_up is null": lambda row: row["follow_up"] == "",
}


@pytest.mark.parametrize("where", FILTERS)
def test_a_filter_leaves_what_its_words_say(where: str, index: Path, drawn: Path) -> None:
    left = {row["image"] for row in rows_of(drawn / "manifest.csv") if FILTERS[where](row)}
    hits = found(index, QUERY, "-k", 200, "--where", where)
    assert {hit["image"] for hit in hits} == left


def test_an_unknown_column_is_named(index: Path) -> None:
    assert "weight" in refusal("search", index, QUERY, "--where", "weight > 3")


def test_the_query_image_is_its_own_best_hit(index: Path, drawn: Path) -> None:
    image = rows_of(drawn / "manifest.csv")[5]["image"]
    assert found(index, "--image", drawn / image, "-k", 1)[0]["image"] == image
    patients = [hit["patient_id"] for hit in found(index, "--image-id", image, "--other-patients")]
    assert rows_of(drawn / "manifest.csv")[5]["patient_id"] not in patients


def test_sentences_are_found_by_an_image(index: Path, film: Path, drawn: Path) -> None:
    said = [hit["sentence"] for hit in found(index, "--image", film, "--target", "sentences")]
    reports = " ".join(
        f"{row['findings']} {row['impression']}" for row in rows_of(drawn / "reports.csv")
    )
    assert said
    assert all(sentence in reports for sentence in said)


def test_one_result_a_patient(index: Path) -> None:
    patients = [hit["patient_id"] for hit in found(index, QUERY, "-k", 20, "--unique", "patient")]
    assert len(patients) == len(set(patients)) > 1


def test_results_are_written_as_a_table(index: Path, tmp_path: Path) -> None:
    command("search", index, QUERY, "-k", 5, "--out", tmp_path / "hits.csv")
    rows = rows_of(tmp_path / "hits.csv")
    assert [row["image"] for row in rows] == [hit["image"] for hit in found(index, QUERY, "-k", 5)]


def test_what_is_deleted_is_not_found_and_compact_erases_it(copied: Path, drawn: Path) -> None:
    row = rows_of(drawn / "manifest.csv")[3]
    command("index", "delete", copied, row["study_id"])
    assert row["image"] not in {hit["image"] for hit in found(copied, QUERY, "-k", 200)}
    assert len(found(copied, QUERY, "-k", 200)) == 71
    command("index", "compact", copied)
    assert not any(row["study_id"].encode() in data for data in tree(copied).values())
    command("index", "check", copied)


def test_an_unknown_study_deletes_nothing(copied: Path, drawn: Path) -> None:
    row = rows_of(drawn / "manifest.csv")[3]
    assert "nobody" in refusal("index", "delete", copied, row["study_id"], "nobody")
    assert len(found(copied, QUERY, "-k", 200)) == 72


def test_images_are_added_in_two_parts_with_the_same_answers(
    drawn: Path, checkpoint: Path, index: Path, tmp_path: Path
) -> None:
    rows = rows_of(drawn / "manifest.csv")
    for name, some in (("first", rows[:30]), ("rest", rows)):
        save_table(tmp_path / f"{name}/manifest.csv", some)
        save_table(tmp_path / f"{name}/reports.csv", rows_of(drawn / "reports.csv"))
        (tmp_path / f"{name}/images").symlink_to(drawn / "images")
    out = tmp_path / "index"
    given = "--model", checkpoint, "--out", out, "--device", "cpu", "--allow-outside"
    command("index", "build", tmp_path / "first/manifest.csv", *given)
    assert len(found(out, QUERY, "-k", 200)) == 30
    command("index", "build", tmp_path / "rest/manifest.csv", *given)
    hits, whole = found(out, QUERY, "-k", 200), found(index, QUERY, "-k", 200)
    np.testing.assert_allclose([h["score"] for h in hits], [h["score"] for h in whole], atol=1e-3)


def test_a_killed_build_goes_on(
    drawn: Path, checkpoint: Path, index: Path, warm: Warm, tmp_path: Path
) -> None:
    out = tmp_path / "index"
    given = "index", "build", drawn / "manifest.csv", "--model", checkpoint, "--out", out
    killed_once(warm, out / "writer.lock", *given, "--device", "cpu")
    build(drawn / "manifest.csv", checkpoint, out)
    assert found(out, QUERY, "-k", 30) == found(index, QUERY, "-k", 30)


def test_a_flipped_byte_of_the_vectors_is_noticed(copied: Path) -> None:
    vectors = next(copied.glob("regions*.vectors"))
    flip(vectors)
    done = command("index", "check", copied, code=1)
    assert vectors.name in done.stdout + done.stderr


def test_an_image_is_classified_grounded_and_verified(
    checkpoint: Path, film: Path, tmp_path: Path
) -> None:
    (row,) = answer("classify", checkpoint, film)
    findings = "Cardiomegaly", "Edema", "Pleural Effusion", "Pneumonia", "Pneumothorax"
    assert all(0 <= row[finding] <= 1 for finding in findings)
    grounded = answer("ground", checkpoint, film, QUERY, "--out", tmp_path / "map.png")
    grid = np.array(grounded["grid"], dtype=float)
    assert grid.ndim == 2
    assert np.abs(grid[np.isfinite(grid)]).max() <= 1
    assert (tmp_path / "map.png").read_bytes()[:4] == b"\x89PNG"
    (tmp_path / "report.txt").write_text("Left pleural effusion. No pneumothorax.")
    verified = answer("verify", checkpoint, film, tmp_path / "report.txt")
    assert [one["sentence"] for one in verified["sentences"]] == [
        "Left pleural effusion.", "No pneumothorax.",
    ]  # fmt: skip


def test_python_gives_what_the_commands_give(index: Path, film: Path) -> None:
    with cxrtext.open(index) as project:
        hits = project.search(QUERY, k=5, where="age > 40")
        asked = found(index, QUERY, "-k", 5, "--where", "age > 40")
        assert hits.table().column("image").to_pylist() == [hit["image"] for hit in asked]
        vector = torch.as_tensor(project.embed(film))
        assert float(vector.norm()) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("name", ["missing.png", "text.png", "empty.dcm"])
def test_a_wrong_image_is_one_line(name: str, checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("no image")
    (tmp_path / "empty.dcm").write_bytes(b"")
    line = refusal("ground", checkpoint, tmp_path / name, QUERY, "--out", tmp_path / "map.png")
    assert name in line
    assert not (tmp_path / "map.png").exists()
