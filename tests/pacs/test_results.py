"""Results as DICOM objects: conformant, on the right pixels, made once, sent and taken back."""

import subprocess
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
import pydicom
import pytest
from PIL import Image

from cxrtext.errors import ConfigError, DataError, ImageError
from cxrtext.pacs.identity import CLASSES, WARNING
from cxrtext.pacs.results.capture import draw_capture
from cxrtext.pacs.results.finding import prompts_of, read_and_find
from cxrtext.pacs.results.folder import Kept, ResultsFolder
from cxrtext.pacs.results.image import read_source
from cxrtext.pacs.results.making import make_results
from cxrtext.pacs.results.rejection import revoke
from cxrtext.pacs.results.report import outline
from cxrtext.pacs.results.sending import send_results
from cxrtext.service import Service
from cxrtext_api.routes.questions import draw_overlay
from tests.conftest import draw
from tests.pacs.orthanc import Known, Orthanc
from tests.pacs.result_sources import write_effusion, write_source

SENTENCE = "Left pleural effusion."


def read(folder: ResultsFolder, some: Iterable[Kept]) -> list[pydicom.Dataset]:
    return [pydicom.dcmread(folder.path / one.file) for one in some]


def said_in(report: pydicom.Dataset, keyword: str) -> list[str]:
    """The values that an element has anywhere in a report."""
    return [str(element.value) for element in report.iterall() if element.keyword == keyword]


def conformance(path: Path) -> list[str]:
    """What dciodvfy finds wrong, but that it does not know the private coding scheme.

    Nor did it in 2022 a Device UID of contributing equipment.  Nothing where there is none: apt-get
    install dicom3tools.
    """
    if which("dciodvfy") is None:
        return []
    done = subprocess.run(["dciodvfy", str(path)], capture_output=True, text=True, timeout=600)
    lines = (done.stdout + done.stderr).splitlines()
    known = ("99CXRTEXT", "UI Device UID", "Standard Extended SOP Class")
    return [
        line
        for line in lines
        if line.startswith(("Error", "Warning")) and not any(one in line for one in known)
    ]


@pytest.mark.parametrize("kind", ["dx-mono1", "16-bit-mirrored"])
def test_a_capture_is_the_heatmap_of_the_page_corner_to_corner(
    service: Service, results: ResultsFolder, tmp_path: Path, kind: str
) -> None:
    path = write_effusion(tmp_path / "source.dcm", kind)
    pixels, finding = read_and_find(service, path, SENTENCE)
    built, _ = read(results, make_results(service, path, SENTENCE, results).results)
    drawn, top = draw_capture(pixels, finding)
    assert np.array_equal(built.pixel_array, drawn)
    gray = np.rint(pixels[0] * 255).astype(np.uint8)
    page = np.asarray(Image.open(BytesIO(draw_overlay(gray, finding.grounding))).convert("RGB"))
    height, width = page.shape[:2]
    assert np.array_equal(built.pixel_array[top : top + height, :width], page)
    assert built.pixel_array[:top].max() == 255  # the warning is above it


def test_outlines_lie_on_the_pixels_of_a_mirrored_file(
    service: Service, results: ResultsFolder, tmp_path: Path
) -> None:
    corners = {}
    for kind in ("cr", "16-bit-mirrored"):
        path = write_effusion(tmp_path / f"{kind}.dcm", kind)
        report = read(results, make_results(service, path, SENTENCE, results).results)[1]
        corners[kind] = _scoord(report)
    plain, mirrored = corners["cr"], corners["16-bit-mirrored"]
    assert sorted(80 - mirrored[:4, 0]) == pytest.approx(sorted(plain[:4, 0]), abs=1e-3)
    placement = read_source(tmp_path / "16-bit-mirrored.dcm").placement
    assert outline((0, 0, 10, 20), placement)[:, 0].tolist() == [70, 80, 80, 70, 70]
    assert sorted(mirrored[:4, 1]) == pytest.approx(sorted(plain[:4, 1]), abs=1e-3)


