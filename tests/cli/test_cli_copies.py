"""``cxrtext backup`` and ``restore``, as a user starts them."""

from pathlib import Path

from cxrtext.pacs.inbox.queue import Inbox
from tests.cli.conftest import Refused, cxrtext


def test_back_up_and_restore(refused: Refused, index_folder: Path, tmp_path: Path) -> None:
    keys, backup, home = tmp_path / "keys", tmp_path / "backup", tmp_path / "home"
    cxrtext("keys", "add", keys, "desk")
    with Inbox(tmp_path / "state/inbox", reserve=0) as inbox:
        inbox.put("PACS", b"waits")
    more = ("--keys", keys, "--gateway", tmp_path / "state")
    done = cxrtext("backup", index_folder, *more, "--out", backup)
    there = "48 images, 3 distinct sentences, the model, the keys, the gateway's state;"
    assert there in done.stdout
    done = cxrtext("restore", backup, "--out", home)
    assert f"state: {home / 'gateway'}, project: {home / 'index'}" in done.stderr
    with Inbox(home / "gateway/inbox", reserve=0) as inbox:
        assert [entry.path.read_bytes() for entry in inbox.waiting(2)] == [b"waits"]
    assert f"cxrtext serve {home / 'index'}" in done.stderr
    assert "is not empty; name a new folder" in refused("restore", backup, "--out", home)
    keys.write_text("desk read none\n")
    assert "not the form of a key" in refused(
        "backup", index_folder, "--keys", keys, "--out", tmp_path / "other"
    )
    cxrtext("check-files", backup)
