"""Results as DICOM objects: conformant, on the right pixels, made once, sent and taken back."""

import subprocess
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
import pydicom
import pytest

from cxrtext.errors import ConfigError, DataError, ImageError
from cxrtext.images.dicom.described import described
from cxrtext.images.dicom.file import read_wanted
from cxrtext.images.placement import Placement
from cxrtext.pacs.identity import KINDS, NEEDED, WARNING, is_own_result
from cxrtext.pacs.peers import read_peer
from cxrtext.pacs.results.capture import draw_capture
from cxrtext.pacs.results.finding import prompts_of, read_and_find
from cxrtext.pacs.results.folder import Kept, ResultsFolder
from cxrtext.pacs.results.image import read_source
from cxrtext.pacs.results.making import make_results
from cxrtext.pacs.results.rejection import reject
from cxrtext.pacs.results.sending import send_results
from cxrtext.service import Service, load_service
from cxrtext_api.routes.questions import draw_overlay
from tests.conftest import draw
from tests.pacs import result_sources
from tests.pacs.orthanc import Orthanc
from tests.pacs.result_sources import write_source

SENTENCE = "Left pleural effusion."
SOURCES = tuple(result_sources.KINDS)


@pytest.fixture(scope="module")
def service(checkpoint: Path, index_folder: Path) -> Service:
    return load_service(checkpoint, index_folder)


def effusion(path: Path, kind: str = "cr", **more: Any) -> Path:
    """A radiograph of a kind of device, with a bright patch at the patient's lower left."""
    return write_source(path, kind, pixels=draw("effusion", 3) / 255, **more)


def conformance(path: Path) -> list[str]:
    """What dciodvfy finds wrong, but that it does not know the private coding scheme."""
    done = subprocess.run(["dciodvfy", str(path)], capture_output=True, text=True, timeout=600)
    lines = (done.stdout + done.stderr).splitlines()
    return [
        line for line in lines if line.startswith(("Error", "Warning")) and "99CXRTEXT" not in line
    ]


@pytest.mark.skipif(which("dciodvfy") is None, reason="needs dciodvfy: apt-get install dicom3tools")
@pytest.mark.parametrize("kind", SOURCES)
def test_results_of_five_kinds_of_device_conform(
    service: Service, tmp_path: Path, kind: str
) -> None:
    path = effusion(tmp_path / "source.dcm", kind)
    folder = ResultsFolder(tmp_path / "out")
    made = make_results(service, path, SENTENCE, folder, kinds=KINDS)
    notes = reject(folder, made.results)
    assert [one.kind for one in made.results] == list(KINDS)
    source = pydicom.dcmread(path)
    for one in (*made.results, *notes):
        assert conformance(folder.path / one.file) == [], one.kind
        built = pydicom.dcmread(folder.path / one.file)
        assert built.StudyInstanceUID == source.StudyInstanceUID
        assert built.SeriesInstanceUID != source.SeriesInstanceUID
        for keyword in ("PatientName", "PatientID", "IssuerOfPatientID", "AccessionNumber"):
            assert str(built[keyword].value) == str(source[keyword].value), (one.kind, keyword)
        header = read_wanted(folder.path / one.file, NEEDED)
        assert is_own_result(described(header, NEEDED))
    assert not is_own_result(described(read_wanted(path, NEEDED), NEEDED))


@pytest.mark.parametrize("kind", ["cr", "dx-mono1", "16-bit-mirrored"])
def test_a_capture_is_the_heatmap_of_the_page_corner_to_corner(
    service: Service, tmp_path: Path, kind: str
) -> None:
    path = effusion(tmp_path / "source.dcm", kind)
    pixels, finding = read_and_find(service, path, SENTENCE)
    folder = ResultsFolder(tmp_path / "out")
    (kept,) = make_results(service, path, SENTENCE, folder, kinds=["sc"]).results
    built = pydicom.dcmread(folder.path / kept.file)
    drawn, top = draw_capture(pixels, finding)
    assert np.array_equal(built.pixel_array, drawn)
    gray = np.rint(pixels[0] * 255).astype(np.uint8)
    page = np.asarray(_png(draw_overlay(gray, finding.grounding)))
    height, width = page.shape[:2]
    assert np.array_equal(built.pixel_array[top : top + height, :width], page)
    assert built.pixel_array[:top].max() == 255  # the warning is above it


