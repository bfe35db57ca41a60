import json
import shutil
from pathlib import Path

from tests.cli.conftest import Refused, cxrtext
from tests.conftest import read_csv, write_data


def test_an_audit_of_a_project(
    project_folder: Path, judged_checkpoint: Path, tmp_path: Path, refused: Refused
) -> None:
    data = write_data(tmp_path / "data", 240)
    index = tmp_path / "index"
    cxrtext("index", "build", data / "manifest.csv", "--model", judged_checkpoint, "--out", index)
    out = tmp_path / "found"
    done = cxrtext("audit", index, "--out", out)
    assert "if reports were dealt to other patients" in done.stdout
    assert "Left pleural" not in done.stdout + done.stderr
    rows = read_csv(out / "audit.csv")
    counts = json.loads((out / "summary.json").read_text())
    assert counts["marked"] == len(rows)
    assert {path.stat().st_mode & 0o777 for path in out.iterdir()} == {0o600}
    assert out.stat().st_mode & 0o777 == 0o700
    cxrtext("audit", index, "--out", out)  # an audit is replaced
    (other := tmp_path / "other").mkdir()
    shutil.copy(data / "reports.csv", other)
    assert "holds no audit" in refused("audit", index, "--out", other)
    few = cxrtext("audit", project_folder, code=2)
    assert "error: 8 films of split 'val'" in few.stderr
    assert "has no index" in refused("audit", judged_checkpoint)
    assert (other / "reports.csv").exists()
