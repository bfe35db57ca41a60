"""``cxrtext pretrain-image`` on the command line."""

import json
from pathlib import Path

from tests.cli.conftest import Command

SMALL = ("--image", "resnet-narrow", "--resize", "40", "--crop", "32", "--device", "cpu")


def test_words_are_written_edited_and_learned(
    cxrtext: Command, data_folder: Path, tmp_path: Path
) -> None:
    manifest, out = data_folder / "manifest.csv", tmp_path / "encoder"
    listed = cxrtext("pretrain-image", manifest, "--out", out, "--words-only")
    assert "2 words of findings in" in listed.stdout
    words = out / "words.txt"
    words.write_text("# ours\n" + words.read_text().replace("pneumothorax\n", ""))
    options = ("--words", words, "--epochs", "2", "--batch", "8", *SMALL)
    done = cxrtext("pretrain-image", manifest, "--out", out, *options)
    assert "1 words of findings" in done.stderr
    assert f"{out / 'encoder.safetensors'}: 2 epochs on " in done.stdout
    assert f"--set model.image_weights={out / 'encoder.safetensors'}" in done.stdout
    assert "lungs" not in done.stdout + done.stderr
    assert words.read_text().startswith("# ours\n")
    again = cxrtext("pretrain-image", manifest, "--out", out, *options, "--resume", "--json")
    found = json.loads(again.stdout)
    assert [one["finding"] for one in found["findings"]] == ["effusion"]
    assert found["method"] == "words"