def _png(data: bytes) -> Any:
    from PIL import Image

    return Image.open(BytesIO(data)).convert("RGB")


def test_regions_lie_on_the_pixels_of_a_mirrored_file(service: Service, tmp_path: Path) -> None:
    folder = ResultsFolder(tmp_path / "out")
    masks, corners = {}, {}
    for kind in ("cr", "16-bit-mirrored"):
        path = effusion(tmp_path / f"{kind}.dcm", kind)
        made = make_results(service, path, SENTENCE, folder, kinds=["sr", "seg", "gsps"])
        sr, seg, gsps = (pydicom.dcmread(folder.path / one.file) for one in made.results)
        masks[kind] = seg.pixel_array.reshape(80, 80) > 0
        data = gsps.GraphicAnnotationSequence[0].GraphicObjectSequence[0].GraphicData
        corners[kind] = np.reshape(np.asarray(data, dtype=float), (-1, 2))
        assert np.allclose(_scoord(sr), corners[kind], atol=1e-3)
        assert seg.PatientOrientation == pydicom.dcmread(path).PatientOrientation
    assert masks["cr"].any()
    assert np.array_equal(masks["cr"], masks["16-bit-mirrored"][:, ::-1])
    assert not np.array_equal(masks["cr"], masks["cr"][:, ::-1])
    plain, mirrored = corners["cr"], corners["16-bit-mirrored"]
    assert sorted(80 - mirrored[:4, 0]) == pytest.approx(sorted(plain[:4, 0]), abs=1e-3)


def _scoord(report: pydicom.Dataset) -> np.ndarray[Any, Any]:
    """The outline of the first region."""
    (data, *_) = [
        item.GraphicData
        for item in _items(report)
        if item.ValueType == "SCOORD" and item.ConceptNameCodeSequence[0].CodeValue == "111030"
    ]
    return np.reshape(np.asarray(data, dtype=float), (-1, 2))


@pytest.mark.parametrize("flips", [(t, m, i) for t in (0, 1) for m in (0, 1) for i in (0, 1)])
def test_a_picture_comes_back_onto_the_stored_pixels(flips: tuple[int, int, int]) -> None:
    stored = np.arange(12).reshape(3, 4)
    size = (4, 3) if flips[0] else (3, 4)
    placement = Placement(3, 4, *size, *map(bool, flips))
    assert np.array_equal(placement.to_stored(placement.turned(stored)), stored)
    larger = Placement(3, 4, size[0] * 2, size[1], *map(bool, flips))
    shown = np.repeat(larger.turned(stored), 2, axis=0)
    assert np.array_equal(larger.to_stored(shown), stored)


def test_a_report_says_the_finding_its_probability_and_its_evidence(
    service: Service, tmp_path: Path
) -> None:
    path = effusion(tmp_path / "source.dcm")
    folder = ResultsFolder(tmp_path / "out")
    (kept,) = make_results(service, path, SENTENCE, folder, kinds=["sr"]).results
    report = pydicom.dcmread(folder.path / kept.file)
    said = [str(e.value) for e in report.iterall() if e.keyword in ("TextValue", "CodeMeaning")]
    assert {"Pleural effusion", SENTENCE, "Probability is calibrated"} <= set(said)
    assert f"model {service.model.fingerprint}" in said
    assert "against: No left pleural effusion." in said
    evidence = report.CurrentRequestedProcedureEvidenceSequence[0].ReferencedSeriesSequence[0]
    assert evidence.ReferencedSOPSequence[0].ReferencedSOPInstanceUID == read_source(path).instance
    percent = [float(e.value) for e in report.iterall() if e.keyword == "NumericValue"]
    assert kept.probability == pytest.approx(percent_of(report), abs=1e-6)
    assert 100 * (kept.probability or 0) in [pytest.approx(p, abs=1e-3) for p in percent]
    assert (report.CompletionFlag, report.VerificationFlag) == ("COMPLETE", "UNVERIFIED")


