"""What the rules of labels understand of reports is said, and too little of it stops ``fit``."""

from pathlib import Path

import pytest

from cxrtext.errors import DataError
from cxrtext.language.report_labels import label_reports
from cxrtext.project.stages import Teller, label_stage
from tests.datasets.written import save_table


def test_the_share_understood_is_said_and_too_little_stops_fit(tmp_path: Path) -> None:
    texts = {"a": "No effusion. Scoliosis.", "b": "右侧胸腔积液。", "c": "Kein Erguss."}
    save_table(tmp_path / "reports.csv", [{"study_id": k, "findings": v} for k, v in texts.items()])
    done = label_reports(tmp_path / "reports.csv", tmp_path / "labels.csv")
    assert done.understood == 0.5
    assert done.by_language == {"en": 0.5, "unknown": 0.0, "de": 1.0}
    assert done.by_section == {"findings": 0.5}
    (tmp_path / "data").mkdir()
    (tmp_path / "reports.csv").rename(tmp_path / "data/reports.csv")
    work = label_stage(tmp_path, "reports.csv").work
    assert "50%" in work(False, Teller())
    rows = [{"study_id": k, "findings": texts["b"]} for k in "abcd"]
    save_table(tmp_path / "data/reports.csv", [*rows, {"study_id": "e", "findings": "Clear."}])
    with pytest.raises(DataError, match=r"20% .* unknown 0 %.*--reports"):
        work(False, Teller())
