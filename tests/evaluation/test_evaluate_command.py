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
        (("--from", file, "--split", "val"), "--from cannot be combined with 'split'"),
        ((), "give a project, a checkpoint and --data, or --from"),
        ((checkpoint_copy,), "has no data of its own; give a folder with --data"),
    ):
        (line,) = cxrtext("evaluate", *wrong, code=2).stderr.splitlines()
        assert said in line
