"""Reports that come as FHIR R4."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from cxrtext.datasets.importing.reports.fhir import STATUSES
from cxrtext.datasets.importing.reports.sources import as_reports, file_versions
from cxrtext.datasets.importing.versions import ReportVersion, Status
from cxrtext.records import LeftOut
from cxrtext.records.cells import read_time


def report(**more: Any) -> dict[str, Any]:
    attachment = base64.b64encode("FINDINGS:\nKleiner Erguß.".encode()).decode()
    accession = {"type": {"coding": [{"code": "ACSN"}]}, "value": "A1"}
    return {
        "resourceType": "DiagnosticReport",
        "status": "final",
        "identifier": [accession],
        "issued": "2024-03-01T12:00:00+01:00",
        "presentedForm": [{"contentType": "text/plain", "data": attachment}],
        **more,
    }


def found_in(tmp_path: Path, content: str) -> list[ReportVersion | LeftOut]:
    path = tmp_path / "report.json"
    path.write_text(content)
    return list(file_versions(path, "report.json"))


def one(tmp_path: Path, resource: object) -> ReportVersion:
    (found,) = found_in(tmp_path, json.dumps(resource))
    assert isinstance(found, ReportVersion)
    return found


def refusal(tmp_path: Path, content: str) -> str:
    (found,) = found_in(tmp_path, content)
    assert isinstance(found, LeftOut)
    assert "CANARY" not in found.why
    return found.why


@pytest.mark.parametrize("status", sorted(STATUSES))
def test_every_status_is_read(tmp_path: Path, status: str) -> None:
    version = one(tmp_path, report(status=status))
    assert (version.status, version.addendum) == STATUSES[status]
    assert version.report == "FINDINGS:\nKleiner Erguß."
    assert (version.accession, version.time) == ("A1", read_time("2024-03-01T12:00:00+01:00"))


def test_text_is_that_of_the_attachment_else_the_conclusion_else_the_narrative(
    tmp_path: Path,
) -> None:
    conclusion = report(presentedForm=[], conclusion="No effusion.")
    narrative = report(
        presentedForm=None, text={"div": "<div><p>Small</p><p>effusion &amp; more</p></div>"}
    )
    named = [{"system": "urn:dicom:uid", "value": "urn:oid:1.2.3"}]
    study = {"resourceType": "ImagingStudy", "id": "s", "identifier": named}
    contained = report(identifier=[], contained=[study], imagingStudy=[{"reference": "#s"}])
    path = tmp_path / "reports.ndjson"
    lines = [json.dumps(one) for one in (conclusion, narrative, contained)]
    path.write_text("\n".join(lines))
    found = [one for one in file_versions(path, "reports.ndjson") if isinstance(one, ReportVersion)]
    first, second, third = found
    assert (first.report, second.report) == ("No effusion.", "Small\n\neffusion & more")
    assert (third.study, third.accession) == ("1.2.3", "")


def presented(text: bytes, kind: str) -> dict[str, Any]:
    data = base64.encodebytes(text).decode()  # in lines, which FHIR allows
    return report(presentedForm=[{"contentType": kind, "data": data}])


def test_an_attachment_may_be_of_another_character_set_and_in_lines(tmp_path: Path) -> None:
    said = "Kleiner Erguß links. " * 9
    for kind, codec in (
        ('TEXT/PLAIN;charset="windows-1252"', "cp1252"),
        ("text/plain", "utf-8"),
    ):
        found = one(tmp_path, presented(said.encode(codec), kind))
        assert found.report == said.strip(), kind
    said = refusal(tmp_path, json.dumps(presented(b"CANARY", "text/plain; charset=base64")))
    assert said == "its presentedForm names a character set that is not known"


def test_of_html_there_is_what_a_reader_sees(tmp_path: Path) -> None:
    html = (
        "<html><head><title>CANARY</title><style>p {}</style><script>CANARY()</script></head>"
        "<body onload='CANARY()'><!-- CANARY --><p>Heart is large.</p>Lungs are clear.<table><tr>"
        "<td>Effusion</td><td>none</td></tr></table>5 &lt; 6<br/>A&B"
    )
    found = one(tmp_path, presented(html.encode(), "text/html"))
    said = "\n".join(filter(None, found.report.splitlines()))
    assert said == "Heart is large.\nLungs are clear.\nEffusion: none\n5 < 6\nA&B"


@pytest.mark.parametrize(
    ("key", "come_of_it"),
    [
        ("status", [LeftOut]), ("identifier", [LeftOut]), ("meta", [ReportVersion]),
        ("issued", [ReportVersion]), ("subject", [ReportVersion]), ("resourceType", []),
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", [[], {}, [[]], [{"type": {"coding": [{"code": {}}]}}], 7, None])
def test_values_of_another_kind_are_refused_where_the_report_cannot_be_placed(
    tmp_path: Path, key: str, come_of_it: list[type], value: object
) -> None:
    bundle = {"resourceType": "Bundle", "entry": [{"resource": report(**{key: value})}]}
    assert [type(found) for found in found_in(tmp_path, json.dumps(bundle))] == come_of_it


def test_the_type_of_a_resource_may_stand_last(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    contained = [{"resourceType": "Patient", "text": {"div": "x" * 2000}}]
    said = report(contained=contained)
    kind = said.pop("resourceType")
    path.write_text(json.dumps({"meta": {"tag": []}, **said, "resourceType": kind}))
    assert [one.study for one in as_reports(path) if isinstance(one, ReportVersion)]
    (version,) = file_versions(path, "a.json")
    assert isinstance(version, ReportVersion)
    path.write_text('{"meta": {}, "rows": [1, 2]}')
    assert list(file_versions(path, "a.json")) == []


def test_a_bundle_without_addresses_and_a_patient_with_many_numbers(tmp_path: Path) -> None:
    study = {"system": "urn:dicom:uid", "value": "urn:oid:1.2.3"}
    numbers = [
        {"type": {"coding": [{"code": "SS"}]}, "value": "SECRET"},
        {"extension": [{"url": "x", "valueString": "y"}]},
        {"type": {"coding": [{"code": "MR"}]}, "value": "17", "assigner": {"display": "HIS"}},
    ]
    resources: list[dict[str, Any]] = [
        report(subject={"reference": "Patient/p"}, imagingStudy=[{"reference": "ImagingStudy/s"}]),
        {"resourceType": "Patient", "id": "p", "identifier": numbers},
        {"resourceType": "ImagingStudy", "id": "s", "identifier": [study]},
        {"resourceType": "Observation", "id": "o"},
    ]
    bundle = {"resourceType": "Bundle", "entry": [{"resource": r} for r in resources]}
    found = one(tmp_path, bundle)
    assert (found.patient, found.study, found.accession) == ("HIS:17", "1.2.3", "A1")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (json.dumps(report(status="zzz CANARY")), "its status is none of FHIR R4's (amended, "),
        (json.dumps(report(identifier=[])), "names neither an accession number nor a study UID"),
        (json.dumps(report(presentedForm=[])), "holds no text"),
        (
            json.dumps(report(presentedForm=[{"contentType": "text/plain", "data": "CANARY!"}])),
            "its presentedForm is no UTF-8 in base64",
        ),
        (json.dumps(report())[:-30], "is no JSON; export it again"),
        ('{"resourceType": "DiagnosticReport", "x": ' + "[" * 100_000, "is no JSON"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(tmp_path: Path, content: str, line: str) -> None:
    assert refusal(tmp_path, content).startswith(line)


def test_withdrawn_reports_need_no_text(tmp_path: Path) -> None:
    withdrawn = one(tmp_path, report(status="entered-in-error", presentedForm=[]))
    assert (withdrawn.status, withdrawn.report) == (Status.WITHDRAWN, "")
