"""``cxrtext index publish`` and ``cxrtext index pull``, as a user starts them."""

import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.cli.conftest import Command, Refused


def test_publish_and_pull(
    cxrtext: Command, refused: Refused, index_folder: Path, tmp_path: Path
) -> None:
    index = Path(shutil.copytree(index_folder, tmp_path / "index"))
    target, replica = tmp_path / "target", tmp_path / "replica"
    assert "nothing is published there" in refused("index", "pull", target, replica)
    done = cxrtext("index", "publish", index, target)
    assert ": 48 images;" in done.stdout
    # Follows, one line a turn, and ends when it is asked to.
    command = ["index", "pull", str(target), str(replica), "--follow", "0.2"]
    with subprocess.Popen(
        [sys.executable, "-c", "from cxrtext_cli.main import main; main()", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as following:
        assert following.stdout is not None
        assert f"{replica}: turned to publication" in following.stdout.readline()
        search = ("search", "Left pleural effusion.", "--json", "--index")
        before, after = (cxrtext(*search, folder) for folder in (index, replica))
        assert before.stdout == after.stdout
        assert len(json.loads(after.stdout)) == 10
        cxrtext("index", "delete", index, "s00")
        cxrtext("index", "publish", index, target)
        assert "47 images" in following.stdout.readline()
        time.sleep(0.5)
        following.send_signal(signal.SIGTERM)
        assert following.stdout.read() == ""
    assert following.returncode == 130
    assert "is a replica" in refused("index", "delete", replica, "s01")
    assert "is a replica" in refused("serve", "--index", replica, "--uploads", tmp_path / "uploads")
    done = cxrtext("index", "check", replica)
    assert "47 images" in done.stdout
    done = cxrtext("index", "pull", target, replica, "--json")
    assert json.loads(done.stdout)["turned"] is False
