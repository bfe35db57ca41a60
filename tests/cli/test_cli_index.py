"""``cxrtext index``, ``search`` and ``classify`` of one, as a user starts them."""

import json
import shutil
from functools import partial
from pathlib import Path

from cxrtext.index.store.catalogue import CATALOGUE, Catalogue
from tests.cli.conftest import Refused, cxrtext
from tests.conftest import read_csv


def found(*arguments: object) -> list[dict[str, str]]:
    done = cxrtext("search", *arguments, "--json")
    rows: list[dict[str, str]] = json.loads(done.stdout)
    return rows


def test_every_kind_of_query(index_folder: Path, data_folder: Path, tmp_path: Path) -> None:
    find = partial(found, index_folder)
    one = find("Left pleural effusion.", "--not", "The lungs are clear.")
    assert len(one) == 10
    image = data_folder / "images/s04.png"
    both = find("Left pleural effusion.", "--image", image, "--image-weight", "1")
    assert both[0]["image"] == "images/s04.png"
    first = find("Effusion.", "-k", 5)
    assert first == find("Effusion.")[:5]
    fast = cxrtext("search", index_folder, "Effusion.", "--mode", "fast")
    assert "candidates only" not in fast.stderr  # of so few images it is exact, too
    said = find("Left pleural effusion.", "--target", "sentences", "-k", 1)
    assert said[0]["sentence"] == "Left pleural effusion."
    least = find("Effusion.", "--min-score", first[2]["score"])
    assert len(least) == 3
    assert find("Effusion.", "--where", "age > 1000") == []
    cxrtext("search", index_folder, "Effusion.", "--out", tmp_path / "hits.csv")
    assert 0 <= float(read_csv(tmp_path / "hits.csv")[0]["label.Pneumothorax"]) <= 1


def test_a_filter_that_no_value_can_pass_says_what_there_is(
    refused: Refused, index_folder: Path
) -> None:
    search = ("search", index_folder, "Pneumothorax.", "--where")
    assert "no image: age holds numbers, 40 to 87" in refused(*search, "age > 'abc'")
    said = refused(*search, "split = 'Test'", "--target", "sentences")
    assert "no image: split holds 'train', 'test', 'val'" in said


def test_studies_are_deleted_once(refused: Refused, index_copy: Path) -> None:
    done = cxrtext("index", "delete", index_copy, "s01", "s02")
    assert "2 images of 2 studies deleted" in done.stdout, done.stderr
    assert "holds no study 's01'" in refused("index", "delete", index_copy, "s03", "s01")


def test_check_names_the_command_that_mends(index_copy: Path) -> None:
    path = next(index_copy.glob("sketch.*"))
    path.write_bytes(b"\1" * path.stat().st_size)
    done = cxrtext("index", "check", index_copy, code=1)
    assert "is damaged" in done.stderr
    assert f"'cxrtext index compact {index_copy}' derives again" in done.stderr
    assert "48 images" in cxrtext("index", "compact", index_copy).stdout
    assert "nothing is wrong" in cxrtext("index", "check", index_copy).stdout


def test_add_and_replace_and_move(index_copy: Path, data_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(data_folder, tmp_path / "set"))
    (folder / "few.csv").write_text("image,study_id\nimages/s00.png,s00\nimages/s01.png,s01\n")
    done = cxrtext("index", "build", folder / "few.csv", "--out", index_copy, "--replace")
    assert "(0 new, 2 replaced)" in done.stdout
    moved = folder.rename(tmp_path / "moved")
    cxrtext("index", "build", moved / "few.csv", "--out", index_copy)
    with Catalogue(index_copy / CATALOGUE) as catalogue:
        image = catalogue.image("images/s01.png")
    assert image is not None
    assert Path(image.path) == moved / "images/s01.png"


def test_an_index_to_receive_into(checkpoint: Path, tmp_path: Path) -> None:
    out = tmp_path / "new"
    done = cxrtext("index", "build", "--model", checkpoint, "--out", out)
    assert f"{out}: an index without images; a gateway with it as 'project'" in done.stdout
    assert "0 images" in cxrtext("index", "check", out).stdout


def test_a_whole_index_is_labelled(index_copy: Path, tmp_path: Path) -> None:
    prompts, out = tmp_path / "prompts.yaml", tmp_path / "labels.csv"
    prompts.write_text(
        "Effusion:\n  positive: Left pleural effusion.\n  negative: The lungs are clear.\n"
    )
    cxrtext("classify", index_copy, "--prompts", prompts, "--out", out, "--keep")
    rows = read_csv(out)
    assert len(rows) == 48
    assert set(rows[0]) == {"image", "study_id", "patient_id", "Effusion", "not calibrated"}
    assert {row["not calibrated"] for row in rows} == {"Effusion"}
    hits = found(index_copy, "x", "-k", 99, "--where", "label.Effusion > 0.5")
    assert len(hits) == sum(float(row["Effusion"]) > 0.5 for row in rows)
