"""Planted names, phrases, pixels and vectors: found in every place before, nowhere after."""

import base64
import csv
import gzip
import hashlib
import json
import os
import shutil
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cxrtext.datasets.admission.ids import Ids, read_key
from cxrtext.datasets.checking import check_data
from cxrtext.datasets.importing.folder import walk_set
from cxrtext.datasets.importing.reports.sources import _kind
from cxrtext.errors import DataError, HeldError, WorkError
from cxrtext.files import file_problems, write_sums
from cxrtext.files.signed_log import faults, key_of, mark_of
from cxrtext.images.cache import DecodedCache
from cxrtext.index import build_index, open_index
from cxrtext.index.backup import back_up
from cxrtext.index.changes import NewReports
from cxrtext.index.features.language import decoded
from cxrtext.index.store.catalogue import CATALOGUE, Catalogue
from cxrtext.integrity import check_files
from cxrtext.jobs.plan import NAME as JOB_PLAN
from cxrtext.jobs.plan import begin
from cxrtext.language import ScoreSettings, score_reports
from cxrtext.models import ImageTextModel, load_model
from cxrtext.records import read_manifest, read_sentences
from cxrtext.service.forget import stores, tables
from cxrtext.service.forget.forget import _names_one, forget
from cxrtext.service.forget.stores import CACHE, NO_CACHE, RESULTS
from cxrtext.service.forget.subject import Subject
from cxrtext.training.data.locked_features import Keeping, lock_images, lock_sentences
from tests.api.conftest import as_dicom
from tests.index.conftest import add_upload, in_fork, png, regions_of, wrong

PATIENT, STUDY, SCANNED = "PLANTEDPATIENT77", "PLANTEDSTUDY88", "PLANTEDUPLOAD55"
IMAGE = "images/PLANTEDIMAGE99.png"
PHRASE = "Planted unmistakable pneumatocele."
OTHER_PHRASE = "Planted upload with an azygos lobe."


