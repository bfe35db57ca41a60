"""Table 1, the flow of images, provenance and model card."""

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cxrtext.datasets.importing import ImportOptions, import_folder
from cxrtext.errors import DataError
from cxrtext.evaluation import Prompts, Settings, evaluate
from cxrtext.evaluation.documents import provenance
from cxrtext.evaluation.documents.images import (
    Counts,
    Flow,
    Imported,
    Population,
    Step,
    flow_of,
    table_one,
)
from cxrtext.evaluation.measure import measure_file
from cxrtext.evaluation.predictions.columns import Images
from cxrtext.evaluation.report import ReportOptions, write_report
from cxrtext.files import file_problems
from cxrtext.page import Table
from tests.conftest import read_csv

PROMPTS = {
    "Pleural Effusion": Prompts(("Left pleural effusion.",), ("The lungs | are <b> clear.",)),
    "Pneumothorax": Prompts(("Right pneumothorax.",), ("The lungs are clear.",)),
}


def people() -> Population:
    """Eight images of five patients; patient b has two images and tells the age in the second."""
    images = Images(
        names=[f"{i}.png" for i in range(8)],
        studies=["1", "2", "3", "4", "5", "6", "7", "7"],
        patients=["a", "b", "b", "c", "d", "d", "e", "e"],
        splits=["train", "train", "train", "val", "test", "test", "test", "test"],
        metadata={
            "age": ["50", "", "70", "x", "30", "31", "90", "91"],
            "sex": ["F", "M", "M", "", "F", "F", "M", "M"],
            "view": ["AP", "PA", "PA", "PA", "AP", "PA", "", "PA"],
        },
    )
    labels = {"Edema": np.array([1, 0, 0, 1, 1, 0, -1, -2], dtype=np.int8)}
    measured = np.array([False] * 4 + [True, True, True, False])
    return Population(images, labels, measured)


def test_table_one_by_hand() -> None:
    header, *lines = table_one(people())
    assert header == ["", "train", "val", "test", "all", "measured"]
    rows = {name: cells for name, *cells in lines}
    assert rows["Images"] == ["3", "1", "4", "8", "3"]
    assert rows["Studies"] == ["3", "1", "3", "7", "3"]
    assert rows["Patients"] == ["2", "1", "2", "5", "2"]
    assert rows["Images of a patient (median [IQR])"][0] == "1.5 [1.25, 1.75]"
    # of the first image of each patient that says its age: a 50, b 70; c none; d 30, e 90
    assert rows["Age: years (patients, median [IQR])"] == [
        "60 [55, 65]", "–", "60 [45, 75]", "60 [45, 75]", "60 [45, 75]",
    ]  # fmt: skip
    ages = ["0 (0.0)", "1 (100.0)", "0 (0.0)", "1 (20.0)", "0 (0.0)"]
    assert rows["Age: missing (patients, %)"] == ages
    sexes = ["1 (50.0)", "0 (0.0)", "1 (50.0)", "2 (40.0)", "1 (50.0)"]
    assert rows["Sex: F (patients, %)"] == sexes
    assert rows["Sex: missing (patients, %)"][3] == "1 (20.0)"
    views = ["2 (66.7)", "1 (100.0)", "2 (50.0)", "5 (62.5)", "1 (33.3)"]
    assert rows["View: PA (images, %)"] == views
    for level in ("with", "without", "uncertain", "missing"):
        assert rows[f"Edema: {level} (images, %)"][2] == "1 (25.0)"
    assert all(len(row) == 6 for row in lines)


def test_the_flow_adds_up_from_the_import_to_the_images_measured() -> None:
    imported = Imported({f"why {i}": i for i in range(1, 10)})
    rejects = {"7.png": "/home/someone/7.png: is 12 x 9 pixels; send another"}
    flow = flow_of(people(), "test", imported=imported, rejects=rejects, validation=True)
    first, manifest, chosen, measured = flow.steps
    assert first.counts.images == 8 + 45
    assert sum(one.images for one in first.left_out.values()) == 45
    assert list(first.left_out)[-1] == "other reasons"
    assert manifest.left_out == {
        "split train: not measured": Counts(3, 3, 2),
        "split val: chose thresholds and calibration": Counts(1, 1, 1),
    }
    assert chosen.left_out == {"cannot be read: is n x n pixels": Counts(1)}
    assert measured.counts == Counts(3, 3, 2)
    assert flow.labels["Edema"] == {"with": 1, "without": 1, "uncertain": 1, "missing": 0}
    steps, labels = flow.blocks()
    assert isinstance(steps, Table)
    assert isinstance(labels, Table)
    assert ["What the import looked at", "53 files and rows"] in steps.rows
    assert ["Edema", "1", "1", "1", "0", "3"] in labels.rows
    assert "someone" not in str(flow)


def test_figures_that_do_not_add_up_are_refused() -> None:
    steps = [Step("all", Counts(5), {"why": Counts(1)}), Step("rest", Counts(3))]
    with pytest.raises(ValueError, match="all: 5 images less 1"):
        Flow(steps, {})
    with pytest.raises(ValueError, match="Edema: its labels are not 4"):
        Flow([Step("rest", Counts(4))], {"Edema": {"with": 3}})


def test_paths_do_not_get_into_provenance() -> None:
    shown = provenance.shown_command(
        ["evaluate", "/home/jane/run/checkpoint", "--data=/x/y", "test", r"C:\Users\jane\data"]
    )
    assert shown == ["evaluate", "checkpoint", "--data=y", "test", "data"]
    kept = {"best": "val/loss", "text": "microsoft/BiomedVLP-CXR-BERT-general"}
    found = provenance.without_paths({"a": ["/b/c", 1, None], **kept})
    assert found == {"a": ["c", 1, None], **kept}