def _scoord(report: pydicom.Dataset) -> np.ndarray[Any, Any]:
    (first, *_) = [item for item in _items(report, "111030") if item.ValueType == "SCOORD"]
    return np.reshape(np.asarray(first.GraphicData, dtype=float), (-1, 2))


def test_a_report_says_the_finding_its_probability_and_its_evidence(
    service: Service, results: ResultsFolder, effusion: Path
) -> None:
    capture, kept = make_results(service, effusion, SENTENCE, results).results
    (report,) = read(results, [kept])
    texts = said_in(report, "TextValue")
    assert {"Pleural effusion", "Probability is calibrated"} <= {*said_in(report, "CodeMeaning")}
    assert {SENTENCE, f"model {service.model.fingerprint}"} <= {*texts}
    assert "against: No pleural effusion." in texts
    evidence = report.CurrentRequestedProcedureEvidenceSequence[0].ReferencedSeriesSequence
    named = {
        (series.SeriesInstanceUID, one.ReferencedSOPClassUID, one.ReferencedSOPInstanceUID)
        for series in evidence
        for one in series.ReferencedSOPSequence
    }
    source = pydicom.dcmread(effusion)
    assert named == {
        (source.SeriesInstanceUID, source.SOPClassUID, source.SOPInstanceUID),
        (capture.series, CLASSES["sc"], capture.instance),
    }
    (certainty,) = _items(report, "111012")
    percent = float(certainty.MeasuredValueSequence[0].NumericValue)
    _, finding = read_and_find(service, effusion, SENTENCE)
    assert finding.probability == pytest.approx(percent / 100, abs=1e-6)
    assert (report.CompletionFlag, report.VerificationFlag) == ("COMPLETE", "UNVERIFIED")


@pytest.mark.parametrize("spacing", [{}, {"ImagerPixelSpacing": ["0.2", "0.3"]}])
def test_a_report_is_as_ihe_asks_of_ai_results(
    service: Service, results: ResultsFolder, tmp_path: Path, spacing: dict[str, Any]
) -> None:
    path = write_effusion(tmp_path / "source.dcm", **spacing)
    capture, report = read(results, make_results(service, path, SENTENCE, results).results)
    assert report.SOPClassUID.name == "Comprehensive 3D SR Storage"
    (title,) = report.ConceptNameCodeSequence
    assert (title.CodeValue, title.CodeMeaning) == ("126000", "Imaging Measurement Report")
    assert [item.ConceptCodeSequence[0].CodeValue for item in _items(report, "121049")] == ["en-US"]
    (procedure,) = (item.ConceptCodeSequence[0] for item in _items(report, "121058"))
    assert procedure.CodeMeaning == "Plain X-ray of chest"
    for built in (capture, report):  # one algorithm, wherever it is named
        (made_by,) = built.ContributingEquipmentSequence
        assert made_by.PurposeOfReferenceCodeSequence[0].CodeMeaning == "Processing Equipment"
        assert made_by.Manufacturer == _only(report, "121014").TextValue
        assert made_by.ManufacturerModelName == _only(report, "121015").TextValue
        assert made_by.DeviceUID == _only(report, "121012").UID
    groups = _items(report, "125007")
    assert len(groups) > 1
    for group in groups:
        assert _only(group, "111001").TextValue == made_by.ManufacturerModelName
        assert _only(group, "111003").TextValue == made_by.SoftwareVersions
        said = [item.TextValue for item in _items(group, "111002")]
        assert f"model {service.model.fingerprint}" in said
        assert _only(group, "112039").TextValue
    assert len({_only(group, "112040").UID for group in groups}) == len(groups)
    (library,) = _items(report, "126200")
    (entry,) = library.ContentSequence
    assert entry.ReferencedSOPSequence[0].ReferencedSOPInstanceUID == read_source(path).instance
    assert len(_items(entry, "111026")) == len(spacing)  # its spacing, where it is known
    shown = _only(groups[0], "130401").ReferencedSOPSequence[0]
    assert shown.ReferencedSOPInstanceUID == capture.SOPInstanceUID


def _only(dataset: pydicom.Dataset, code: str) -> pydicom.Dataset:
    (item,) = _items(dataset, code)
    return item


