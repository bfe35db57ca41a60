"""A replica has a publication whole or not at all, whoever writes, publishes or is killed."""

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cxrtext.errors import CheckpointError, CxrTextError, DataError, DiskError
from cxrtext.files.storage import Storage, open_storage
from cxrtext.index import delete, open_index
from cxrtext.index.publishing import publication, pull
from cxrtext.index.publishing import publish as publishing
from cxrtext.index.publishing.publication import (
    encoded,
    in_words,
    process_mark,
    read_manifest,
    read_pointer,
)
from cxrtext.index.publishing.publish import Published, at_one_moment
from cxrtext.index.publishing.pull import Pulled
from cxrtext.index.store.catalogue import CATALOGUE, Catalogue
from cxrtext.index.store.replica import index_at
from cxrtext.models import ImageTextModel
from tests.conftest import flip
from tests.index.conftest import Busy, Upload, answers, wrong
from tests.waiting import until


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (publication, publishing, pull):
        monkeypatch.setattr(module, "PIECE_BYTES", 4096)


def published(index: Path, target: Path, **options: Any) -> Published:
    return publishing.publish(index, open_storage(target), **options)


def pulled(target: Path, replica: Path) -> Pulled:
    return pull.pull(open_storage(target), replica)


def is_whole(replica: Path) -> bool:
    index = index_at(replica)
    with Catalogue(index / CATALOGUE) as catalogue:
        names = [name for (name,) in catalogue.database.execute("SELECT image FROM images")]
        images = [catalogue.image(name) for name in names if name.startswith("u")]
    there = all(image is not None and Path(image.path).is_file() for image in images)
    return there and wrong(index) == []