def test_a_report_and_regions_are_as_viewers_want_them(service: Service, tmp_path: Path) -> None:
    path = effusion(tmp_path / "source.dcm")
    folder = ResultsFolder(tmp_path / "out")
    made = make_results(service, path, SENTENCE, folder, kinds=["sr", "seg"]).results
    report, seg = (pydicom.dcmread(folder.path / one.file) for one in made)
    # DCMTK's page leaves the names of values out where contents are continuous.
    kinds = {e.value for e in report.iterall() if e.keyword == "ContinuityOfContent"}
    assert kinds == {"SEPARATE"}
    groups = [
        item.ContentSequence
        for item in _items(report)
        if item.ConceptNameCodeSequence[0].CodeMeaning == "Measurement Group"
    ]
    whole, *regions = groups
    assert regions
    # OHIF ends at a number without a place, and shows comments beside numbers.
    places = [item.ContentSequence[0] for item in whole if item.ValueType == "NUM"]
    assert [list(map(float, place.GraphicData)) for place in places] == [
        [0, 0, 80, 0, 80, 80, 0, 80, 0, 0]
    ] * 2
    comments = [
        item.TextValue for item in whole if item.ConceptNameCodeSequence[0].CodeMeaning == "Comment"
    ]
    assert comments[:2] == [WARNING, SENTENCE]
    assert [text.startswith("probability ") for text in comments[2:]] == [True]
    # It takes an outline of five points over, from a group that has no number.
    for region in regions:
        assert "NUM" not in [item.ValueType for item in region]
        (outline,) = [item for item in region if item.ValueType == "SCOORD"]
        assert (outline.GraphicType, len(outline.GraphicData)) == ("POLYLINE", 10)
    # It ends at a segmentation that does not say the size of pixels.
    assert "PixelMeasuresSequence" not in seg.SharedFunctionalGroupsSequence[0]
    known: list[dict[str, Any]] = [
        {"PixelSpacing": ["0.2", "0.3"], "ImagerPixelSpacing": ["0.4", "0.4"]},
        {"ImagerPixelSpacing": ["0.2", "0.3"]},
    ]
    for number, spacing in enumerate(known, 2):
        spaced = effusion(tmp_path / f"{number}.dcm", number=number, **spacing)
        (kept,) = make_results(service, spaced, SENTENCE, folder, kinds=["seg"]).results
        shared = pydicom.dcmread(folder.path / kept.file).SharedFunctionalGroupsSequence[0]
        assert shared.PixelMeasuresSequence[0].PixelSpacing == [0.2, 0.3]


def percent_of(report: pydicom.Dataset) -> float:
    for item in _items(report):
        if item.get("ConceptNameCodeSequence") and (
            item.ConceptNameCodeSequence[0].CodeValue == "111012"
        ):
            return float(item.MeasuredValueSequence[0].NumericValue) / 100
    raise AssertionError("no probability")


def _items(dataset: pydicom.Dataset) -> list[pydicom.Dataset]:
    own = list(dataset.get("ContentSequence") or ())
    return own + [inner for one in own for inner in _items(one)]


def test_a_sentence_has_the_probability_of_its_prompts_or_against_its_denial(
    service: Service,
) -> None:
    assert prompts_of(service, "cardiomegaly")[0] == "Cardiomegaly"
    name, prompts = prompts_of(service, SENTENCE)
    assert name == SENTENCE
    assert prompts is not None
    assert prompts.negative == ("No left pleural effusion.",)
    assert prompts_of(service, "The lungs are clear.")[1] is None