@dataclass
class Archive:
    """Folders of an archive, and bytes that only the planted patient has there."""

    root: Path
    checkpoint: Path
    needles: dict[str, bytes] = field(default_factory=dict)

    def where(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {name: set() for name in self.needles}
        for path in self.root.rglob("*"):
            if path.is_file():
                data = path.read_bytes()
                for name, needle in self.needles.items():
                    if needle in data:
                        found[name].add(path.relative_to(self.root).as_posix())
        return found

    def still_there(self) -> set[str]:
        return {name for name, files in self.where().items() if files}


def _add_row(path: Path, row: dict[str, object]) -> None:
    with path.open(newline="") as handle:
        columns = next(csv.reader(handle))
    with path.open("a", newline="") as handle:
        csv.DictWriter(handle, columns, restval="").writerow(row)


def _plant_data(data: Path, pixels: np.ndarray) -> None:
    (data / IMAGE).write_bytes(png(pixels))
    who = {"study_id": STUDY, "patient_id": PATIENT}
    _add_row(data / "manifest.csv", {"image": IMAGE, **who, "split": "train", "age": 50})
    _add_row(data / "reports.csv", {"study_id": STUDY, "findings": PHRASE})
    _add_row(data / "labels.csv", {"study_id": STUDY, "Pneumothorax": 1})
    boxes = {
        "images": [{"id": 1, "file_name": IMAGE}, {"id": 2, "file_name": "images/s02.png"}],
        "annotations": [{"id": 1, "image_id": 1, "label_text": PHRASE, "bbox": [1, 2, 3, 4]}],
        "categories": [],
    }
    (data / "boxes.json").write_text(json.dumps(boxes))
    (data / "import.rejected.csv").write_text(f"item,kind,reason\n{IMAGE},left out,twice\n")
    rows = [{"study_id": STUDY, "report": PHRASE}, {"study_id": "s01", "report": "Clear."}]
    (data / "more.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    predicted = {"image": [IMAGE, "images/s02.png"], "study_id": [STUDY, "s02"]}
    encoded = {name: pa.array(cells).dictionary_encode() for name, cells in predicted.items()}
    pq.write_table(pa.table(encoded), data / "predictions.parquet")
    (data / "texts").mkdir()
    (data / "texts" / f"{STUDY}.txt").write_text(PHRASE)


def _upload(index: Path, uploads: Path, model: ImageTextModel, pixels: np.ndarray) -> None:
    vectors = model.embed_sentences([OTHER_PHRASE]).cpu().numpy()
    said = NewReports([OTHER_PHRASE], vectors, [(SCANNED, "report", 0, OTHER_PHRASE)])
    names = f"{SCANNED}.png", SCANNED, PATIENT
    add_upload(index, uploads, model, pixels, names, regions_of(1, 9), said)


@pytest.fixture(scope="module")
def planted(
    data_folder: Path,
    checkpoint: Path,
    language_model: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Archive:
    """An archive in which everything that cxrtext writes has something of one patient."""
    root = tmp_path_factory.mktemp("planted") / "archive"
    data = Path(shutil.copytree(data_folder, root / "data"))
    chance = np.random.default_rng(77)
    pixels = chance.integers(0, 255, (80, 80)).astype(np.uint8)
    sent = chance.integers(0, 255, (80, 80)).astype(np.uint8)
    _plant_data(data, pixels)
    reports, sentences = data / "reports.csv", data / "sentences.csv"
    settings = ScoreSettings(cache=root / "scores.sqlite")
    score_reports(reports, sentences, settings, model=language_model, device="cpu")
    write_sums(data, [p.relative_to(data).as_posix() for p in data.rglob("*.[cp][sn][vg]")])
    shutil.copytree(language_model, root / "language-model")
    cache, model = DecodedCache(root / "cache"), load_model(checkpoint)
    build_index(data / "manifest.csv", checkpoint, root / "index", cache=cache)
    _upload(root / "index", root / "uploads", model, sent)
    records = read_manifest(data / "manifest.csv")
    squares = cache.fill([record.path for record in records], model.spec.preprocessing)
    keeping = Keeping(folder=root / "cache")
    features = lock_images(model, squares.pixels, squares.slots, keeping)
    texts = sorted({sentence.sentence for sentence in read_sentences(sentences)})
    pieces = model.tokenizer(texts, truncation=True, max_length=model.spec.max_tokens)
    states = lock_sentences(model, pieces["input_ids"], keeping)
    check_data(data)
    archive = Archive(root, checkpoint)
    row = [record.name for record in records].index(IMAGE)
    with open_index(root / "index") as index:
        snapshot, catalogue = index.snapshot, index.catalogue
        for name in (IMAGE, f"{SCANNED}.png"):
            place = snapshot.places_of(np.array([index.find(name).number]))[0]
            for kind, rows in snapshot.arrays.items():
                archive.needles[f"{kind} of {name}"] = np.asarray(rows[place]).tobytes()
        for phrase in (PHRASE, OTHER_PHRASE):
            number = catalogue.known_sentences()[phrase]
            (at,) = np.flatnonzero(snapshot.sentence_numbers == number)
            archive.needles[f"vector of {phrase}"] = snapshot.texts[at].numpy().tobytes()
    names = {PATIENT: "patient", STUDY: "study", "PLANTEDIMAGE99": "image", SCANNED: "upload"}
    archive.needles |= {name: text.encode() for text, name in names.items()}
    archive.needles |= {"phrase": PHRASE.encode(), "other phrase": OTHER_PHRASE.encode()}
    archive.needles["square"] = squares.pixels[squares.slots[row]].tobytes()
    archive.needles["features"] = features.of([row]).tobytes()
    archive.needles["state"] = states.of([texts.index(PHRASE)]).tobytes()
    archive.needles["file"] = png(pixels)
    archive.needles["uploaded file"] = png(sent)
    archive.needles["score"] = _score_key(language_model)
    archive.needles["digest"] = hashlib.sha256(png(pixels)).digest()
    return archive


def _score_key(language_model: Path) -> bytes:
    from cxrtext.language.scoring.cache import digest_of
    from cxrtext.language.scoring.score import encode_pieces
    from cxrtext.text.tokenizer import load_tokenizer

    return digest_of(encode_pieces(load_tokenizer(language_model), [PHRASE])[0])


@pytest.fixture
def archive(planted: Archive, tmp_path: Path) -> Archive:
    """A copy to forget in; its index knows its own uploads and data, its caches the old paths."""
    root = Path(shutil.copytree(planted.root, tmp_path / "archive"))
    with (
        Catalogue(root / "index" / CATALOGUE, write=True) as catalogue,
        catalogue.transaction(write=True) as database,
    ):
        for (path,) in database.execute("SELECT path FROM roots").fetchall():
            moved = path.replace(str(planted.root), str(root))
            database.execute("UPDATE roots SET path = ? WHERE path = ?", (moved, path))
    return Archive(root, planted.checkpoint, planted.needles)


EVERYWHERE = {
    "index": 2, "decoded images": 1, "sentence scores": 1, "facts of check-data": 1,
    "features of a locked encoder": 2, "image": 2, "report": 1, "manifest": 1,
    "table": 7,  # reports, labels, boxes, rejected, more.jsonl, predictions, sentences
}  # fmt: skip


def test_nothing_planted_is_found_after_it_was_forgotten(
    archive: Archive, data_folder: Path
) -> None:
    before = archive.where()
    assert archive.still_there() == set(archive.needles)
    root = archive.root
    tried = forget([root], patient=PATIENT, dry_run=True)
    assert archive.where() == before
    kinds: Counter[str] = Counter()
    for place in tried.places:
        kinds[place.what] += place.entries
    assert {name: kinds[name] for name in EVERYWHERE} == EVERYWHERE
    assert not any(place.done for place in tried.places)
    done = forget([root], patient=PATIENT)
    assert (done.studies, done.images) == (2, 2)
    assert archive.still_there() == set()
    assert {place.what for place in done.left} == {"elsewhere", "model"}
    assert wrong(root / "index") == []
    with Catalogue(root / "index" / CATALOGUE) as catalogue:
        vectors = decoded(catalogue.meta()["landmark_vectors"]).tobytes()
        text = json.dumps(catalogue.meta())
    for phrase in (PHRASE, OTHER_PHRASE):
        needle = archive.needles[f"vector of {phrase}"]
        assert needle not in vectors
        assert base64.b64encode(needle[:48]).decode() not in text
    assert file_problems(root / "data") == []
    assert len(read_manifest(root / "data" / "manifest.csv")) == 48
    assert len(read_sentences(root / "data" / "sentences.csv")) == 48
    assert [path.name for path in (root / "cache").iterdir()] == []
    with open_index(root / "index", archive.checkpoint) as index:
        assert index.images == 48
    for name in ("manifest.csv", "reports.csv", "labels.csv"):
        assert (archive.root / "data" / name).read_bytes() == (data_folder / name).read_bytes()
    lines = (archive.root / "data" / "more.jsonl").read_text().splitlines()
    assert [json.loads(line)["study_id"] for line in lines] == ["s01"]
    boxes = json.loads((archive.root / "data" / "boxes.json").read_text())
    assert ([i["id"] for i in boxes["images"]], boxes["annotations"]) == ([2], [])


def test_the_line_is_signed_and_names_nobody(archive: Archive) -> None:
    root = archive.root
    forget([root], patient=PATIENT)
    forget([root], study="s01")
    log, key = root / "forgotten.jsonl", key_of(root / "forgotten.key")
    assert list(faults(log, key)) == []
    first, second = (json.loads(line) for line in log.read_text().splitlines())
    assert first["subject"] == mark_of(key, "patient", PATIENT)
    assert first["removed"]["index"] == 2
    assert second["before"] == first["signature"]
    assert {path.stat().st_mode & 0o777 for path in (log, root / "forgotten.key")} == {0o600}
    log.write_text(log.read_text().replace('"index": 2', '"index": 3'))
    assert list(faults(log, key)) == ["line 1: was changed, or signed with another key"]
    log.write_text(json.dumps(second) + "\n")
    assert list(faults(log, key)) == ["line 1: a line before it was taken out or put in"]


def test_what_cannot_be_changed_is_named(archive: Archive) -> None:
    root = archive.root
    back_up(root / "index", root / "backup", model=False)
    (root / "job/shards").mkdir(parents=True)
    (root / "job" / JOB_PLAN).write_text(f'{{"images": ["{STUDY}"]}}')
    begin(root / "begun", "embed", {}, 1, lambda: (1, {}))
    (root / "page.html").write_text(f"<p>{STUDY}</p>")
    (root / "longer.html").write_text(f"<p>{STUDY}0</p>")
    (root / "left.csv").write_text(f"item,kind\nold/{STUDY}/1.dcm,left out\n")
    (root / "audit.jsonl").write_text(json.dumps({"request_id": "1", "study_id": [STUDY]}) + "\n")
    left = {Path(p.path).name: p.what for p in forget([root], patient=PATIENT).left}
    others = dict.fromkeys(("page.html", "audit.jsonl", "left.csv"), "other file")
    jobs = dict.fromkeys(("job", "begun"), "archive job")
    assert {"backup": "backup", **jobs, **others}.items() <= left.items()
    assert "longer.html" not in left


def test_a_pipe_in_a_folder_is_passed_over(tmp_path: Path) -> None:
    for name in ("reports.csv", "notes", "job.json", "a.sqlite", "SHA256SUMS", "x.dcm"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match="nothing|not found|no "):
        forget([tmp_path], patient=PATIENT)
    assert check_files(tmp_path).checked == {}
    found = list(walk_set(tmp_path, tmp_path / "out"))
    assert {_kind(tmp_path / name) for name in found if isinstance(name, str)} == {""}


def test_a_file_in_use_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "BUSY_SECONDS", 0.1)
    subject = Subject(patients={PATIENT})
    for name, table, forgets, said in (
        ("results.sqlite", "results", partial(stores.forget, RESULTS, subject=subject), NO_CACHE),
        ("scores.sqlite", "score", partial(stores.remove_cache, "sentence scores"), CACHE),
    ):
        path = tmp_path / name
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("PRAGMA journal_mode = WAL")
            other.execute(f"CREATE TABLE {table} (x)")
            other.execute("PRAGMA user_version = 1")
            with pytest.raises(HeldError, match=r"locked; another process has it open: stop that"):
                forgets(path)
        path.write_bytes(path.read_bytes()[:100] + bytes(8000))
        with pytest.raises(WorkError, match=said):
            forgets(path)


def arrival(path: Path, patient: str, study: str) -> None:
    ids = {"PatientID": patient, "StudyInstanceUID": study, "IssuerOfPatientID": "HOME"}
    path.write_bytes(as_dicom(np.zeros((8, 8), np.uint8), **ids))


def test_new_arrivals_are_known_by_their_headers(tmp_path: Path) -> None:
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    arrival(inbox / "a.dcm", "77", "1.2")
    arrival(inbox / "b", "77", "1.3")
    arrival(inbox / "c.dcm", "78", "1.4")
    with pytest.raises(DataError, match="no patient with this id is known"):
        forget([inbox], patient="77")  # another issuer's, perhaps
    done = forget([inbox], patient="HOME:77")
    assert done.studies == 2
    assert [place.done for place in done.places if place.what == "image"] == [True, True]
    assert {path.name for path in inbox.iterdir()} == {"c.dcm", "forgotten.jsonl", "forgotten.key"}


def test_the_hospitals_id_of_a_hashed_archive(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("0123456789abcdef0123456789abcdef")
    ids = Ids(read_key(key))
    data = tmp_path / "data"
    data.mkdir()
    rows = [f"{i}.png,{ids.of('study', f's{i}')},{ids.of('patient', f'p{i}')}" for i in range(3)]
    (data / "manifest.csv").write_text("\n".join(["image,study_id,patient_id", *rows]) + "\n")
    forget([data], patient="p1", hash_key=key)
    assert (data / "manifest.csv").read_text().splitlines()[1:] == [rows[0], rows[2]]


def test_rows_go_from_compressed_tables_row_groups_and_tables_as_excel_writes_them(
    tmp_path: Path,
) -> None:
    rows = "patient_id;study_id;report\r\n", "P0012;s1;Größe\r\n", "P0013;s2;Erguß, Gefäß\r\n"
    zipped, groups, excel = (tmp_path / name for name in ("a.csv.gz", "a.parquet", "a.csv"))
    zipped.write_bytes(gzip.compress("".join(rows).encode()))
    pq.write_table(pa.table({"study_id": ["s1", "s2"]}), groups, row_group_size=1)
    excel.write_bytes("".join(rows).encode("cp1252"))
    forget([tmp_path], study="s1")
    assert gzip.decompress(zipped.read_bytes()) == (rows[0] + rows[2]).encode()
    assert pq.read_table(groups).to_pylist() == [{"study_id": "s2"}]
    assert excel.read_bytes() == (rows[0] + rows[2]).encode("cp1252")


def test_what_a_compressed_file_says_of_them_is_named(tmp_path: Path) -> None:
    said = ["when,what", "2024,P0012 was seen"]
    (tmp_path / "manifest.csv").write_text("image,study_id,patient_id\na.png,s1,P0012\n")
    data = gzip.compress("\n".join(said).encode())
    for name in ("audit.csv.gz", "audit.log.gz"):
        (tmp_path / name).write_bytes(data)
    (tmp_path / "rotated.gz").write_bytes(gzip.compress(b'{"request_id": "1", "of": "P0012"}'))
    (tmp_path / "cut.csv.gz").write_bytes(data[:-9])
    pq.write_table(pa.table({"what": said * 9}), tmp_path / "audit.parquet", compression="gzip")
    left = {Path(place.path).name: place for place in forget([tmp_path], patient="P0012").left}
    assert {name: place.what for name, place in left.items() if name != "-"} == {
        **dict.fromkeys(("audit.csv.gz", "audit.log.gz", "rotated.gz"), "other file"),
        **{"audit.parquet": "other file", "cut.csv.gz": "unreadable file"},
    }
    assert left["rotated.gz"].why.startswith("an audit log")


def _cut_off(path: Path) -> None:
    path.write_bytes(gzip.compress(b"patient_id,study_id\nP0012,s1\nP0013,s2\n")[:-9])


def _long_cell(path: Path) -> None:
    lines = (tables.CELL_LIMIT // 1000 + 1) * (1000 * "y" + "\n")
    path.write_text(f'patient_id,study_id,report\nP0012,s1,x\nP0013,s2,"{lines}"\n')


def _damaged(path: Path) -> None:
    table = pa.table({"patient_id": ["P0012", "P0013"], "study_id": ["s1", "s2"]})
    pq.write_table(table, path, row_group_size=1, compression="none")
    at = pq.ParquetFile(path).metadata.row_group(1).column(0).dictionary_page_offset
    data = bytearray(path.read_bytes())
    data[at : at + 4] = bytes(4)
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("name", "write"), [("a.csv.gz", _cut_off), ("a.csv", _long_cell), ("a.parquet", _damaged)]
)
def test_a_table_that_cannot_be_read_to_its_end_is_left_as_it_is(
    tmp_path: Path, name: str, write: Callable[[Path], None]
) -> None:
    path = tmp_path / name
    write(path)
    before = path.read_bytes()
    with pytest.raises(WorkError, match=f"{name}: cannot be read to its end"):
        forget([tmp_path], patient="P0012")
    assert path.read_bytes() == before


def test_a_study_of_a_patient(archive: Archive) -> None:
    done = forget([archive.root], study=STUDY)
    assert (done.studies, done.images) == (1, 1)
    uploaded = {f"{kind} of {SCANNED}.png" for kind in ("regions", "sketch", "profiles", "means")}
    kept = {"patient", "upload", "other phrase", f"vector of {OTHER_PHRASE}", "uploaded file"}
    assert archive.still_there() - uploaded == kept


CHANGES = {"os.rename", "os.remove", "os.truncate"}


def killed(archive: Archive, changes: int) -> bool:
    """Whether a run in a fork was killed after so many changes of files, before it ended."""
    left = changes

    def count(event: str, given: tuple[object, ...]) -> None:
        nonlocal left
        written = event == "open" and isinstance(given[2], int) and given[2] & os.O_ACCMODE
        if event in CHANGES or written:
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def run() -> None:
        sys.addaudithook(count)
        try:
            forget([archive.root], patient=PATIENT)
        except DataError:  # killed when all was done
            assert (archive.root / "forgotten.jsonl").exists()

    _, status = os.waitpid(in_fork(run), 0)
    assert status in (0, signal.SIGKILL)
    return status != 0


@pytest.mark.parametrize("stride", [7, 11])
def test_a_killed_run_goes_on(archive: Archive, stride: int) -> None:
    kills = 0
    while killed(archive, 1 + stride * kills):
        kills += 1
    assert kills >= 4
    assert archive.still_there() == set()
    assert not list(archive.root.glob(".forget-*"))
    assert file_problems(archive.root / "data") == []
    log = archive.root / "forgotten.jsonl"
    assert list(faults(log, key_of(log.with_suffix(".key")))) == []


@pytest.mark.parametrize("piece", [1, 5, 8, 2**20])
def test_a_file_that_names_somebody_is_found_wherever_the_name_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr("cxrtext.service.forget.forget.SCAN_BYTES", piece)
    path = tmp_path / "log.txt"
    for text, names in (
        ("P0012", True),
        ("see P0012, today", True),
        ("P00123 and P0012", True),  # a longer number that begins alike, before it
        ("P00123 and AP0012", False),
        ("P00123", False),
        (12 * " " + "P0012.", True),
        ("", False),
    ):
        path.write_text(text)
        assert _names_one(path, [b"P0012"]) == names, text


def test_results_are_found_by_a_hospitals_uid_where_the_archive_has_another(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    with closing(sqlite3.connect(path)) as base, base:
        base.execute("CREATE TABLE results (instance, file, source, study_id, patient_id, study)")
        base.execute("INSERT INTO results VALUES ('1', 'a', 'b', 'hashed', 'p', '1.2.3')")
    for subject, count in (
        (Subject(studies={"1.2.3"}), 1), (Subject(studies={"hashed"}), 1),
        (Subject(patients={"p"}), 1), (Subject(studies={"1.2"}, patients={"q"}), 0),
    ):  # fmt: skip
        assert stores.count(RESULTS, path, subject) == count
