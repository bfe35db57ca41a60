from pathlib import Path
from typing import Any

import pytest

from cxrtext.errors import ConfigError, DataError
from cxrtext.evaluation import Evaluation, Prompts, Settings, evaluate, read_prompts
from cxrtext.evaluation.data import read_data_folder
from cxrtext.evaluation.report import write_report
from cxrtext.evaluation.rows import RETRIEVAL


def test_a_learned_model_beats_chance_on_held_out_patients(usual: Evaluation) -> None:
    assert (usual.images, usual.patients, usual.split) == (12, 12, "test")
    assert (usual.mean_auc or 0) > 0.9
    assert usual.rows.value(RETRIEVAL, "sentence to image", "R@1") == 1.0
    assert usual.rows.value(RETRIEVAL, "image to sentence", "queries") == 12


def test_what_is_missing_is_left_out_and_said(
    checkpoint: Path, data_copy: Path, tmp_path: Path
) -> None:
    (data_copy / "labels.csv").unlink()
    (data_copy / "reports.csv").unlink()
    result = evaluate(checkpoint, data_copy)
    assert result.left_out == [
        "classification: the data have no labels.csv with a column of these findings",
        "grounding: the data have no boxes.json",
        "retrieval: the data have no reports of these studies",
    ]
    write_report(tmp_path / "out", result)
    assert "Left out" in (tmp_path / "out/report.html").read_text()


def test_wrong_folders(checkpoint: Path, data_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such folder"):
        evaluate(checkpoint, tmp_path / "none")
    with pytest.raises(DataError, match="holds no manifest"):
        evaluate(checkpoint, tmp_path)
    (tmp_path / "manifest.csv").write_text("image,study_id\na.png,s\n")
    with pytest.raises(DataError, match=r"can be read: .*a\.png"):
        evaluate(checkpoint, tmp_path, split="train")


def test_prompts_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "prompts.yaml"
    path.write_text("Edema: {positive: [Edema, Pulmonary edema], negative: No edema}\n")
    assert read_prompts(path) == {"Edema": Prompts(("Edema", "Pulmonary edema"), ("No edema",))}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "expected 'Finding"),
        ("Edema: {positive: a}", "Edema: expected the keys"),
        ("Edema: {positive: [], negative: b}", "'positive' needs a sentence"),
    ],
)
def test_wrong_prompts(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "prompts.yaml"
    path.write_text(text)
    with pytest.raises(DataError, match=says):
        read_prompts(path)


OTHERS = {
    "reports.csv": "study_id,report\nother,Zebulon is well.\n",
    "labels.csv": "study_id,Edema\nother,1\nmore,0\n",
    "boxes.csv": "image,finding,x,y,w,h,label_text\nother.png,Edema,1,1,2,2,Zebulon.\n",
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_table_of_other_studies_is_refused(data_copy: Path, name: str) -> None:
    (data_copy / name).write_text(OTHERS[name])
    what = name.removesuffix(".csv")
    with pytest.raises(DataError, match=f"{name}: none of its {what} belongs to") as told:
        read_data_folder(data_copy)
    assert "and 48 there have none in common" in str(told.value)
    assert "other" not in str(told.value).replace(str(data_copy), "")
    assert "Zebulon" not in str(told.value)


@pytest.mark.parametrize(("name", "value"), [("sensitivity", 0.0), ("uncertain", "maybe")])
def test_wrong_settings(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"{name}: .*{value}"):
        Settings(**{name: value})