def test_results_are_made_once_and_made_again_where_their_file_is_gone(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = effusion(tmp_path / "source.dcm")
    folder = ResultsFolder(tmp_path / "out")
    first = make_results(service, path, SENTENCE, folder)
    before = {one.file: (folder.path / one.file).read_bytes() for one in first.results}
    with monkeypatch.context() as patch:
        patch.setattr(service, "ground", None)  # it is not asked
        again = make_results(service, path, SENTENCE, folder)
    assert (first.new, again.new, again.results) == (2, 0, first.results)
    assert {name: (folder.path / name).read_bytes() for name in before} == before
    (folder.path / first.results[0].file).write_bytes(b"cut")
    mended = make_results(service, path, SENTENCE, folder)
    assert mended.new == 1
    assert [one.instance for one in mended.results] == [one.instance for one in first.results]
    assert (folder.path / "results.sqlite").stat().st_mode & 0o777 == 0o600
    assert (folder.path / first.results[0].file).stat().st_mode & 0o777 == 0o600
    other = make_results(service, path, "Right pneumothorax.", folder)
    same = [a.series == b.series for a, b in zip(first.results, other.results, strict=True)]
    assert same == [True, False]  # captures are a stack; of reports viewers open one a series
    assert not {one.instance for one in other.results} & {one.instance for one in first.results}
    corrected = effusion(tmp_path / "source.dcm", PatientID="CANARY-2")
    third = make_results(service, corrected, SENTENCE, folder)
    assert third.new == 2


def test_where_nothing_stands_out_no_regions_are_made(service: Service, tmp_path: Path) -> None:
    path = write_source(tmp_path / "flat.dcm", "cr", pixels=draw("clear", 5) / 255)
    folder = ResultsFolder(tmp_path / "out")
    _, finding = read_and_find(service, path, "Right pneumothorax.")
    made = make_results(service, path, "Right pneumothorax.", folder, kinds=KINDS)
    assert not finding.present
    assert [one.kind for one in made.results] == ["sc", "sr", "gsps"]
    assert made.left_out == (f"{path}: no SEG: nothing stands out",)
    assert not make_results(service, path, "Left pleural effusion.", folder, above=0.999).results


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"StudyInstanceUID": "../../x"}, "its StudyInstanceUID is no UID; export the file again"),
        ({"SeriesInstanceUID": ""}, "names no SeriesInstanceUID; results join the study of a"),
        ({"SOPClassUID": "1.2.840.10008.5.1.4.1.1.2"}, "is no radiograph (CR or DX)"),
        ({"NumberOfFrames": 2}, "has several frames"),
    ],
)
@pytest.mark.filterwarnings("ignore:Invalid value for VR UI")
def test_what_is_no_source_is_refused_in_a_line(
    service: Service, tmp_path: Path, change: dict[str, Any], line: str
) -> None:
    path = effusion(tmp_path / "source.dcm", **change)
    with pytest.raises(ImageError) as caught:
        make_results(service, path, SENTENCE, ResultsFolder(tmp_path / "out"))
    assert str(caught.value).startswith(f"{path}: {line}")
    assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        {"PatientSex": "X", "PatientBirthDate": "", "StudyDate": "", "StudyTime": ""},
        {"WindowWidth": "0"},
        {"PatientOrientation": []},
        {"RescaleSlope": "", "RescaleIntercept": ""},
        {"ImagerPixelSpacing": ["0.2", "0.2"]},
    ],
    ids=lambda change: next(iter(change)),
)
@pytest.mark.filterwarnings("ignore")
def test_odd_headers_are_no_obstacle(
    service: Service, tmp_path: Path, change: dict[str, Any]
) -> None:
    path = effusion(tmp_path / "source.dcm", "dx-mono1", **change)
    made = make_results(service, path, SENTENCE, ResultsFolder(tmp_path / "out"), kinds=KINDS)
    assert [one.kind for one in made.results] == list(KINDS)


