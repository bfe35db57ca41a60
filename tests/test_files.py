import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from cxrtext.errors import WorkError
from cxrtext.files import (
    only_one,
    remove_temporaries,
    replacing,
    replacing_folder,
    write_json,
)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "a.txt"
    with replacing(path) as temporary:
        temporary.write_text("one")
        assert not path.exists()
    with pytest.raises(RuntimeError, match="stop"), replacing(path) as temporary:
        temporary.write_text("two")
        raise RuntimeError("stop")
    assert path.read_text() == "one"
    assert [p.name for p in path.parent.iterdir()] == ["a.txt"]


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "model"
    with replacing_folder(path) as temporary:
        (temporary / "a").write_text("one")
        (temporary / "a").chmod(0o600)
    with pytest.raises(RuntimeError, match="stop"), replacing_folder(path) as temporary:
        (temporary / "b").write_text("two")
        raise RuntimeError("stop")
    assert [p.name for p in path.iterdir()] == ["a"]
    (tmp_path / "plain").touch()
    assert (path / "a").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "plain").unlink()
    with replacing_folder(path) as temporary:
        (temporary / "b").write_text("two")
    assert [p.name for p in path.iterdir()] == ["b"]
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_json_holds_no_infinity(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"x": float("inf")})
    assert not list(tmp_path.iterdir())


HOLDER = """
import sys
from pathlib import Path
from cxrtext.files import only_one
with only_one(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


def start_holder(path: Path) -> subprocess.Popen[str]:
    """A process that holds the lock of a file until it reads a line or is killed."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    return holder


@pytest.mark.parametrize("end", ["killed", "done"])
def test_only_one_process_makes_a_file(tmp_path: Path, end: str) -> None:
    path = tmp_path / "sub" / "out.csv"
    with start_holder(path) as holder:
        held = pytest.raises(
            WorkError, match=r"out\.csv: another process is making this file; wait"
        )
        with held, only_one(path):
            pytest.fail("two hold the lock")
        assert [p.name for p in path.parent.iterdir()] == ["out.csv.lock"]
        if end == "killed":
            holder.kill()
    left = {"killed": ["out.csv.lock"], "done": []}[end]
    assert [p.name for p in path.parent.iterdir()] == left
    with only_one(path):
        assert [p.name for p in path.parent.iterdir()] == ["out.csv.lock"]
        with only_one(path.with_name("other.csv")):
            pass
    assert not list(path.parent.iterdir())


def test_the_lock_is_given_up_when_the_work_fails(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(RuntimeError, match="stop"), only_one(tmp_path / "out.csv"):
            raise RuntimeError("stop")
    assert not list(tmp_path.iterdir())


def test_a_lock_file_that_was_removed_meanwhile_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "out.csv.lock"
    plain = fcntl.flock
    taken: list[bool] = []

    def late(handle: object, kind: int) -> None:
        if not taken:
            lock.unlink()  # as the process before does at its end
        taken.append(lock.exists())
        plain(handle, kind)  # type: ignore[arg-type]

    monkeypatch.setattr(fcntl, "flock", late)
    with only_one(tmp_path / "out.csv"):
        assert taken == [False, True]
        with pytest.raises(WorkError), only_one(tmp_path / "out.csv"):
            pytest.fail("two hold the lock")


def test_what_a_kill_left_of_a_file_is_removed_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a[1].csv"
    kept = [
        "a[1].csv",
        ".a[1].0123abcd.tmp.parquet",
        ".a[1].0123abc.tmp.csv",
        ".a1.0123abcd.tmp.csv",
        ".b.0123abcd.tmp.csv",
        ".a[1].notahexa.tmp.csv",
    ]
    for name in kept:
        (tmp_path / name).touch()
    with pytest.raises(KeyboardInterrupt), replacing(path) as temporary:
        left = temporary.name
        raise KeyboardInterrupt
    (tmp_path / left).touch()
    remove_temporaries(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(kept)
    remove_temporaries(tmp_path / "no-such-folder" / "a.csv")
