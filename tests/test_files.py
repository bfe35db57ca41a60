import errno
import fcntl
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path

import pytest

from cxrtext.errors import CheckpointError, DataError, InputError, WorkError
from cxrtext.files import (
    SUMS,
    check_folder,
    check_listed,
    copy_files,
    file_problems,
    is_as_named,
    is_empty,
    only_one,
    read_sealed,
    remove_file,
    remove_folder,
    replacing,
    replacing_folder,
    rights_of_sources,
    sweep,
    write_json,
    write_named,
    write_sealed,
    write_sums,
    write_text,
    writing,
)
from cxrtext.files.digests import read_sums
from cxrtext.files.sqlite import open_database
from cxrtext.pacs.retrieval.follow_state import FollowState
from cxrtext.records.tables import read_table


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
    assert sorted(p.name for p in path.iterdir()) == [SUMS, "a"]
    (tmp_path / "plain").touch()
    assert (path / "a").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "plain").unlink()
    with replacing_folder(path) as temporary:
        (temporary / "b").write_text("two")
    assert sorted(p.name for p in path.iterdir()) == [SUMS, "b"]
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("the folder itself", "is not inside"),
        ("dots", "is not inside"),
        ("above", "is not inside"),
        ("through a link", "is not inside"),
        ("a link", "is a link"),
        ("a file", "is no folder"),
        ("without a note", "did not make it"),
    ],
)
def test_a_folder_of_others_is_not_removed(tmp_path: Path, kind: str, said: str) -> None:
    ours, other, note = tmp_path / "ours", tmp_path / "other", tmp_path / "ours/sub/note"
    (ours / "sub").mkdir(parents=True)
    (other / "sub").mkdir(parents=True)
    note.touch()
    (ours / "link").symlink_to(other)
    path = {
        "the folder itself": ours,
        "dots": ours / "sub/..",
        "above": ours / "../other",
        "through a link": ours / "link/sub",
        "a link": ours / "link",
        "a file": note,
        "without a note": ours / "sub",
    }[kind]
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DataError, match=said):
        remove_folder(path, inside=ours, note=other if kind == "without a note" else note)
    assert sorted(tmp_path.rglob("*")) == before
    if kind in ("above", "through a link"):
        with pytest.raises(DataError, match=said):
            remove_file(path / "x", inside=ours)


