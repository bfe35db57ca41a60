"""Results of sentences and names in other letters, of poor headers, and of pixels not square."""

from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from pydicom.dataset import Dataset

from cxrtext.images.dicom.described import described
from cxrtext.images.dicom.file import read_wanted
from cxrtext.pacs.identity import NEEDED, is_own_result
from cxrtext.pacs.results.capture import _font, _lines
from cxrtext.pacs.results.folder import ResultsFolder
from cxrtext.pacs.results.making import make_results
from cxrtext.pacs.results.rejection import revoke
from cxrtext.service import Service
from tests.conftest import draw
from tests.pacs import result_sources
from tests.pacs.result_sources import write_effusion, write_source
from tests.pacs.test_results import _scoord, conformance, read, said_in

SENTENCES = (
    "Αριστερή πλευριτική συλλογή.",
    "左侧胸腔积液。" * 40,
    "Épanchement pleural gauche à l'œil.",
)


def poor(path: Path, kind: str) -> Path:
    """A radiograph with letters of its character set in a sequence, and without what may lack."""
    issuer = Dataset()
    issuer.LocalNamespaceEntityID = "Süd" if kind == "cr" else "山田"
    described = "Röntgen" if kind == "cr" else "胸部"
    more: dict[str, Any] = {"IssuerOfAccessionNumberSequence": [issuer]}
    write_effusion(path, kind, StudyDescription=described, **more)
    found = pydicom.dcmread(path)
    for keyword in ("StudyID", "StudyDate", "StudyTime", "PatientBirthDate", "PatientSex"):
        del found[keyword]
    if kind != "cr":
        found.PatientName = "CANARY^Taro=山田^太郎=やまだ^たろう"
    found.save_as(path)
    return path


def issuers(of: Dataset) -> list[str]:
    found = of.get("IssuerOfAccessionNumberSequence") or []
    return [one.LocalNamespaceEntityID for one in found]


@pytest.mark.parametrize(
    ("write", "kind", "sentence"),
    [
        *((write_effusion, kind, "Left pleural effusion.") for kind in result_sources.KINDS),
        *zip([poor] * 3, ("cr", "dx-mono1", "cr"), SENTENCES, strict=True),
    ],
)
def test_results_conform_and_keep_the_letters_of_sentences_names_and_issuers(
    service: Service, results: ResultsFolder, tmp_path: Path, write: Any, kind: str, sentence: str
) -> None:
    path = write(tmp_path / "source.dcm", kind)
    made = make_results(service, path, sentence, results).results
    assert [one.kind for one in made] == ["sc", "sr"]
    results.note_sent([one.instance for one in made], "archive")
    revoke(results, lambda _: True, {})  # the peer is not told, but the note is written
    source, objects = pydicom.dcmread(path), [*made, *results.all(kind="reject")]
    assert len(objects) == 3
    for one, built in zip(objects, read(results, objects), strict=True):
        # What a poor source lacks, a result of it lacks.
        lacking = "DICOMDIR" if write == poor else "nothing"
        found = conformance(results.path / one.file)
        assert [line for line in found if lacking not in line] == [], one.kind
        assert built.SpecificCharacterSet == "ISO_IR 192"
        assert built.StudyInstanceUID == source.StudyInstanceUID
        assert built.SeriesInstanceUID != source.SeriesInstanceUID
        for keyword in (
            *("PatientName", "PatientID", "IssuerOfPatientID", "AccessionNumber"),
            *("StudyDescription", "ReferringPhysicianName"),
        ):
            assert str(built[keyword].value) == str(source[keyword].value), (one.kind, keyword)
        assert issuers(built) == issuers(source)
        assert is_own_result(described(read_wanted(results.path / one.file, NEEDED), NEEDED))
    assert not is_own_result(described(read_wanted(path, NEEDED), NEEDED))
    (report,) = read(results, [one for one in made if one.kind == "sr"])
    assert sentence[:1024] in said_in(report, "TextValue")


def test_a_long_sentence_without_spaces_stays_in_its_band() -> None:
    font = _font(20)
    lines = _lines([SENTENCES[1], "two words"], font, 400)
    assert "".join(lines[:-1]) == SENTENCES[1]
    assert lines[-1] == "two words"
    assert max(font.getlength(line) for line in lines) <= 400 - 20


def test_a_sentence_in_another_spelling_is_the_same_one(
    service: Service, results: ResultsFolder, effusion: Path
) -> None:
    one = make_results(service, effusion, "Left \u00e9panchement.", results)
    other = make_results(service, effusion, " Left  e\u0301panchement.\n", results)
    assert (one.new, other.new) == (2, 0)
    assert other.results == one.results


@pytest.mark.parametrize("turned", [False, True], ids=["upright", "turned"])
def test_outlines_lie_on_pixels_that_are_not_square(
    service: Service, tmp_path: Path, turned: bool
) -> None:
    pixels = draw("effusion", 3) / 255
    boxes: list[Any] = []
    for stored in (pixels, pixels[::2]):
        more: dict[str, Any] = {
            "ImagerPixelSpacing": ["0.4", "0.2"] if len(stored) == 40 else [1, 1]
        }
        if turned and len(stored) == 40:  # rows lead to the feet, columns to the left
            stored = np.ascontiguousarray(stored.T)
            more = {"ImagerPixelSpacing": ["0.2", "0.4"], "PatientOrientation": ["F", "L"]}
        path = write_source(tmp_path / "a.dcm", "cr", pixels=stored, **more)
        folder = ResultsFolder(tmp_path / f"out{len(boxes)}")
        made = make_results(service, path, "Left pleural effusion.", folder)
        boxes.append(_scoord(read(folder, made.results)[1]))
    if turned:
        boxes[1] = boxes[1][:, ::-1]
    low, high = boxes[1].min(axis=0) * (1, 2), boxes[1].max(axis=0) * (1, 2)
    assert low == pytest.approx(boxes[0].min(axis=0), abs=6)
    assert high == pytest.approx(boxes[0].max(axis=0), abs=6)