@pytest.fixture(scope="module")
def imported_folder(data_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made by an import that left one image out; one became unreadable since."""
    source = Path(shutil.copytree(data_folder, tmp_path_factory.mktemp("source") / "set"))
    with (source / "manifest.csv").open("a") as handle:
        handle.write("images/none.png,s99,p99,test,50\n")
    out = tmp_path_factory.mktemp("imported") / "Jane-Doe"
    import_folder(source, out, ImportOptions(keep=("age",)))
    broken = out / "images/s07.png"
    broken.chmod(0o600)
    broken.write_bytes(b"no image")
    return out


@pytest.fixture(scope="module")
def written(
    checkpoint: Path, imported_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    out = tmp_path_factory.mktemp("written")
    settings = Settings()
    result = evaluate(checkpoint, imported_folder, prompts=PROMPTS, settings=settings)
    command = ("cxrtext", "evaluate", str(checkpoint), "--data", str(imported_folder))
    write_report(out, result, ReportOptions(sentences=False, command=command))
    return out


def told(folder: Path, name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / f"documents/{name}.json").read_text())
    return document


def test_an_evaluation_has_its_documents(written: Path, imported_folder: Path) -> None:
    documents = written / "documents"
    names = {path.name for path in documents.iterdir()}
    assert names == {
        "SHA256SUMS", "flow.json", "model-card.md", "provenance.json", "table-1.csv",
    }  # fmt: skip
    assert file_problems(documents) == []
    flow = told(written, "flow")
    assert [one["counts"]["images"] for one in flow["steps"]] == [49, 48, 12, 11]
    assert sum(flow["labels"]["Pneumothorax"].values()) == 11
    [why] = flow["steps"][2]["left_out"]
    assert why.startswith("cannot be read: ")
    first = read_csv(documents / "table-1.csv")[0]
    assert (first["characteristic"], first["measured"]) == ("Images", "11")
    page = (written / "report.html").read_text()
    assert ("are <b> clear" in page, "data:image/svg+xml" in page) == (False, True)
    card = (documents / "model-card.md").read_text()
    assert "| Pleural Effusion | Left pleural effusion. | The lungs \\| are &lt;b> clear. |" in card


def test_documents_name_no_folder_no_id_and_no_report(written: Path) -> None:
    texts = {path.name: path.read_text() for path in (written / "documents").iterdir()}
    for name, text in texts.items():
        for private in (str(written.parent), "images/s0", "s07", "p07"):
            assert private not in text, name
        if name not in ("provenance.json", "model-card.md"):
            assert "Jane-Doe" not in text, name
    claims = re.findall(r"[^.]*\b(?:conform|complian)\w*[^.]*", " ".join(texts.values()))
    assert claims
    assert all(re.search(r"\bno\b", claim) for claim in claims)


def test_provenance_can_be_checked(written: Path, imported_folder: Path, checkpoint: Path) -> None:
    found = told(written, "provenance")
    tables = found["data"]["tables"]
    assert set(tables) == {"manifest", "reports", "labels"}
    for one in tables.values():
        path = imported_folder / one["file"]
        assert one["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    for name, one in found["outputs"].items():
        assert one["sha256"] == hashlib.sha256((written / name).read_bytes()).hexdigest()
    assert set(found["outputs"]) == {"results.csv", "evaluation.json", "predictions.parquet"}
    rows = [(row["image"], row["split"]) for row in read_csv(imported_folder / "manifest.csv")]
    lines = "".join(f"{image}\t{split}\n" for image, split in sorted(rows))
    assert found["data"]["split_sha256"] == hashlib.sha256(lines.encode()).hexdigest()
    assert found["command"] == ["cxrtext", "evaluate", checkpoint.name, "--data", "Jane-Doe"]
    assert found["software"]["torch"]
    assert found["machine"]["device"] == "cpu"
    assert found["checkpoint"]["fingerprint"]
    assert found["prompts"]["findings"]["Pneumothorax"]["positive"] == ["Right pneumothorax."]


def test_documents_again_from_predictions(
    written: Path, imported_folder: Path, tmp_path: Path
) -> None:
    result = measure_file(written / "predictions.parquet")
    write_report(tmp_path, result, ReportOptions(data=imported_folder))
    for name in ("flow.json", "table-1.csv"):
        files = (one / "documents" / name for one in (written, tmp_path))
        assert len({file.read_text() for file in files}) == 1
    first, made = (told(one, "provenance") for one in (written, tmp_path))
    making = made["predictions_making"]
    assert making == {name: first[name] for name in making}
    digest = hashlib.sha256((written / "predictions.parquet").read_bytes()).hexdigest()
    assert made["predictions_sha256"] == digest
    other = tmp_path / "other"
    other.mkdir()
    (other / "manifest.csv").write_text("image,study_id\nimages/x.png,s00\n")
    with pytest.raises(DataError, match="11 of the 11 images that were measured are missing"):
        write_report(tmp_path, result, ReportOptions(data=other))


def test_a_card_that_was_edited_stays(written: Path, tmp_path: Path) -> None:
    result = measure_file(written / "predictions.parquet")
    write_report(tmp_path, result)
    card = tmp_path / "documents/model-card.md"
    assert "**The author must write:** What could go wrong when the model errs" in card.read_text()
    write_report(tmp_path, result)
    assert not (tmp_path / "documents/model-card.new.md").exists()
    card.write_text(card.read_text() + "my own words")
    for _ in range(2):
        write_report(tmp_path, result)
        assert card.read_text().endswith("my own words")
        assert "my own words" not in (tmp_path / "documents/model-card.new.md").read_text()
        assert file_problems(tmp_path / "documents") == []