def test_a_folder_of_ours_is_removed(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/note").touch()
    remove_folder(tmp_path / "a", inside=tmp_path, note=tmp_path / "a/note")
    remove_folder(tmp_path / "a", inside=tmp_path, note=tmp_path / "a/note")  # nothing is there
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("linked", [False, True])
def test_a_folder_of_others_is_not_replaced(tmp_path: Path, linked: bool) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/thesis").write_text("mine")
    (tmp_path / "link").symlink_to("other")
    path = tmp_path / ("link" if linked else "other")
    with pytest.raises(DataError, match="did not make it"), replacing_folder(path):
        raise AssertionError
    assert [one.name for one in (tmp_path / "other").iterdir()] == ["thesis"]


@pytest.mark.parametrize("kind", ["file", "folder", "lock"])
def test_a_file_system_that_loses_names_ends_in_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    tries = []

    def lost(*_: object) -> bool:
        tries.append(1)
        assert len(tries) < 1000
        return False

    monkeypatch.setattr(writing, "is_at", lost)
    make: Callable[[Path], AbstractContextManager[object]]
    make = replacing if kind == "file" else replacing_folder if kind == "folder" else only_one
    with pytest.raises(OSError, match="Stale"), make(tmp_path / "a"):
        raise AssertionError


def test_a_folder_that_vanished_ends_in_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []

    def gone(*_: object) -> int:
        opened.append(1)
        assert len(opened) < 1000
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", "a")

    monkeypatch.setattr(os, "open", gone)
    for make in (replacing, replacing_folder):
        with pytest.raises(FileNotFoundError), make(tmp_path / "a"):
            raise AssertionError


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


@pytest.mark.parametrize("end", ["killed", "done"])
def test_only_one_process_makes_a_file(tmp_path: Path, end: str) -> None:
    path = tmp_path / "sub" / "out.csv"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
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


KILLED = """
import os, signal, sys
from pathlib import Path
from cxrtext.files import replacing, replacing_folder
kind, path = sys.argv[1], Path(sys.argv[2])
with (replacing_folder if kind == "folder" else replacing)(path) as temporary:
    (temporary / "a" if kind == "folder" else temporary).write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""
WRITE_THERE = """
import sys
from pathlib import Path
from cxrtext.files import write_text
write_text(Path(sys.argv[1]), "new")
"""


@pytest.mark.parametrize(("kind", "name"), [("file", "a[1].csv"), ("folder", "model-best")])
def test_the_next_process_removes_what_a_killed_one_left(
    tmp_path: Path, kind: str, name: str
) -> None:
    kept = [".a[1].0123abc.tmp.csv", ".b.notahexa.tmp.csv", "a.0123abcd.tmp.csv", "other.csv"]
    for each in kept:
        (tmp_path / each).touch()
    subprocess.run([sys.executable, "-c", KILLED, kind, tmp_path / name], check=False)
    assert len(list(tmp_path.iterdir())) == len(kept) + 1
    subprocess.run([sys.executable, "-c", WRITE_THERE, tmp_path / "new.txt"], check=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*kept, "new.txt"])


def test_what_a_process_at_work_writes_is_not_swept(tmp_path: Path) -> None:
    with replacing(tmp_path / "a.csv") as temporary, replacing_folder(tmp_path / "b") as folder:
        temporary.write_text("half")
        (folder / "x").write_text("half")
        sweep(tmp_path)
        assert temporary.read_text() == (folder / "x").read_text() == "half"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.csv", "b"]
    sweep(tmp_path / "no-such-folder")


EXCHANGE = """
import os, signal, sys
from pathlib import Path
import cxrtext.files.writing as writing
how, path = sys.argv[1], Path(sys.argv[2])
if how == "two steps":
    writing._exchange = lambda *_: False
steps = {"n": 0}
def killing(after):
    def counted(*arguments):
        result = after(*arguments)
        steps["n"] += 1
        if steps["n"] == int(sys.argv[3]):
            os.kill(os.getpid(), signal.SIGKILL)
        return result
    return counted
Path.rename, writing._exchange = killing(Path.rename), killing(writing._exchange)
with writing.replacing_folder(path) as temporary:
    (temporary / "a").write_text("new")
"""


@pytest.mark.parametrize("how", ["one step", "two steps"])
@pytest.mark.parametrize("step", [1, 2, 3])
def test_a_folder_is_there_whenever_its_writer_is_killed(
    tmp_path: Path, how: str, step: int
) -> None:
    path = tmp_path / "checkpoint"
    with replacing_folder(path) as temporary:
        (temporary / "a").write_text("old")
    subprocess.run([sys.executable, "-c", EXCHANGE, how, path, str(step)], check=False)
    if how == "one step":
        assert path.is_dir()
    sweep(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint"]
    assert (path / "a").read_text() in ("old", "new")
    assert file_problems(path) == []


def test_a_folder_lists_its_digests_as_sha256sum_does(tmp_path: Path) -> None:
    with replacing_folder(tmp_path / "model") as temporary:
        (temporary / "sub").mkdir()
        (temporary / "sub/b").write_bytes(b"b")
        (temporary / "a").write_bytes(b"a" * 1000)
    subprocess.run(["sha256sum", "--check", "--strict", SUMS], cwd=tmp_path / "model", check=True)
    assert file_problems(tmp_path / "model") == []
    (tmp_path / "model/a").write_bytes(b"a" * 999 + b"b")
    (tmp_path / "model/sub/b").unlink()
    problems = file_problems(tmp_path / "model")
    assert [p.rpartition("/")[2] for p in problems] == [
        f"a: is not what {SUMS} lists",
        "b: is missing",
    ]
    with pytest.raises(CheckpointError, match=r"model/c: is missing; copy it again"):
        check_folder(tmp_path / "model", ["c"], CheckpointError, "copy it again")


def test_every_flipped_bit_of_a_list_of_digests_or_of_sealed_json_is_refused(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "model"
    with replacing_folder(folder) as temporary:
        (temporary / "weights").write_bytes(b"abc")
    write_sealed(tmp_path / "note.json", {"steps": 12, "loss": 0.5, "name": "größe", "none": None})

    def read(path: Path) -> object:
        if path.name != SUMS:
            return read_sealed(path)
        check_folder(folder, ["weights"], CheckpointError, "copy it again")
        return file_problems(folder)

    for path in (folder / SUMS, tmp_path / "note.json"):
        content, whole = path.read_bytes(), read(path)
        for bit in range(8 * len(content)):
            changed = bytearray(content)
            changed[bit // 8] ^= 1 << bit % 8
            path.write_bytes(changed)
            with suppress(ValueError, CheckpointError):
                assert read(path) == whole
        path.write_bytes(content)


def test_a_table_that_its_folder_lists_is_read_only_as_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("study_id,Edema\ns1,1\n")
    (tmp_path / "mine.csv").write_text("study_id\ns1\n")
    write_sums(tmp_path, ["labels.csv"])
    for name in ("labels.csv", "mine.csv", "none.csv"):
        check_listed(tmp_path / name, DataError)
    (tmp_path / "labels.csv").write_text("study_id,Edema\ns1,0\n")
    with pytest.raises(DataError, match=r"labels\.csv: is not what .* check-files .* --accept"):
        check_listed(tmp_path / "labels.csv", DataError)
    check_listed(tmp_path / "mine.csv", DataError)


def test_a_file_that_is_named_by_its_digest_is_known_by_it(tmp_path: Path) -> None:
    path = write_named(tmp_path, "step-7", ".pt", lambda path: path.write_bytes(b"weights"))
    assert is_as_named(path)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    path.write_bytes(b"weighty")
    assert not is_as_named(path)


def test_what_is_written_has_the_rights_of_the_folder_that_it_comes_from(tmp_path: Path) -> None:
    for mode, wanted in ((0o755, 0o644), (0o750, 0o640), (0o700, 0o600)):
        source, out = tmp_path / f"{mode:o}" / "reports.csv", tmp_path / f"{mode:o} of"
        source.parent.mkdir()
        source.write_text("study_id,report\n1,Clear.\n")
        source.parent.chmod(mode)
        before = os.umask(0o022)
        tmp_path.chmod(0o755)
        try:
            with rights_of_sources():
                read_table(source)
                write_text(out / "a.txt", "of a patient")
                with replacing_folder(out / "b") as folder:
                    (folder / "c").write_text("of a patient")
        finally:
            os.umask(before)
        found = {path.stat().st_mode & 0o777 for path in (out / "a.txt", out / "b" / "c")}
        assert found == {wanted}
        assert (out / "b").stat().st_mode & 0o777 == mode


def test_what_killed_processes_left_is_not_in_the_way_of_a_folder_without_files_of_others(
    tmp_path: Path,
) -> None:
    for name in ("notes.txt", "notes.csv.lock", ".notes.0123abcd.tmp"):
        (tmp_path / name).touch()
    assert not is_empty(tmp_path)
    assert len(list(tmp_path.iterdir())) == 3, "a folder with files of others stays as it is"
    (tmp_path / "notes.txt").unlink()
    (tmp_path / ".backup.0123abcd.tmp").mkdir()
    (tmp_path / "decoded.sqlite.lock").touch()
    with only_one(tmp_path / "held.csv"):
        assert not is_empty(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["held.csv.lock"]
    assert is_empty(tmp_path)
    with replacing(tmp_path / "one", new=True) as temporary:
        temporary.write_text("1")
    with pytest.raises(FileExistsError), replacing(tmp_path / "one", new=True) as temporary:
        temporary.write_text("2")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("one", "1")]


def test_a_lock_that_somebody_else_keeps_something_in_stays(tmp_path: Path) -> None:
    (tmp_path / "package.json.lock").write_text("of another program")
    (tmp_path / "archive.sqlite.lock").mkdir()
    (tmp_path / "table.csv.lock").write_text("of another program")
    (tmp_path / "settings.yaml.lock").touch()
    sweep(tmp_path)
    assert len(list(tmp_path.iterdir())) == 4


def test_a_state_with_a_damaged_page_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    with FollowState(path) as state:
        state.note("one", "7")
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + bytes(len(whole) - 4096))
    with pytest.raises(DataError, match=r"is damaged .*; restore it from a backup"):
        FollowState(path)


def test_a_text_that_is_no_longer_utf_8_is_told_as_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with closing(open_database(path)) as database:
        database.execute("CREATE TABLE a (t TEXT)")
        database.execute("INSERT INTO a VALUES ('effusion')")
    path.write_bytes(path.read_bytes().replace(b"effusion", b"\xe5ffusion"))
    with (
        closing(open_database(path)) as database,
        pytest.raises(sqlite3.DatabaseError, match="^a text is not UTF-8$"),
    ):
        database.execute("SELECT t FROM a").fetchall()


def test_sums_of_rows_that_earlier_releases_kept_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.executescript(
            "CREATE TABLE a (t TEXT); CREATE TABLE row_sums (name TEXT, sum INTEGER);"
            "CREATE TRIGGER row_sums_a_insert AFTER INSERT ON a "
            "BEGIN UPDATE row_sums SET sum = sum + row_digest(NEW.t); END;"
        )
    with closing(open_database(path)) as database:
        database.execute("INSERT INTO a VALUES ('effusion')")
        assert database.execute("SELECT name FROM sqlite_master").fetchall() == [("a",)]


@pytest.mark.parametrize(
    "name", ["../a", "a/../../b", "/etc/hostname", "a//b", "./a", "a/", "..", ".", "a\0b"]
)
def test_a_list_names_files_of_its_own_folder_only(tmp_path: Path, name: str) -> None:
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  {name}\n")
    with pytest.raises(ValueError, match="which is not a file inside the folder"):
        read_sums(tmp_path)
    assert "not a file inside" in str(file_problems(tmp_path))


def test_a_listed_file_is_no_link_and_no_pipe(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "in").mkdir(parents=True)
    (tmp_path / "key").touch()
    (folder / "in/key").symlink_to(tmp_path / "key")
    (folder / "up").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe")
    (folder / "file").touch()
    for name, said in [("in/key", "link"), ("up/key", "link"), ("pipe", "plain"), ("in", "plain")]:
        with pytest.raises(InputError, match=said):
            copy_files(folder, ["file", name], tmp_path / "copy")
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["file"]
