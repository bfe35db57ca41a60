"""``cxrtext pretrain-text`` and ``cxrtext pretrain-image`` on the command line."""

import json
from pathlib import Path

from tests.cli.conftest import Refused, cxrtext


def test_wrong_input_is_one_line_without_report_text(refused: Refused, tmp_path: Path) -> None:
    one, some, out = tmp_path / "one.csv", tmp_path / "some.csv", tmp_path / "lm"
    one.write_text("study_id,report\ns1,Zebulon is well.\n")
    some.write_text("study_id,report\n" + "".join(f"s{n},Zebulon is well.\n" for n in range(30)))
    for arguments, says in (
        ((one,), "one.csv: one report with text is too little"),
        ((some, "--base", tmp_path), f"{tmp_path}"),
    ):
        line = refused("pretrain-text", *arguments, "--out", out, "--device", "cpu")
        assert says in line
        assert "Zebulon" not in line
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one.csv", "some.csv"]


SMALL = ("--image", "resnet-narrow", "--resize", "40", "--crop", "32", "--device", "cpu")


def test_words_are_written_edited_and_learned(data_folder: Path, tmp_path: Path) -> None:
    manifest, out = data_folder / "manifest.csv", tmp_path / "encoder"
    first = cxrtext(
        "pretrain-image", manifest, "--out", tmp_path / "first", "--epochs", 1, "--batch", 8, *SMALL
    )
    assert "words of findings in" in first.stderr
    words = tmp_path / "first/words.txt"
    words.write_text("# ours\n" + words.read_text().replace("pneumothorax\n", ""))
    options = ("--words", words, "--epochs", "2", "--batch", "8", *SMALL)
    done = cxrtext("pretrain-image", manifest, "--out", out, *options)
    assert "1 words of findings" in done.stderr
    assert f"{out / 'encoder.safetensors'}: 2 epochs on " in done.stdout
    assert f"--set model.image_weights={out / 'encoder.safetensors'}" in done.stdout
    assert "lungs" not in done.stdout + done.stderr
    assert words.read_text().startswith("# ours\n")
    again = cxrtext("pretrain-image", manifest, "--out", out, *options, "--resume")
    noted = json.loads((out / "pretraining.json").read_text())
    assert again.stdout.startswith("finding")
    assert "effusion" in again.stdout
    assert noted["method"] == "words"
