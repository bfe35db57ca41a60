import gzip
import io
import os
import sys
from pathlib import Path

import pytest

from cxrtext.errors import DataError
from cxrtext.records import LeftOut, Sentence, Study, open_source
from cxrtext.records.report_folder import FILE_LIMIT

CANARY = "zebrafish"


def put(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_folder_as_mimic_has_it(tmp_path: Path) -> None:
    put(tmp_path / "files/p10/p10000764/s57375967.txt", "FINAL REPORT\r\n Clear.\r\n")
    put(tmp_path / "files/p10/p10000032/s53189527.txt", "")
    put(tmp_path / "files/p10/p10000032/s50414267.TXT", b"\xef\xbb\xbfNormal.")
    put(tmp_path / "files/p10.txt", "First.")
    put(tmp_path / "files/p10/index.html", "no report")
    put(tmp_path / "files/p10/._s1.txt", b"\xff")
    source = open_source(tmp_path)
    assert (source.holds, source.description) == ("reports", str(tmp_path))
    found = list(source)
    assert found == list(source)
    assert found == [
        Study("p10", "First.", row=1), Study("50414267", "Normal.", row=2),
        Study("53189527", "", row=3), Study("57375967", "FINAL REPORT\n Clear.\n", row=4),
    ]  # fmt: skip


def test_the_digest_of_a_folder(tmp_path: Path) -> None:
    put(tmp_path / "b/1.txt", "a")
    file = put(tmp_path / "a/2.txt", "a")
    first = open_source(tmp_path).digest
    assert open_source(tmp_path).digest == first
    os.utime(file, ns=(1, 1))
    second = open_source(tmp_path).digest
    file.rename(tmp_path / "a/3.txt")
    assert len({first, second, open_source(tmp_path).digest}) == 3


def test_bad_files_are_rejected(tmp_path: Path) -> None:
    put(tmp_path / "a.txt", CANARY.encode() + b" \xff")
    put(tmp_path / "b.txt", b"x" * (FILE_LIMIT + 1))
    put(tmp_path / "c.txt", b"\x1f\x8b\x08\x00")
    put(tmp_path / "d/s1.txt", "Clear.")
    put(tmp_path / "e/s1.txt", CANARY)
    put(tmp_path / "f/1.txt", "Clear.")
    put(tmp_path / "g.txt", "Épanchement.".encode("utf-16"))
    os.mkfifo(tmp_path / "h.txt")
    put(tmp_path / os.fsdecode(b"i\xff.txt"), "x")
    found = list(open_source(tmp_path))
    assert [item for item in found if isinstance(item, Study)] == [
        Study("1", "Clear.", row=4),
        Study("g", "Épanchement.", row=7),
    ]
    wrong = [item for item in found if isinstance(item, LeftOut)]
    assert [item.where for item in wrong] == [
        "a.txt", "b.txt", "c.txt", "e/s1.txt", "h.txt", "i\\udcff.txt",
    ]  # fmt: skip
    says = ["not UTF-8", "larger than 10 MB", "gzip", "of file 4", "not a file", "rename the file"]
    for item, reason in zip(wrong, says, strict=True):
        assert reason in item.why
    assert CANARY not in str(wrong)


def test_links_are_not_followed_out_of_the_folder(tmp_path: Path) -> None:
    outside = put(tmp_path / "outside/x.txt", CANARY)
    folder = tmp_path / "in"
    put(folder / "a/1.txt", "Clear.")
    (folder / "2.txt").symlink_to(folder / "a/1.txt")
    (folder / "3.txt").symlink_to(outside)
    (folder / "4.txt").symlink_to(folder / "nowhere.txt")
    (folder / "5").symlink_to(outside.parent)
    (folder / "6").symlink_to(folder)
    (tmp_path / "link").symlink_to(folder)
    for path in (folder, tmp_path / "link"):
        found = list(open_source(path))
        assert [i.study_id for i in found if isinstance(i, Study)] == ["2", "1"]
        wrong = [item for item in found if isinstance(item, LeftOut)]
        assert [item.where for item in wrong] == ["3.txt", "4.txt", "5"]
        assert [w.why.split(";")[0] for w in wrong] == [
            "a link that leads out of the folder",
            "not a file, or a link that leads nowhere",
            "a link that leads out of the folder",
        ]


def test_one_text_file_is_one_report_and_a_folder_may_be_very_deep(tmp_path: Path) -> None:
    path = put(tmp_path / "/".join(["d"] * 200) / "s5.txt", "Clear.\n\nNormal.")
    for place in (str(path), tmp_path):
        assert list(open_source(place)) == [Study("5", "Clear.\n\nNormal.", row=1)]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.txt", b"", "the file is empty"),
        ("a.txt", b"\xff" + CANARY.encode(), "not UTF-8"),
        ("a.txt.gz", b"\x1f\x8b\x08", "compressed; unpack it first"),
        ("a.csv.gz", b"\x1f\x8b\x08", "cut off or damaged"),
        ("a.xls", b"x", "save the table as .xlsx, or as CSV UTF-8"),
        ("a", b"x", "ending in nothing is not read: give .csv"),
        ("a/b.html", b"x", "no .txt file in this folder"),
    ],
)
def test_paths_that_are_refused(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    put(tmp_path / name, content)
    path = tmp_path / name.partition("/")[0]
    with pytest.raises(DataError, match=says) as error:
        open_source(path)
    assert str(path) in str(error.value)
    assert CANARY not in str(error.value)


@pytest.mark.parametrize("name", ["reports.csv", "reports.csv.gz"])
def test_a_line_without_an_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("cxrtext.records.decoding.NO_LINE", 2_000_000)
    path = tmp_path / name
    opener = gzip.open if name.endswith("gz") else open
    with opener(path, "wb") as handle:
        handle.write(b"study_id,report\n")
        handle.write(bytes(8_000_000))  # as a hole reads
    with pytest.raises(DataError, match=rf"{name}: a line is longer than 2,000,000 characters"):
        list(open_source(path))


def test_a_file_of_zeros_is_refused_by_its_first_block(tmp_path: Path) -> None:
    with (tmp_path / "a.csv").open("wb") as handle:
        handle.truncate(2**40)
    with pytest.raises(DataError, match="without a byte order mark"):
        list(open_source(tmp_path / "a.csv"))


def test_paths_where_nothing_is(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file or folder"):
        open_source(tmp_path / "none.csv")
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match="pipe sentences in"):
        open_source(tmp_path / "pipe.csv")
    with pytest.raises(DataError, match=r"cannot be read"):
        open_source(tmp_path / ("x" * 300 + ".csv"))


def feed(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_sentences_on_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, b'\xef\xbb\xbfClear.\n\n  \r\nNo, "as" seen. \r\n\xff' + b"\nLast")
    source = open_source("-")
    assert (source.description, source.holds) == ("standard input", "sentences")
    assert len(source.digest) == 64
    expected = [
        Sentence("1", "sentence", 0, "Clear."),
        Sentence("4", "sentence", 0, 'No, "as" seen.'),
        LeftOut("line 5", "not UTF-8 text; save it as UTF-8"),
        Sentence("6", "sentence", 0, "Last"),
    ]
    assert list(source) == expected
    # Two readers at once do not disturb each other.
    assert list(zip(source, source, strict=True)) == [(item, item) for item in expected]


def test_a_line_that_is_too_long_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, b"a\n" + b"x" * 2_500_000 + b"\nb\n")
    first, second, third = open_source("-")
    assert isinstance(second, LeftOut)
    assert "longer than 1,000,000 characters" in second.why
    assert [first, third] == [Sentence(n, "sentence", 0, t) for n, t in (("1", "a"), ("3", "b"))]


def test_standard_input_that_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, b" \n\n")
    with pytest.raises(DataError, match="standard input is empty"):
        open_source("-")
    feed(monkeypatch, b"\x1f\x8b\x08\x00\x00")
    with pytest.raises(DataError, match="standard input: compressed"):
        open_source("-")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(DataError, match="closed"):
        open_source("-")
