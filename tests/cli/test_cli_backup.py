"""``cxrtext backup`` and ``cxrtext restore``, as a user starts them."""

import json
from pathlib import Path

from tests.cli.conftest import Command, Refused


def test_back_up_and_restore(
    cxrtext: Command, refused: Refused, index_folder: Path, tmp_path: Path
) -> None:
    keys, backup, home = tmp_path / "keys", tmp_path / "backup", tmp_path / "home"
    cxrtext("keys", "add", keys, "desk")
    done = cxrtext("backup", index_folder, "--keys", keys, "--out", backup)
    assert "48 images, 3 distinct sentences, the model, the keys;" in done.stdout
    done = cxrtext("restore", backup, "--out", home)
    assert f"cxrtext serve --index {home / 'index'}" in done.stderr
    search = ("search", "Left pleural effusion.", "--json", "--index")
    before, after = (cxrtext(*search, folder) for folder in (index_folder, home / "index"))
    assert before.stdout == after.stdout
    assert len(json.loads(after.stdout)) == 10
    assert "is not empty; name a new folder" in refused("restore", backup, "--out", home)
    keys.write_text("desk read none\n")
    assert "not the form of a key" in refused(
        "backup", index_folder, "--keys", keys, "--out", tmp_path / "other"
    )
    done = cxrtext("check-files", backup)
