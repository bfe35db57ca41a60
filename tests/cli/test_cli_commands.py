import csv
import json
import os
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian

from cxrtext_cli.main import main


@dataclass(frozen=True)
class Done:
    """What a command came to."""

    returncode: int
    stdout: str
    stderr: str


def run(*arguments: str | Path, cwd: Path | None = None) -> Done:
    """The command as a user starts it, but in this process, which has torch imported already."""
    out, err = StringIO(), StringIO()
    terminate = signal.getsignal(signal.SIGTERM)
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        patch.setattr(sys, "argv", ["cxrtext", *map(str, arguments)])
        patch.chdir(cwd or Path.cwd())
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            signal.signal(signal.SIGTERM, terminate)
    return Done(code, out.getvalue(), err.getvalue())


def refused(result: Done, code: int, *says: str) -> None:
    """One or two lines on standard error, no traceback, the exit code of its kind."""
    assert result.returncode == code, result.stderr
    lines = result.stderr.strip().splitlines()
    errors = [line for line in lines if line.startswith("error:")]
    assert len(errors) == 1, result.stderr
    assert "Traceback" not in result.stderr
    for words in says:
        assert words in errors[0]


def test_help_lists_every_command_and_imports_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv = ['cxrtext', '--help']\n"
        "from cxrtext_cli.main import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'torch', 'numpy', 'transformers', 'faiss', 'fastapi', 'pydicom', 'pyarrow'}\n"
        "print('HEAVY', sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert "HEAVY []" in done.stdout
    for name in ("phantom", "score-text", "train", "evaluate", "index", "search", "serve"):
        assert name in done.stdout


