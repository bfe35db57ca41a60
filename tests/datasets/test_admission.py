"""Which objects enter an archive, by what their headers say."""

from collections.abc import Sequence
from typing import Any

import pytest
from pydicom.dataset import Dataset

from cxrtext.datasets.admission import NEEDED, decide
from cxrtext.datasets.admission.decide import (
    BURNED_IN,
    MOVED,
    NO_IMAGE,
    NO_PART,
    NO_VIEW,
    OTHER_CLASS,
    OTHER_MODALITY,
    OTHER_PART,
    SECONDARY,
)
from cxrtext.datasets.admission.ids import IDS, Ids, issued, object_ids
from cxrtext.datasets.admission.views import LATERAL, OTHER, oriented_view, read_view
from cxrtext.images.dicom.described import Described, described
from cxrtext.images.dicom.file import Header

CR = "1.2.840.10008.5.1.4.1.1.1"

FOREIGN = [
    *("ABDOMEN", "CSPINE", "RIB", "KNIE_LINKS", "HWS", "HÜFTE", "ÉPAULE", "MUÑECA", "HEUP"),
]
"""Body parts, as devices of seven languages name them."""


def said(**texts: str | Sequence[str]) -> Described:
    """A header of a chest radiograph, with some elements; None leaves one out."""
    values: dict[str, Any] = {"SOPClassUID": CR, "Modality": "CR", "Rows": "8", **texts}
    return Described({k: [v] if isinstance(v, str) else v for k, v in values.items() if v})


@pytest.mark.parametrize("part", FOREIGN)
def test_another_body_part_does_not_enter(part: str) -> None:
    by_element = decide(said(BodyPartExamined=part, ViewPosition="AP"))
    assert by_element.refused == OTHER_PART
    by_words = decide(said(StudyDescription=f"{part.replace('_', ' ').lower()} 2 Eb."))
    assert by_words.refused == OTHER_PART
    assert "StudyDescription says" in by_words.because


@pytest.mark.parametrize(
    "texts",
    [
        *({"BodyPartExamined": part} for part in ("TÓRAX", "PORT CHEST", "1VCHEST", "胸部")),
        {"BodyPartExamined": "UNKNOWN", "SeriesDescription": "Lungenaufnahme"},
        {"AnatomicRegionSequence": ["51185008", "Thorax"]}, {"ProtocolName": "RX tórax PA"},
        {"StudyDescription": "X-thorax"}, {"SeriesDescription": "Thorax/Abdomen"},
    ],
)  # fmt: skip
def test_a_chest_enters(texts: Any) -> None:
    found = decide(said(ViewPosition="PA", **texts))
    assert (found.enters, found.view, found.notes) == (True, "PA", ())


@pytest.mark.parametrize(
    ("texts", "because"),
    [
        ({"BodyPartExamined": "CHESTABDOMEN"}, "BodyPartExamined says abdomen and chest"),
        ({"BodyPartExamined": "THORACIC SPINE"}, "BodyPartExamined says spine"),
        ({"BodyPartExamined": "SIC"}, "BodyPartExamined names no part of the chest"),
        (
            {"AnatomicRegionSequence": ["T-D9200", "Foot"], "BodyPartExamined": "CHEST"},
            "AnatomicRegionSequence says foot, BodyPartExamined says chest",
        ),
        (
            {"AnatomicRegionSequence": ["72696002"]},
            "AnatomicRegionSequence names no part of the chest",
        ),
        (
            {"BodyPartExamined": "CHEST", "SeriesDescription": "AP DE PIE DERECHO"},
            "SeriesDescription says foot, BodyPartExamined says chest",
        ),
    ],
)
def test_why_a_body_part_does_not_enter(texts: Any, because: str) -> None:
    found = decide(said(**texts))
    assert (found.refused, found.because) == (OTHER_PART, because)
    assert str(found) == f"{OTHER_PART}: {because}"


@pytest.mark.parametrize(
    "text",
    [
        "W Chest Lat.", "Thorax seitl.", "Thorax de profil", "Torace L-L", "thorax dwars",
    ],
)  # fmt: skip
def test_laterals_in_the_languages_of_hospitals(text: str) -> None:
    assert read_view(text) == LATERAL
    for element in ("SeriesDescription", "ProtocolName", "StudyDescription"):
        found = decide(said(BodyPartExamined="CHEST", **{element: text}))
        assert (found.refused, found.because) == (LATERAL, f"by {element}")


@pytest.mark.parametrize(
    ("text", "view"),
    [
        ("Thorax p.a.", "PA"), ("thorax de face", "frontal"), ("voor-achterwaarts", "AP"),
        ("Thorax in 2 Ebenen", ""), ("PA + LL", ""), ("Linksseitenlage", OTHER),
        ("décubitus latéral", OTHER), ("décubitus dorsal", "AP"), ("BED SIDE", ""),
        ("后前位", "PA"), ("侧卧位", OTHER), ("AP DECUBITO", "AP"), ("DECUBITO", OTHER),
        ("AP decubito sn dx", OTHER), ("AP_PORTABLE", "AP"), ("AP AXIAL", OTHER),
        ("LL", LATERAL), ("XTABLE LATERAL", LATERAL), ("", ""), ("Paul", ""), ("AP/PA", "frontal"),
    ],
)  # fmt: skip
def test_words_of_views(text: str, view: str) -> None:
    assert read_view(text) == view


