"""``cxrtext evaluate`` as a user starts it."""

import json
import signal
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from cxrtext.evaluation.report.comparison import model_names
from cxrtext_cli.main import main


def run(*arguments: str | Path, command: str = "evaluate") -> tuple[int, str, str]:
    """Exit code, standard output and standard error of the command."""
    out, err = StringIO(), StringIO()
    terminate = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["cxrtext", command, *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            signal.signal(signal.SIGTERM, terminate)
    return code, out.getvalue(), err.getvalue()


def test_a_report_is_written(checkpoint: Path, data_folder: Path, tmp_path: Path) -> None:
    options = ("--resamples", "20", "--slice", "age")
    code, out, err = run(checkpoint, "--data", data_folder, "--out", tmp_path / "out", *options)
    assert code == 0, err
    assert "zero-shot classification" in out
    assert "left out: grounding: the data have no boxes.json" in out
    assert f"written: {tmp_path / 'out/report.html'}" in out
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [
        *("documents", "evaluation.json", "predictions.parquet", "report.html", "results.csv"),
        "tables",
    ]
    assert "AUC low" in (tmp_path / "out/tables/zero-shot-classification.csv").read_text()
    file = tmp_path / "out/predictions.parquet"
    code, again, err = run("--from", file, "--out", tmp_path / "again")
    assert code == 0, err
    assert again.splitlines()[:-1] == out.splitlines()[:-1]
    for name in ("results.csv", "evaluation.json"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    for wrong, said in (
        (("--from", file, "--average", "scores"), "--from goes without 'average'"),
        ((), "give a checkpoint and --data, or --from"),
        ((checkpoint,), "give a checkpoint and --data, or --from"),
    ):
        code, _, err = run(*wrong)
        assert (code, err.count("\n")) == (2, 1)
        assert said in err


def test_models_are_compared(checkpoint: Path, data_folder: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        options = ("--out", tmp_path / name, "--resamples", "20", "--no-pictures")
        code, _, err = run(checkpoint, "--data", data_folder, *options)
        assert code == 0, err
    evaluations = tmp_path / "first", tmp_path / "second/predictions.parquet"
    code, out, err = run(
        *(*evaluations, "--out", tmp_path / "out", "--noninferiority", "0.3"),
        *("--primary", "sentence to image MRR"),
        command="compare",
    )
    assert code == 0, err
    assert "not distinguishable" in out
    assert "Primary measure sentence to image MRR: second less first" in out
    assert "noninferior by a margin of 0.3" in out
    found = json.loads((tmp_path / "out/comparison.json").read_text())
    assert found["models"] == ["first", "second"]
    assert (tmp_path / "out/tables/differences.tex").is_file()
    text = (tmp_path / "out/comparison.html").read_text()
    assert "<h1>Comparison</h1>" in text
    assert '<th scope="col">first</th><th scope="col">second</th>' in text
    assert "noninferior by 0.3" in text
    assert "Holm p" in text
    for arguments, says in (
        (evaluations[:1], "at least two evaluations"),
        ((*evaluations, "--noninferiority", "2"), "between 0 and 1"),
        ((data_folder, data_folder), "predictions.parquet: no such file"),
    ):
        code, _, err = run(*arguments, command="compare")
        assert code == 2
        assert says in err


def test_wrong_options_are_refused(checkpoint: Path, data_folder: Path) -> None:
    for arguments, says in (
        ((checkpoint, "--average", "mean"), "--average: 'mean'"),
        ((checkpoint, "--uncertain", "perhaps"), "--uncertain: 'perhaps'"),
        ((checkpoint, "--boxes", data_folder / "none.json"), "no such file"),
    ):
        code, _, err = run(*arguments, "--data", data_folder)
        assert code == 2
        assert says in err


def test_names_of_models() -> None:
    paths = [Path("/runs/a/checkpoint"), Path("/runs/b")]
    assert model_names(paths) == ["a", "b"]
    assert model_names([paths[0], paths[0]]) == ["1-a", "2-a"]