def test_short_help_and_shell_completion() -> None:
    for command in ((), ("keys",), ("keys", "add"), ("train",)):
        assert run(*command, "-h").stdout == run(*command, "--help").stdout
    for shell in ("bash", "zsh", "fish"):
        shown = subprocess.run(
            [Path(sys.executable).with_name("cxrtext"), "--show-completion", shell],
            capture_output=True,
            text=True,
            env={**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
        )
        assert "_CXRTEXT_COMPLETE" in shown.stdout, shown.stderr
    typed = {"_CXRTEXT_COMPLETE": "complete_bash", "COMP_WORDS": "cxrtext sc", "COMP_CWORD": "1"}
    done = subprocess.run(
        [Path(sys.executable).with_name("cxrtext")],
        capture_output=True,
        text=True,
        env={**os.environ, **typed},
    )
    assert done.stdout.split() == ["score-text"], done.stderr


def test_classify_a_file_and_a_manifest(
    checkpoint: Path, data_folder: Path, tmp_path: Path
) -> None:
    one = run("classify", data_folder / "images/s01.png", "--model", checkpoint, "--json")
    assert one.returncode == 0, one.stderr
    (row,) = json.loads(one.stdout)
    assert 0 <= row["Pneumothorax"] <= 1
    out = tmp_path / "p.csv"
    many = run("classify", data_folder / "manifest.csv", "--model", checkpoint, "--out", out)
    assert many.returncode == 0, many.stderr
    with out.open() as handle:
        rows = list(csv.DictReader(handle))
    assert len(rows) == 48
    assert float(rows[1]["Pneumothorax"]) == pytest.approx(row["Pneumothorax"], abs=1e-4)


def test_ground_writes_an_overlay(checkpoint: Path, data_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "map.png"
    done = run(
        "ground", data_folder / "images/s01.png", "Left pleural effusion.",
        "--model", checkpoint, "--out", out,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "score " in done.stdout
    with Image.open(out) as picture:
        assert picture.size == (80, 80)
        assert picture.mode == "RGB"


def test_ground_of_a_mirrored_file_is_that_of_the_upright_one(
    checkpoint: Path, tmp_path: Path
) -> None:
    upright = np.random.default_rng(1).integers(0, 255, (80, 100), dtype=np.uint8)
    found = []
    for letters, pixels in ((["L", "F"], upright), (["R", "F"], upright[:, ::-1])):
        file = Dataset()
        file.file_meta = FileMetaDataset()
        file.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
        file.SOPClassUID, file.SOPInstanceUID = "1.2.840.10008.5.1.4.1.1.1.1", "1.2.3"
        file.PatientOrientation = letters
        file.Rows, file.Columns = pixels.shape
        file.SamplesPerPixel, file.PhotometricInterpretation = 1, "MONOCHROME2"
        file.BitsAllocated, file.BitsStored, file.HighBit, file.PixelRepresentation = 8, 8, 7, 0
        file.WindowCenter, file.WindowWidth = 128, 256
        file.PixelData = np.ascontiguousarray(pixels).tobytes()
        file["PixelData"].VR = "OB"
        path = tmp_path / f"{letters[0]}.dcm"
        file.save_as(path, enforce_file_format=True)
        out = ("--model", checkpoint, "--out", tmp_path / f"{letters[0]}.png", "--json")
        done = run("ground", path, "Left pleural effusion.", *out)
        assert done.returncode == 0, done.stderr
        found.append(json.loads(done.stdout))
    plain, moved = found
    assert plain["stored"] is None
    assert moved["peak"] == plain["peak"]
    assert moved["score"] == plain["score"]
    x, y = plain["peak"]
    assert moved["stored"]["movement"] == "mirrored"
    assert moved["stored"]["peak"] == pytest.approx([100 - x, y])
    assert (tmp_path / "L.png").read_bytes() == (tmp_path / "R.png").read_bytes()


def test_search_in_every_direction(index_folder: Path, data_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "cohort.csv"
    text = run("search", "Left pleural effusion.", "--index", index_folder, "-k", "3", "--out", out)
    assert text.returncode == 0, text.stderr
    assert text.stdout.count("images/s") == 3
    with out.open() as handle:
        assert [r["study_id"] for r in csv.DictReader(handle)] == [
            line.split()[2] for line in text.stdout.splitlines()[2:]
        ]
    image = data_folder / "images/s04.png"
    like = run("search", "--image", image, "--index", index_folder, "-k", "1", "--json")
    assert json.loads(like.stdout)[0]["image"] == "images/s04.png"
    said = run("search", "--image", image, "--target", "sentences", "--index", index_folder)
    assert "Left pleural effusion." in said.stdout


def test_evaluate_and_index_share_decoded_images(
    checkpoint: Path, data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "decoded"
    known = ("--cache", cache, "--json")
    first = run("evaluate", checkpoint, "--data", data_folder, "--split", "all", *known)
    assert first.returncode == 0, first.stderr
    monkeypatch.setattr("cxrtext.images.cache.ReaderPool.map", None)  # all is there
    again = run("evaluate", checkpoint, "--data", data_folder, "--split", "all", *known)
    assert again.stdout == first.stdout
    index = ("index", "build", data_folder / "manifest.csv", "--model", checkpoint)
    done = run(*index, "--out", tmp_path / "index", *known)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["images"] == 48
    monkeypatch.undo()
    (tmp_path / "file").write_text("")
    refused(
        run(*index, "--out", tmp_path / "other", "--cache", tmp_path / "file"),
        2,
        "file: is a file; name a folder",
    )


def test_evaluate_prints_and_writes(checkpoint: Path, data_folder: Path, tmp_path: Path) -> None:
    done = run("evaluate", checkpoint, "--data", data_folder, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "12 images of 12 patients, split 'test'" in done.stdout
    assert json.loads((tmp_path / "out/metrics.json").read_text())["images"] == 12
    assert "<h1>Evaluation</h1>" in (tmp_path / "out/report.html").read_text()


def test_train_resume_and_init(options: list[str], tmp_path: Path) -> None:
    written = run("train", "--init", cwd=tmp_path)
    assert written.returncode == 0
    assert "objective:" in (tmp_path / "cxrtext.yaml").read_text()
    refused(run("train", "--init", cwd=tmp_path), 2, "cxrtext.yaml: exists already")
    run("train", "--init", "ssd-mimic-cxr.yaml", cwd=tmp_path)
    assert "steps: 100000" in (tmp_path / "ssd-mimic-cxr.yaml").read_text()
    settings = [part for option in [*options, "training.steps=3"] for part in ("--set", option)]
    done = run("train", *settings)
    assert done.returncode == 0, done.stderr
    assert "3 steps on" in done.stdout
    again = run("train", "--resume", tmp_path / "run")
    assert again.returncode == 0, again.stderr
    refused(run("train", *settings), 2, "holds a training run already")


def test_wrong_input_is_one_line_and_leaves_nothing(
    checkpoint: Path, index_folder: Path, data_folder: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"no image")
    refused(run("classify", bad, "--model", checkpoint), 2, "bad.png")
    refused(run("classify", tmp_path / "none.png", "--model", checkpoint), 2, "none.png")
    refused(run("classify", bad, "--model", tmp_path), 2, "not a cxrtext checkpoint")
    refused(run("ground", data_folder / "images/s01.png", "", "--model", checkpoint), 2, "is empty")
    refused(
        run("ground", bad, "Effusion.", "--model", checkpoint, "--out", tmp_path / "a.jpg"),
        2,
        "ends in .png",
    )
    refused(run("search", "--index", index_folder), 2, "either a sentence or --image")
    refused(run("search", "x", "--index", tmp_path), 2, "not an index")
    refused(run("evaluate", checkpoint, "--data", tmp_path), 2, "holds no manifest")
    refused(run("score-text", tmp_path / "none.csv"), 2, "no such file")
    refused(run("train", tmp_path / "none.yaml"), 2, "none.yaml")
    refused(run("serve"), 2, "--model")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.png"]


def test_an_unreachable_hub_names_the_two_ways_out(tmp_path: Path, data_folder: Path) -> None:
    done = run("score-text", data_folder / "reports.csv", "--out", tmp_path / "s.csv")
    refused(done, 1, "BiomedVLP-CXR-BERT-general")
    assert "pass the path" in done.stderr
    assert "cxrtext pretrain-text" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 2
    assert not list(tmp_path.iterdir())


def test_wrong_options_of_the_command_line_itself() -> None:
    assert run("bogus").returncode == 2
    assert run("classify").returncode == 2
    done = run("--version")
    assert done.stdout.strip() == "cxrtext 0.1.0"
