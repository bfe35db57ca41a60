"""The folder of results: what was sent and taken back stays noted, whatever happens to files."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ExplicitVRLittleEndian

from cxrtext.errors import DataError
from cxrtext.pacs.results import folder as module
from cxrtext.pacs.results.folder import Kept, ResultsFolder


def built(number: int = 1, text: str = "one") -> Dataset:
    one = Dataset()
    one.file_meta = FileMetaDataset()
    one.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    one.SOPClassUID, one.SOPInstanceUID = "1.2.840.10008.5.1.4.1.1.88.33", f"2.25.{number}"
    one.StudyInstanceUID, one.SeriesInstanceUID = "1.2", "1.2.3"
    one.SeriesDescription = text
    return one


def put(folder: ResultsFolder, text: str = "one") -> Kept:
    return folder.put(
        built(text=text), kind="sr", source="1.2.3.4", study_id="s", patient_id="p",
        sentence="Left effusion.", probability=0.5, calibrated=False, model="m",
    )  # fmt: skip


def test_a_result_that_is_made_again_was_sent_and_taken_back_before(tmp_path: Path) -> None:
    folder = ResultsFolder(tmp_path / "out")
    kept = put(folder)
    folder.note_sent([kept.instance], "archive")
    folder.note_revoked([kept.instance])
    (tmp_path / "out" / kept.file).write_bytes(b"cut")
    assert folder.find(kept.instance) is None
    put(folder, "two")
    again = folder.find(kept.instance)
    assert again is not None
    assert again.revoked
    assert folder.peers() == {kept.instance: ["archive"]}


def test_a_folder_of_another_version_is_refused(tmp_path: Path) -> None:
    put(ResultsFolder(tmp_path / "out"))
    with closing(sqlite3.connect(tmp_path / "out" / module.FILE)) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (module.VERSION,)
        database.execute("PRAGMA user_version = 9")
    for create in (True, False):
        with pytest.raises(DataError, match="of another version of cxrtext .*; name a new folder"):
            ResultsFolder(tmp_path / "out", create=create)


def test_of_two_that_make_one_result_the_row_is_that_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ResultsFolder(tmp_path / "out")
    other = threading.Thread(target=put, args=(ResultsFolder(tmp_path / "out"), "two"))
    now = module.now

    def slow() -> str:
        if other.ident is None:  # the other one makes it when our file is written
            other.start()
            other.join(0.5)
        return now()

    monkeypatch.setattr(module, "now", slow)
    put(folder)
    other.join()
    assert folder.find("2.25.1") is not None