@pytest.mark.parametrize(
    ("orientation", "view"),
    [
        ("R\\F", "frontal"), ("F\\R", "frontal"), ("L\\H", "frontal"), ("F\\A", LATERAL),
        ("AF\\FP", LATERAL), ("L\\FP", "frontal"), ("LA\\F", OTHER), ("L\\P", OTHER), ("L", ""),
        ("X\\Y", ""), ("L\\R", ""),
    ],
)  # fmt: skip
def test_views_by_orientation(orientation: str, view: str) -> None:
    assert oriented_view(orientation.split("\\")) == view


@pytest.mark.parametrize(
    ("texts", "refused"),
    [
        ({"SOPClassUID": "1.2.840.10008.5.1.4.1.1.2", "Modality": "CT"}, OTHER_MODALITY),
        ({"SOPClassUID": "1.2.840.10008.5.1.4.1.1.7.2", "Modality": "DX"}, SECONDARY),
        ({"SOPClassUID": "1.2.840.10008.5.1.4.1.1.88.11", "Modality": "SR"}, NO_IMAGE),
        ({"SOPClassUID": "1.2.840.10008.5.1.4.1.1.1.2", "Modality": "DX"}, OTHER_CLASS),
        ({"SOPClassUID": "1.2.3.4"}, OTHER_CLASS),
        ({"Rows": ""}, NO_IMAGE),
        ({"Modality": "CT"}, OTHER_MODALITY),
        ({"Modality": "", "SOPClassUID": ""}, OTHER_MODALITY),
    ],
)
def test_other_objects_do_not_enter(texts: Any, refused: str) -> None:
    assert decide(said(**texts)).refused == refused


def test_what_is_not_known_is_said_of_one_that_enters() -> None:
    found = decide(said(BurnedInAnnotation="YES"))
    assert found.notes == (BURNED_IN, NO_PART, NO_VIEW)
    for part in ("MOBILE", "BEDSIDE"):
        assert decide(said(BodyPartExamined=part, ViewPosition="AP")).notes == (NO_PART,)
    assert decide(said(Modality="", ViewPosition="PA", BodyPartExamined="CHEST")).enters


@pytest.mark.parametrize(
    ("header", "movement"),
    [
        ({"PatientOrientation": ["L", "F"]}, ""),
        ({"PatientOrientation": ["R", "F"]}, "mirrored"),
        ({"PatientOrientation": ["F", "R"]}, "turned"),
        ({"ImageOrientationPatient": ["-1", "0", "0", "0", "0", "-1"]}, "mirrored"),
        ({"ImageOrientationPatient": ["1", "0", "0", "0", "0", "x"]}, ""),
    ],
)
def test_how_one_that_enters_is_stored_is_said(header: Any, movement: str) -> None:
    found = decide(said(BodyPartExamined="CHEST", ViewPosition="PA", **header))
    assert found.enters
    assert found.notes == ((MOVED[movement],) if movement else ())


def test_ids_carry_their_issuer_and_their_zeros() -> None:
    names = {"PatientID": "000123", "IssuerOfPatientID": "NORD", "AccessionNumber": "007"}
    ids = object_ids(said(**names, StudyInstanceUID="1.2", SOPInstanceUID="1.3"))
    assert (ids.patient, ids.study, ids.instance, ids.accession) == (
        "NORD:000123", "1.2", "1.3", "007"
    )  # fmt: skip
    assert object_ids(said(PatientID="000123")).patient == "000123"
    assert object_ids(said(PatientID="000123"), "SUED").patient == "SUED:000123"
    assert object_ids(said(AccessionNumber="007")).study == "007"
    assert issued("A", "B:C") != issued("C:A", "B")
    assert set(IDS).isdisjoint(NEEDED)
    key = Ids(b"0123456789abcdefghij")
    assert key.of("patient", "NORD:000123") != key.of("patient", "000123")


@pytest.mark.parametrize(
    "series",
    [
        "PA DE PIE",
        "AP sitting, arm down",
        "s/p sternotomy",
        "Main campus portable",
        "手術室 臥位",
    ],
)
def test_how_and_where_the_patient_was_is_no_other_part_or_view(series: str) -> None:
    found = decide(said(BodyPartExamined="CHEST", ViewPosition="AP", SeriesDescription=series))
    assert (found.enters, str(found)) == (True, "")


@pytest.mark.parametrize(
    "series", ["Vorfuß dp", "arto inferiore lungo", "胸椎", "RX PIE DERECHO", "AP DE PIE"]
)
def test_another_part_that_a_description_names_does_not_enter(series: str) -> None:
    assert decide(said(SeriesDescription=series, ViewPosition="AP")).refused == OTHER_PART


def test_a_number_of_a_patient_with_a_backslash_is_one_number() -> None:
    dataset = Dataset()
    dataset.PatientID = ["WARD", "000123"]
    header = described(Header(dataset, "", pixels=True), IDS)
    assert object_ids(header).patient == "WARD\\000123"
    assert object_ids(header, "NORD").patient == "NORD:WARD\\000123"


@pytest.mark.parametrize(("frames", "enters"), [("01", True), ("+1", True), ("10", False)])
def test_one_frame_is_one_however_it_is_written(frames: str, enters: bool) -> None:
    assert decide(said(BodyPartExamined="CHEST", NumberOfFrames=frames)).enters is enters


def test_a_view_code_that_is_not_known_is_read_by_its_meaning() -> None:
    assert decide(said(ViewCodeSequence=["L-1", "postero-anterior"])).view == "PA"
    assert decide(said(ViewCodeSequence=["L-2", "Thorax seitlich"])).refused == LATERAL
