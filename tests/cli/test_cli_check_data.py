import json
import sqlite3
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from PIL import Image

from cxrtext.phantom.render import draw
from cxrtext.phantom.studies import draw_studies
from tests.cli.conftest import cxrtext


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    (folder / "images").mkdir(parents=True)
    rows = ["image,study_id,patient_id,split,view"]
    for seed, (name, split) in enumerate((("a", "train"), ("b", "val"), ("c", "test"))):
        picture, _ = draw(draw_studies(1, seed)[0].patient, 80)
        grey = (255 * np.clip(picture, 0, 1)).astype(np.uint8)
        Image.fromarray(grey).save(folder / f"images/{name}.png")
        rows.append(f"images/{name}.png,s{name},p{name},{split},PA")
    (folder / "manifest.csv").write_text("\n".join(rows))
    reports = "study_id,report\nsa,No effusion.\nsb,Clear lungs.\nsc,Normal heart.\n"
    (folder / "reports.csv").write_text(reports)
    return folder


def test_errors_fail_and_warnings_only_when_strict(data: Path) -> None:
    (data / "reports.csv").unlink()
    cxrtext("check-data", data)
    strict = cxrtext("check-data", data, "--strict", code=1)
    assert "warning: data sets without reports" in strict.stdout
    (data / "images/a.png").unlink()
    out = data / "found.json"
    failed = cxrtext("check-data", data / "manifest.csv", "--out", out, code=1)
    found = json.loads(out.read_text())
    assert found["errors"] == 1
    assert found["problems"][0]["code"] == "image-missing"
    assert "error:" not in failed.stderr


def test_second_run_reads_nothing_again(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cxrtext("check-data", data)
    database = sqlite3.connect(data / ".check-data.sqlite")
    assert database.execute("SELECT count(*) FROM facts").fetchone() == (3,)
    database.close()

    read_anew = Mock(side_effect=AssertionError)
    monkeypatch.setattr("cxrtext.images.sandbox.SandboxPool.ask", read_anew)
    cxrtext("check-data", data)
    (data / ".check-data.sqlite").unlink()
    with pytest.raises(AssertionError):
        cxrtext("check-data", data)