def test_a_report_is_as_viewers_want_it(
    service: Service, results: ResultsFolder, effusion: Path
) -> None:
    _, report = read(results, make_results(service, effusion, SENTENCE, results).results)
    # DCMTK's page leaves the names of values out where contents are continuous.
    assert {*said_in(report, "ContinuityOfContent")} == {"SEPARATE"}
    whole, *regions = [item.ContentSequence for item in _items(report, "125007")]
    assert regions
    # OHIF ends at a number without a place, and shows comments beside numbers.
    places = [item.ContentSequence[0] for item in whole if item.ValueType == "NUM"]
    assert [list(map(float, place.GraphicData)) for place in places] == [
        [0, 0, 80, 0, 80, 80, 0, 80, 0, 0]
    ] * 2
    warning, sentence, probability = (
        item.TextValue for item in whole if item.ConceptNameCodeSequence[0].CodeMeaning == "Comment"
    )
    assert (warning, sentence) == (WARNING, SENTENCE)
    assert probability.startswith("probability ")
    # It takes an outline of five points over, from a group that has no number.
    for region in regions:
        assert "NUM" not in [item.ValueType for item in region]
        (outline,) = [item for item in region if item.ValueType == "SCOORD"]
        assert (outline.GraphicType, len(outline.GraphicData)) == ("POLYLINE", 10)


def _items(dataset: pydicom.Dataset, code: str) -> list[pydicom.Dataset]:
    """The items of a report, at any depth, whose concept has a code."""
    found = []
    for item in dataset.get("ContentSequence") or ():
        names = item.get("ConceptNameCodeSequence") or ()
        found += [item] if [name.CodeValue for name in names] == [code] else []
        found += _items(item, code)
    return found


def test_a_sentence_has_the_probability_of_its_prompts_or_against_its_denial(
    service: Service,
) -> None:
    assert prompts_of(service, "cardiomegaly")[0] == "Cardiomegaly"
    name, prompts = prompts_of(service, SENTENCE)
    assert name == SENTENCE
    assert prompts is not None
    assert "No pleural effusion." in prompts.negative
    _, absent = prompts_of(service, "No pneumothorax.")
    assert absent is not None
    assert "Pneumothorax" in absent.negative
    assert prompts_of(service, "Cardiomegaly without edema.")[1] is None
    assert prompts_of(service, "The lungs are clear.")[1] is None


def test_results_are_made_once_and_made_again_where_their_file_is_gone(
    service: Service, results: ResultsFolder, effusion: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = make_results(service, effusion, SENTENCE, results)
    files = [results.path / one.file for one in first.results]
    before = [file.read_bytes() for file in files]
    with monkeypatch.context() as patch:
        patch.setattr(service, "ground", None)  # it is not asked
        again = make_results(service, effusion, SENTENCE, results)
    assert (first.new, again.new, again.results) == (2, 0, first.results)
    assert [file.read_bytes() for file in files] == before
    files[0].write_bytes(b"cut")
    mended = make_results(service, effusion, SENTENCE, results)
    assert mended.new == 1
    assert [one.instance for one in mended.results] == [one.instance for one in first.results]
    for file in (results.path / "results.sqlite", files[0]):
        assert file.stat().st_mode & 0o777 == 0o600
    other = make_results(service, effusion, "Right pneumothorax.", results)
    same = [a.series == b.series for a, b in zip(first.results, other.results, strict=True)]
    assert same == [True, False]  # captures are a stack; of reports viewers open one a series
    assert not {one.instance for one in other.results} & {one.instance for one in first.results}
    corrected = write_effusion(effusion, PatientID="CANARY-2")
    assert make_results(service, corrected, SENTENCE, results).new == 2


def test_where_nothing_stands_out_a_report_outlines_nothing(
    service: Service, results: ResultsFolder, tmp_path: Path
) -> None:
    path = write_source(tmp_path / "flat.dcm", "cr", pixels=draw("clear", 5) / 255)
    _, finding = read_and_find(service, path, "Right pneumothorax.")
    made = make_results(service, path, "Right pneumothorax.", results)
    assert not finding.present
    _, report = read(results, made.results)
    assert len(_items(report, "125007")) == 1
    assert not make_results(service, path, SENTENCE, results, above=0.999).results


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            {"StudyInstanceUID": "../../x"},
            "its StudyInstanceUID is not a UID; export the file again",
        ),
        ({"SeriesInstanceUID": ""}, "names no SeriesInstanceUID; results join the study of a"),
        ({"SOPClassUID": "1.2.840.10008.5.1.4.1.1.2"}, "is not a radiograph (CR or DX)"),
        ({"NumberOfFrames": 2}, "has several frames"),
    ],
)
@pytest.mark.filterwarnings("ignore:Invalid value for VR UI")
def test_what_is_no_source_is_refused_in_a_line(
    service: Service, results: ResultsFolder, tmp_path: Path, change: dict[str, Any], line: str
) -> None:
    path = write_effusion(tmp_path / "source.dcm", **change)
    with pytest.raises(ImageError) as caught:
        make_results(service, path, SENTENCE, results)
    assert str(caught.value).startswith(f"{path}: {line}")
    assert "CANARY" not in str(caught.value)