def cut_off(storage: Storage, calls: int) -> Storage:
    """Let a storage be cut off in the middle of its work; what was committed stays."""
    left = calls

    def counted(plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
            return plain(*given, **options)

        return call

    for name in ("read", "commit", "entries", "remove", "size"):
        setattr(storage, name, counted(getattr(storage, name)))
    return storage


def test_a_replica_answers_as_its_publisher(
    small: Path, model: ImageTextModel, upload: Upload, tmp_path: Path
) -> None:
    target, replica, uploads = tmp_path / "target", tmp_path / "replica", tmp_path / "uploads"
    sent = [upload(small, uploads, seed) for seed in range(2)]
    delete(small, ["s5"])
    first = published(small, target)
    assert (first.images, first.uploads, first.sent, first.is_current) == (120, 2, first.size, True)
    found = pulled(target, replica)
    assert (found.turned, found.fetched) == (True, found.size)
    assert found.fingerprint == model.fingerprint
    assert answers(replica, model) == answers(small, model)
    with open_index(replica) as archive:  # with the model that came along
        assert archive.model.fingerprint == model.fingerprint
        assert Path(archive.find("u1.png")[1].path).read_bytes() == sent[1]
        part = archive.parts[0].publication
        assert part is not None
        assert (part.digest, part.published) == (first.publication, first.published)
    assert {p.stat().st_mode & 0o077 for p in replica.rglob("*")} == {0}
    # The same once more does nothing.
    before = {p: p.stat().st_mtime_ns for p in [*target.rglob("*.*"), replica / "current"]}
    again = published(small, target)
    same = (first.publication, first.published, 0)
    assert (again.publication, again.published, again.sent) == same
    found = pulled(target, replica)
    assert (found.turned, found.fetched) == (False, 0)
    after = {p: p.stat().st_mtime_ns for p in [*target.rglob("*.*"), replica / "current"]}
    assert before == {path: time for path, time in after.items() if path in before}
    # A replica can be moved, and is not written.
    moved = replica.rename(tmp_path / "moved")
    assert answers(moved, model) == answers(small, model)
    for folder in (moved, index_at(moved)):
        with pytest.raises(DataError, match="is a replica of a published index"):
            delete(folder, ["s3"])
    with pytest.raises(DataError, match="is where an index is published"):
        open_index(target)
    with pytest.raises(DataError, match="is a replica"):
        published(moved, tmp_path / "other")


def test_only_what_is_new_is_sent_and_fetched(
    make_archive: Any, model: ImageTextModel, upload: Upload, tmp_path: Path
) -> None:
    target, replica = tmp_path / "target", tmp_path / "replica"
    index = make_archive(tmp_path / "index", 1000)
    first = published(index, target)
    pulled(target, replica)
    old = open_index(replica, model)
    upload(index, tmp_path / "uploads", 1)
    second = published(index, target)
    assert second.publication != first.publication
    assert second.sent < first.size / 2, (second.sent, first.size)
    found = pulled(target, replica)
    assert found.turned
    assert found.fetched == second.sent
    assert answers(replica, model) == answers(index, model)
    # What is answered by stays, and knows that there is something newer.
    assert (found.held, old.images, old.parts[0].look_for_turn()) == (1, 1000, True)
    assert old.find("i7.png")[1].image == "i7.png"
    old.close()
    assert pulled(target, replica).held == 0
    assert [p.name for p in (replica / "publications").iterdir()] == [second.publication]


@pytest.mark.parametrize("count", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_a_publication_is_one_moment_while_others_write(
    small: Path, while_written: Busy, tmp_path: Path, count: int
) -> None:
    target = tmp_path / "target"
    made = []
    with while_written() as written:
        for _ in range(count):
            before = len(written)
            until(lambda: len(written) > before + 1)  # noqa: B023 - at once
            made.append(published(small, target, grace_s=0.0, keep=1).publication)
            assert pulled(target, tmp_path / "replica").publication == made[-1]
            assert is_whole(tmp_path / "replica")
    assert len(set(made)) == count
    assert len(list((target / "publications").iterdir())) == 1


def test_publishers_and_pulls_that_are_killed(
    small: Path, model: ImageTextModel, upload: Upload, tmp_path: Path
) -> None:
    target, replica = tmp_path / "target", tmp_path / "replica"
    first = published(small, target)
    upload(small, tmp_path / "uploads", 1)
    calls = 0
    while True:  # killed at each of its steps in turn
        try:
            made = publishing.publish(small, cut_off(open_storage(target), calls))
            break
        except KeyboardInterrupt:
            now = read_pointer(open_storage(target))
            assert now is not None
            manifest, _ = read_manifest(open_storage(target), now.digest)
            assert all((target / publication.object_name(d)).is_file() for d in manifest.objects)
        calls += 3
    assert calls > 10
    assert made.publication != first.publication
    pulls = 0
    while True:
        try:
            pull.pull(cut_off(open_storage(target), pulls), replica)
            break
        except KeyboardInterrupt:
            assert not (replica / "current").exists()
        pulls += 5
    assert pulls > 10
    assert answers(replica, model) == answers(small, model)
    assert is_whole(replica)


def test_two_publishers_do_not_mix(
    make_archive: Any, model: ImageTextModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    folders = [make_archive(tmp_path / f"index{seed}", 120, seed=seed) for seed in range(2)]
    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(lambda folder: published(folder, target), folders))
    current = pulled(target, tmp_path / "replica")
    assert current.publication in [one.publication for one in made]
    assert answers(tmp_path / "replica", model) in [answers(folder, model) for folder in folders]
    # One that took the index earlier than what is there does not take its place.
    other = next(one.publication for one in made if one.publication != current.publication)
    delete(folders[0], ["s3"])
    take = at_one_moment

    def overtaken(*args: Any) -> Any:
        taken = take(*args)
        later = datetime.now(UTC) + timedelta(hours=1)
        publication.write_pointer(open_storage(target), other, later)
        return taken

    with monkeypatch.context() as patch:
        patch.setattr(publishing, "at_one_moment", overtaken)
        assert not published(folders[0], target).is_current


def test_a_pull_that_was_stopped_just_before_its_end_goes_on(
    small: Path, model: ImageTextModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, replica = tmp_path / "target", tmp_path / "replica"
    published(small, target)
    rename, opened = Path.rename, Path.open

    def stopped(path: Path, to: Path) -> Path:
        if path.name.endswith(pull.PARTIAL):
            raise KeyboardInterrupt
        return rename(path, to)

    def as_no_root(path: Path, mode: str = "r", *args: Any, **options: Any) -> Any:
        if "+" in mode and path.exists() and not path.stat().st_mode & 0o200:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, mode, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", stopped)
        replica.mkdir()
        (replica / "current.lock").touch()  # another that was killed before it began
        with pytest.raises(KeyboardInterrupt):
            pulled(target, replica)
    monkeypatch.setattr(Path, "open", as_no_root)
    assert pulled(target, replica).fetched == 0
    assert answers(replica, model) == answers(small, model)
    assert {p.stat().st_mode & 0o277 for p in index_at(replica).iterdir()} == {0}


def test_a_clock_that_was_ahead_holds_nothing_back(
    small: Path, upload: Upload, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, replica = tmp_path / "target", tmp_path / "replica"
    published(small, target)
    upload(small, tmp_path / "uploads", 1)
    with monkeypatch.context() as patch:
        patch.setattr(publishing, "now", lambda: publication.now() + timedelta(days=1))
        ahead = published(small, target)
    assert pulled(target, replica).publication == ahead.publication
    delete(small, ["us1"])
    # As `cxrtext forget` says: what holds them is not to stay for a day.
    again = published(small, target, keep=1, grace_s=0.0)
    assert (again.is_current, again.removed) == (True, 2)
    assert open_storage(target).names("publications/") == [
        publication.manifest_name(again.publication)
    ]
    assert pulled(target, replica).publication == again.publication


def test_pieces_stay_when_another_publisher_begins_or_a_list_is_late(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "target"
    first = published(small, target)
    storage = open_storage(target)
    unnamed = [publication.object_name(f"{number:064x}") for number in range(3)]
    for name in unnamed:
        storage.commit(name, b"left")
    remove = type(storage).remove

    def removed(self: Storage, name: str) -> None:
        remove(self, name)
        if name in unnamed:
            self.commit("publishing/other.json", encoded({"begun": in_words(datetime.now(UTC))}))

    with monkeypatch.context() as patch:
        patch.setattr(type(storage), "remove", removed)
        published(small, target)
    assert len([name for name in unnamed if storage.has(name)]) == 2
    remove(storage, "publishing/other.json")
    names = type(storage).names

    def late(self: Storage, prefix: str = "") -> list[str]:
        return [name for name in names(self, prefix) if first.publication not in name]

    with monkeypatch.context() as patch:
        patch.setattr(type(storage), "names", late)
        published(small, target)
    assert pulled(target, tmp_path / "replica").publication == first.publication


def test_what_is_old_is_removed(small: Path, upload: Upload, tmp_path: Path) -> None:
    target, uploads = tmp_path / "target", tmp_path / "uploads"

    def left() -> tuple[int, set[str]]:
        storage = open_storage(target)
        found = storage.names("publications/")
        named = {
            publication.object_name(piece)
            for name in found
            for piece in read_manifest(storage, Path(name).stem)[0].objects
        }
        return len(found), set(storage.names("objects/")) ^ named

    for seed in range(3):
        upload(small, uploads, seed)
        assert published(small, target, keep=1).removed == 0  # pulled a moment ago, perhaps
    assert left() == (3, set())
    upload(small, uploads, 3)
    begun = {"begun": in_words(datetime.now(UTC))}
    other = open_storage(target)
    other.commit("publishing/other.json", encoded(begun))
    made = published(small, target, keep=2, grace_s=0)
    assert (made.removed, made.is_tidy) == (0, False)  # another is at work
    begun = {"begun": in_words(datetime.now(UTC) - timedelta(days=2))}
    other.commit("publishing/other.json", encoded(begun))  # or was killed
    mark = process_mark()
    assert mark is not None
    for name, process in (("killed", [*mark[:3], 0]), ("alive", mark)):  # its number is ours now
        noted = {"begun": in_words(datetime.now(UTC)), "process": process}
        other.commit(f"publishing/{name}.json", encoded(noted))
    assert published(small, target, keep=2, grace_s=0).removed == 0
    other.remove("publishing/alive.json")
    made = published(small, target, keep=2, grace_s=0)
    assert (made.removed, made.is_tidy) == (2, True)
    assert left() == (2, set())
    assert other.names("publishing/") == []


def test_what_is_refused(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, replica = tmp_path / "target", tmp_path / "replica"
    with pytest.raises(DataError, match="nothing is published there"):
        pulled(target, replica)
    published(small, target)
    with pytest.raises(DataError, match="is an index of its own"):
        pulled(target, small)
    with pytest.raises(DataError, match="is not empty"):
        pulled(target, tmp_path)
    usage = shutil.disk_usage
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: usage(path)._replace(free=1000))
        with pytest.raises(DiskError, match=r"the disk is full: .* GB are needed"):
            pulled(target, replica)
    manifest = json.loads(next((target / "publications").iterdir()).read_text())["content"]
    pieces = manifest["files"]["model/model.safetensors"]["pieces"]
    piece = target / publication.object_name(pieces[-1])
    flip(piece)
    with pytest.raises(DataError, match="is not what its name says"):
        pulled(target, replica)
    with pytest.raises(CheckpointError, match="not an index"):
        open_index(replica)
    flip(piece)
    assert pulled(target, replica).fetched < sum(f["bytes"] for f in manifest["files"].values())
    pointer = json.loads((target / "current").read_text())
    (target / "current").write_text(json.dumps({**pointer, "published": "x"}))
    with pytest.raises(CxrTextError, match="current: is not what was written"):
        pulled(target, replica)
    flip(next(small.glob("regions*")), 5)
    with pytest.raises(CheckpointError, match=r"regions.*a damaged index is not copied"):
        published(small, tmp_path / "of-damage")


def test_an_object_store(small: Path, model: ImageTextModel, tmp_path: Path) -> None:
    storage = open_storage(f"memory://bucket/{tmp_path.name}")
    made = publishing.publish(small, storage, keep=1, grace_s=0)
    pull.pull(storage, tmp_path / "replica")
    assert answers(tmp_path / "replica", model) == answers(small, model)
    delete(small, ["s3"])
    again = publishing.publish(small, storage, keep=1, grace_s=0)
    assert (again.removed, again.publication == made.publication) == (1, False)
    assert pull.pull(storage, tmp_path / "replica").fetched == again.sent < again.size / 2
    assert answers(tmp_path / "replica", model) == answers(small, model)
