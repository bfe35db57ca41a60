"""DiagnosticReports of FHIR R4 as versions of a report: a resource, a bundle, or lines of them.

What is required of a value set is checked here: libraries take any text.

Source: HL7 FHIR 4.0.1, DiagnosticReport, and its value set diagnostic-report-status.
"""

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cxrtext.datasets.admission.ids import issued
from cxrtext.datasets.importing.versions import ReportVersion, Status
from cxrtext.records.cells import read_time
from cxrtext.text.layout import plain_text

MAX_BYTES = 64 * 2**20

STATUSES: Mapping[str, tuple[Status, bool]] = {
    "registered": (Status.PRELIMINARY, False),
    "partial": (Status.PRELIMINARY, False),
    "preliminary": (Status.PRELIMINARY, False),
    "final": (Status.FINAL, False),
    "amended": (Status.CORRECTED, False),
    "corrected": (Status.CORRECTED, False),
    "appended": (Status.FINAL, True),
    "cancelled": (Status.WITHDRAWN, False),
    "entered-in-error": (Status.WITHDRAWN, False),
    "unknown": (Status.UNKNOWN, False),
}
"""Every status that R4 knows, as a status here, and whether it is an addendum."""

_OID = re.compile(r"urn:oid:([0-9]+(?:\.[0-9]+)+)")
_CHARSET = re.compile(r"""charset\s*=\s*["']?([a-z0-9][a-z0-9._:-]{0,39})""")
_TYPE = re.compile(rb'"resourceType"\s*:')

Resource = Mapping[str, Any]


class ResourceError(Exception):
    """Says in one line what is wrong with a resource, without quoting it."""


def looks_like_fhir(start: bytes, path: Path) -> bool:
    """Whether a file holds a resource in JSON: its type need not be the first that it says."""
    if not start.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{"):
        return False
    with path.open("rb") as handle:
        return _TYPE.search(handle.read(MAX_BYTES)) is not None


def resources(data: bytes) -> Iterator[Resource]:
    """The resources of a file: one, or one a line."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ResourceError("is not UTF-8, which FHIR is") from None
    try:
        found = [json.loads(text)]
    except (ValueError, RecursionError):
        try:
            found = [json.loads(line) for line in text.splitlines() if line.strip()]
        except (ValueError, RecursionError):
            raise ResourceError("is no JSON; export it again") from None
    for one in found:
        if not isinstance(one, dict):
            raise ResourceError("holds no FHIR resource")
        yield one


def read_resource(resource: Resource, item: str) -> Iterator[ReportVersion | ResourceError]:
    """The versions in a resource: of a DiagnosticReport one, of a Bundle one for each in it."""
    if resource.get("resourceType") == "DiagnosticReport":
        several, others = [resource], {}
    elif resource.get("resourceType") == "Bundle":
        entries = [one for one in _list(resource, "entry") if isinstance(one.get("resource"), dict)]
        several = [one["resource"] for one in entries]
        others = {f"{r.get('resourceType')}/{r.get('id')}": r for r in several}
        others |= {str(one["fullUrl"]): one["resource"] for one in entries if one.get("fullUrl")}
        several = [r for r in several if r.get("resourceType") == "DiagnosticReport"]
    else:
        return
    for number, one in enumerate(several, 1):
        try:
            yield _version(one, others, item if number == 1 else f"{item} report {number}")
        except ResourceError as error:
            yield error


def _version(report: Resource, others: Mapping[str, Resource], item: str) -> ReportVersion:
    if str(report.get("status")) not in STATUSES:
        raise ResourceError(
            f"its status is none of FHIR R4's ({', '.join(sorted(STATUSES))}); correct it"
        )
    status, addendum = STATUSES[str(report["status"])]
    text = _text(report)
    study, accession, issuer = _study(report, others)
    if not study and not accession:
        raise ResourceError("names neither an accession number nor a study UID")
    if not text and status != Status.WITHDRAWN:
        raise ResourceError("holds no text (presentedForm, conclusion, text)")
    return ReportVersion(
        item=item,
        study=study,
        accession=accession,
        issuer=issuer,
        patient=_patient(report, others),
        status=status,
        time=read_time(str(report.get("issued") or report.get("effectiveDateTime") or "")),
        addendum=addendum,
        report=text,
    )


def _part(resource: Resource, name: str) -> Resource:
    found = resource.get(name)
    return found if isinstance(found, dict) else {}


def _list(resource: Resource, name: str) -> list[Resource]:
    found = resource.get(name)
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _resolved(report: Resource, reference: Resource, others: Mapping[str, Resource]) -> Resource:
    address = str(reference.get("reference", ""))
    if address.startswith("#"):
        contained = {f"#{one.get('id')}": one for one in _list(report, "contained")}
        return contained.get(address, {})
    return others.get(address, {})


def _study(report: Resource, others: Mapping[str, Resource]) -> tuple[str, str, str]:
    """Study UID, accession number and its issuer, of the report or what it refers to."""
    identifiers = _list(report, "identifier")
    for name in ("imagingStudy", "basedOn"):
        for reference in _list(report, name):
            identifiers += _list(_resolved(report, reference, others), "identifier")
            identifiers.append(_part(reference, "identifier"))
    found = ""
    for reference in _list(report, "imagingStudy"):
        study = _resolved(report, reference, others)
        named = [*_list(study, "identifier"), _part(reference, "identifier")]
        found = found or next(filter(None, map(_oid, named)), "")
    return (found, *_accession(identifiers))


def _oid(identifier: Resource) -> str:
    if identifier.get("system") != "urn:dicom:uid":
        return ""
    match = _OID.fullmatch(str(identifier.get("value", "")))
    return match[1] if match else ""


def _accession(identifiers: list[Resource]) -> tuple[str, str]:
    for one in identifiers:
        if _is_of_type(one, "ACSN") and one.get("value"):
            assigner = _part(one, "assigner")
            return str(one["value"]), str(assigner.get("display") or one.get("system") or "")
    return "", ""


def _is_of_type(identifier: Resource, code: str) -> bool:
    return code in [coding.get("code") for coding in _list(_part(identifier, "type"), "coding")]


def _patient(report: Resource, others: Mapping[str, Resource]) -> str:
    """The medical record number of the patient, else the first number, with its issuer."""
    subject = _part(report, "subject")
    found = [_part(subject, "identifier"), *_list(_resolved(report, subject, others), "identifier")]
    found = [one for one in found if one.get("value")]
    for one in sorted(found, key=lambda one: not _is_of_type(one, "MR")):
        return issued(str(one["value"]), str(_part(one, "assigner").get("display") or ""))
    return ""


def _text(report: Resource) -> str:
    """The report's own text: a plain attachment, else its conclusion, else its narrative."""
    for form in _list(report, "presentedForm"):
        kind, _, more = str(form.get("contentType", "")).lower().partition(";")
        kind = kind.strip()
        if kind in ("text/plain", "text/html") and isinstance(form.get("data"), str):
            named = _CHARSET.search(more)
            text = _decoded(form["data"], named[1] if named else "utf-8")
            return text.strip() if kind == "text/plain" else plain_text(text).text.strip()
    if isinstance(report.get("conclusion"), str):
        return str(report["conclusion"]).strip()
    return plain_text(str(_part(report, "text").get("div", ""))).text.strip()


def _decoded(data: str, charset: str) -> str:
    try:
        return base64.b64decode("".join(data.split()), validate=True).decode(charset)
    except LookupError:
        raise ResourceError("its presentedForm names a character set that is not known") from None
    except (binascii.Error, ValueError):
        raise ResourceError(f"its presentedForm is no {charset.upper()} in base64") from None