# --- sent to a real PACS ---


@pytest.mark.parametrize("way", ["dicomweb", "dimse"])
def test_results_are_sent_once_and_taken_back(
    service: Service,
    tmp_path: Path,
    orthanc: Orthanc,
    peers: Callable[..., Path],
    way: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    other = {"dicomweb": "dimse", "dimse": "dicomweb"}[way]
    without: dict[str, Any] = {other: None}
    peer = read_peer(peers(orthanc.peer(write=True, **without)), "archive")
    path = effusion(tmp_path / "source.dcm")
    orthanc.store([path.read_bytes()])
    folder = ResultsFolder(tmp_path / "out")
    made = make_results(service, path, SENTENCE, folder, kinds=KINDS).results
    done = send_results(folder, made, peer)
    assert (done.sent, done.there) == (4, 0)
    before = orthanc.instances()
    assert set(before) == {read_source(path).instance, *(one.instance for one in made)}
    assert len(orthanc.ask("GET", "/studies").json()) == 1
    assert len(orthanc.ask("GET", "/series").json()) == 5
    assert send_results(folder, made, peer).there == 4
    elsewhere = ResultsFolder(tmp_path / "elsewhere")  # who does not know that they were sent
    again = make_results(service, path, SENTENCE, elsewhere, kinds=KINDS).results
    done = send_results(elsewhere, again, peer)
    assert (done.sent, done.there) == ((0, 4) if way == "dicomweb" else (done.sent, done.there))
    assert orthanc.instances() == before
    for one in made:
        # Over DIMSE the meta information of the file is the receiver's.
        assert _fetched(orthanc, one) == pydicom.dcmread(folder.path / one.file)
    notes = reject(folder, made)
    assert send_results(folder, notes, peer).sent == 1
    note = pydicom.dcmread(folder.path / notes[0].file)
    named = note.CurrentRequestedProcedureEvidenceSequence[0].ReferencedSeriesSequence
    uids = [o.ReferencedSOPInstanceUID for series in named for o in series.ReferencedSOPSequence]
    assert sorted(uids) == sorted(one.instance for one in made)
    assert note.ContentSequence is not None
    assert note.ConceptNameCodeSequence[0].CodeMeaning == "Rejected for Quality Reasons"
    assert all(one.revoked for one in folder.all() if one.kind != "reject")
    assert "CANARY" not in caplog.text


def _fetched(orthanc: Orthanc, one: Kept) -> pydicom.Dataset:
    (number,) = orthanc.ask("POST", "/tools/lookup", content=one.instance).json()
    file = orthanc.ask("GET", f"/instances/{number['ID']}/file").content
    return pydicom.dcmread(BytesIO(file))


def test_a_note_is_of_one_model(service: Service, tmp_path: Path) -> None:
    folder = ResultsFolder(tmp_path / "out")
    path = effusion(tmp_path / "source.dcm")
    first, second = make_results(service, path, SENTENCE, folder).results
    notes = reject(folder, [first, replace(second, model="another")])
    assert [note.model for note in notes] == [first.model, "another"]


def test_nothing_is_sent_to_a_peer_that_is_not_opened_for_it(
    service: Service, tmp_path: Path, orthanc: Orthanc, peers: Callable[..., Path]
) -> None:
    peer = read_peer(peers(orthanc.peer()), "archive")
    folder = ResultsFolder(tmp_path / "out")
    made = make_results(service, effusion(tmp_path / "a.dcm"), SENTENCE, folder).results
    with pytest.raises(ConfigError, match=r"archive: nothing is sent to it; set write: true"):
        send_results(folder, made, peer)
    assert orthanc.instances() == []
    open_peer = read_peer(peers(orthanc.peer(write=True)), "archive")
    (folder.path / made[0].file).unlink()
    with pytest.raises(DataError, match="is gone or changed; make it again"):
        send_results(folder, made, open_peer)
    assert orthanc.instances() == []
