"""``cxrtext evaluate`` as a user starts it."""

import json
from pathlib import Path

from tests.cli.conftest import cxrtext


def test_a_report_is_written(checkpoint_copy: Path, data_folder: Path, tmp_path: Path) -> None:
    options = ("--slice", "age", "--out", tmp_path / "out")
    out = cxrtext("evaluate", checkpoint_copy, "--data", data_folder, *options).stdout
    assert "left out: grounding: the data have no boxes.json" in out
    kept = json.loads((checkpoint_copy / "how-good.json").read_text())
    assert (len(kept["lines"]), kept["measured"]) == (5, True)
    warning = [kept["warning"]] * bool(kept["warning"])
    assert "\n".join(["", "How good is it", *kept["lines"], *warning, "written: "]) in out
    assert kept["lines"][3].startswith("Rests on: 12 images of 12 patients, split 'test'")
    assert "; trained on 28 studies; labels given" in kept["lines"][3]
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert len(files) <= 20
    file = tmp_path / "out/predictions.parquet"
    for wrong, said in (
        (("--from", file, "--split", "val"), "--from goes without 'split'"),
        ((), "give a project, a checkpoint and --data, or --from"),
        ((checkpoint_copy,), "has no data of its own; give a folder with --data"),
    ):
        (line,) = cxrtext("evaluate", *wrong, code=2).stderr.splitlines()
        assert said in line


def test_models_are_compared(checkpoint_copy: Path, data_folder: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        options = ("--out", tmp_path / name, "--no-pictures", "--primary", "sentence to image MRR")
        cxrtext("evaluate", checkpoint_copy, "--data", data_folder, *options)
    evaluations = tmp_path / "first", tmp_path / "second/predictions.parquet"
    out = cxrtext(
        *("compare", *evaluations, "--out", tmp_path / "out", "--noninferiority", "0.3"),
    ).stdout
    assert "not distinguishable" in out
    assert "Primary measure sentence to image MRR: second less first" in out
    assert "noninferior by a margin of 0.3" in out
    found = json.loads((tmp_path / "out/comparison.json").read_text())
    assert found["models"] == ["first", "second"]
    assert (tmp_path / "out/comparison.html").is_file()
    for arguments, says in (
        (evaluations[:1], "at least two evaluations"),
        ((*evaluations, "--noninferiority", "2"), "between 0 and 1"),
        ((data_folder, data_folder), "predictions.parquet: no such file"),
    ):
        assert says in cxrtext("compare", *arguments, code=2).stderr