# --- sent to a real PACS ---


def test_results_are_sent_once_and_taken_back(
    service: Service,
    results: ResultsFolder,
    effusion: Path,
    tmp_path: Path,
    orthanc: Orthanc,
    known: Known,
    caplog: pytest.LogCaptureFixture,
) -> None:
    peer = known(orthanc.peer(write=True))
    orthanc.store([effusion.read_bytes()])
    made = make_results(service, effusion, SENTENCE, results).results
    done = send_results(results, made, peer)
    assert (done.sent, done.there) == (2, 0)
    before = orthanc.instances()
    assert set(before) == {read_source(effusion).instance, *(one.instance for one in made)}
    assert len(orthanc.ask("GET", "/studies").json()) == 1
    assert len(orthanc.ask("GET", "/series").json()) == 3
    assert send_results(results, made, peer).there == 2
    elsewhere = ResultsFolder(tmp_path / "elsewhere")  # who does not know that they were sent
    again = make_results(service, effusion, SENTENCE, elsewhere).results
    done = send_results(elsewhere, again, peer)
    assert (done.sent, done.there) == (0, 2)
    assert orthanc.instances() == before
    for one, built in zip(made, read(results, made), strict=True):
        (number,) = orthanc.ask("POST", "/tools/lookup", content=one.instance).json()
        file = orthanc.ask("GET", f"/instances/{number['ID']}/file").content
        assert pydicom.dcmread(BytesIO(file)) == built  # but for the file's meta information
    back = revoke(results, lambda _: True, {peer.name: peer})
    assert (back.results, back.told, back.faults) == (2, {"archive": 1}, ())
    (note,) = read(results, results.all(kind="reject"))
    named = note.CurrentRequestedProcedureEvidenceSequence[0].ReferencedSeriesSequence
    uids = [o.ReferencedSOPInstanceUID for series in named for o in series.ReferencedSOPSequence]
    assert sorted(uids) == sorted(one.instance for one in made)
    assert note.ConceptNameCodeSequence[0].CodeMeaning == "Rejected for Quality Reasons"
    assert all(one.revoked for one in results.all() if one.kind != "reject")
    assert "CANARY" not in caplog.text


def test_nothing_is_sent_to_a_peer_that_is_not_opened_for_it(
    service: Service, results: ResultsFolder, effusion: Path, orthanc: Orthanc, known: Known
) -> None:
    peer = known(orthanc.peer())
    made = make_results(service, effusion, SENTENCE, results).results
    with pytest.raises(ConfigError, match=r"archive: nothing is sent to it; set write: true"):
        send_results(results, made, peer)
    assert orthanc.instances() == []
    open_peer = known(orthanc.peer(write=True))
    (results.path / made[0].file).unlink()
    with pytest.raises(DataError, match="is gone or changed; make it again"):
        send_results(results, made, open_peer)
    assert orthanc.instances() == []
