"""The results of a study as a FHIR R4 bundle: report, observations, imaging study, device.

Every report and observation is preliminary: nobody has read it.  No name is in it, and no text of
the hospital's; the patient is an identifier.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from cxrtext.datasets.admission.ids import patient_number
from cxrtext.datasets.importing.reports.fhir import OWN_TAG
from cxrtext.errors import DataError
from cxrtext.images.dicom.described import Described, described
from cxrtext.images.dicom.file import read_wanted
from cxrtext.pacs.identity import MANUFACTURER, WARNING, uid
from cxrtext.pacs.results.building import MODEL_NAME, code_of
from cxrtext.pacs.results.folder import Kept, ResultsFolder

Resource = dict[str, Any]

DCM = "http://dicom.nema.org/resources/ontology/DCM"
SCT, UCUM = "http://snomed.info/sct", "http://unitsofmeasure.org"
CHEST = {"system": SCT, "code": "399208008", "display": "Plain X-ray of chest"}
_OBSERVATIONS = "http://terminology.hl7.org/CodeSystem/observation-category"
_SERVICES = "http://terminology.hl7.org/CodeSystem/v2-0074"
_KINDS_OF_ID = "http://terminology.hl7.org/CodeSystem/v2-0203"
MODALITIES = {"sc": "OT", "sr": "SR", "seg": "SEG", "gsps": "PR"}
_SAID = (
    *("StudyDate", "StudyTime", "AccessionNumber", "PatientID", "IssuerOfPatientID"),
    "IssuerOfAccessionNumberSequence",
)

REQUIRED: Mapping[tuple[str, str], frozenset[str]] = {
    ("Bundle", "type"): frozenset({"collection"}),
    ("DiagnosticReport", "status"): frozenset({"preliminary"}),
    ("Observation", "status"): frozenset({"preliminary"}),
    ("ImagingStudy", "status"): frozenset({"available"}),
    ("Device", "status"): frozenset({"active"}),
}
"""Elements with a required value set, and what of it is written here."""


def bundle_of(folder: ResultsFolder, study: str) -> Resource:
    """The results of a study that were not taken back.

    Args:
        study: Its UID, or its id in the archive.

    Raises:
        DataError: There are none, or a file of them is gone.
    """
    found = {one.result.instance: one.result for one in folder.of_study(study)}
    results = [one for one in found.values() if one.revoked is None]
    if not results:
        raise DataError(f"{folder.path}: has no results of such a study; cxrtext results list")
    if len({one.patient_id for one in results}) > 1:
        raise DataError(
            f"{folder.path}: has results of that study under several patients; take back the "
            "wrong ones (cxrtext results revoke), then write it again"
        )
    said = _header(folder, results[-1])
    entries = _Entries(results[0].study)
    patient = entries.add("Patient", _patient(said), results[0].patient_id)
    images = entries.add("ImagingStudy", _imaging_study(results, said, patient))
    observations = []
    for some in _findings(results):
        device = entries.add("Device", _device(some[0]), some[0].model)
        one = _observation(some[0], patient, images, device)
        of = (some[0].model, some[0].source, some[0].sentence)
        observations.append(entries.add("Observation", one, *of))
    entries.add("DiagnosticReport", _report(results, patient, images, observations))
    made = {"resourceType": "Bundle", "type": "collection", "entry": entries.all}
    check(made)
    return made


class _Entries:
    """The resources of a bundle, each with an address that follows from what it is of."""

    def __init__(self, study: str) -> None:
        self._study = study
        self.all: list[Resource] = []

    def add(self, kind: str, resource: Resource, *of: str) -> Resource:
        """Add a resource, once; gives a reference to it."""
        number = int(uid("fhir", self._study, kind, *of).removeprefix("2.25."))
        address = f"urn:uuid:{UUID(int=number)}"
        if all(one["fullUrl"] != address for one in self.all):
            whole = {"resourceType": kind, "meta": {"tag": [dict(OWN_TAG)]}, **resource}
            self.all.append({"fullUrl": address, "resource": whole})
        return {"reference": address, "type": kind}


def _header(folder: ResultsFolder, kept: Kept) -> Described:
    path = folder.path / kept.file
    if not folder.is_whole(kept):
        raise DataError(f"{path}: is gone or changed; make it again (cxrtext results)")
    return described(read_wanted(path, _SAID), _SAID)


def _findings(results: Sequence[Kept]) -> list[list[Kept]]:
    """The results of each sentence, model and image together."""
    groups: dict[tuple[str, str, str], list[Kept]] = {}
    for one in results:
        groups.setdefault((one.sentence, one.model, one.source), []).append(one)
    return list(groups.values())


def _identifier(value: str, issuer: str, kind: str) -> Resource:
    coding = {"system": _KINDS_OF_ID, "code": kind}
    found: Resource = {"type": {"coding": [coding]}, "value": value}
    return found | ({"assigner": {"display": issuer}} if issuer else {})


def _oid(value: str) -> Resource:
    return {"system": "urn:dicom:uid", "value": f"urn:oid:{value}"}


def _patient(said: Described) -> Resource:
    if not (number := patient_number(said)):
        return {}
    return {"identifier": [_identifier(number, said.first("IssuerOfPatientID"), "MR")]}


def _accession(said: Described) -> list[Resource]:
    number = said.first("AccessionNumber")
    issuer = said.first("IssuerOfAccessionNumberSequence")
    return [_identifier(number, issuer, "ACSN")] if number else []


def _started(said: Described) -> Resource:
    try:
        day = datetime.strptime(said.first("StudyDate"), "%Y%m%d").date()
    except ValueError:
        return {}
    return {"started": day.isoformat()}


def _imaging_study(results: Sequence[Kept], said: Described, patient: Resource) -> Resource:
    series: dict[str, Resource] = {}
    for one in results:
        modality = {"system": DCM, "code": MODALITIES[one.kind]}
        entry = series.setdefault(
            one.series, {"uid": one.series, "modality": modality, "instance": []}
        )
        klass = {"system": "urn:ietf:rfc:3986", "code": f"urn:oid:{one.klass}"}
        entry["instance"].append({"uid": one.instance, "sopClass": klass})
    return {
        "identifier": [_oid(results[0].study), *_accession(said)],
        "status": "available",
        "subject": patient,
        **_started(said),
        "series": list(series.values()),
    }


def _device(kept: Kept) -> Resource:
    return {
        "identifier": [{"system": "urn:cxrtext:model", "value": kept.model}],
        "status": "active",
        "manufacturer": MANUFACTURER,
        "deviceName": [{"name": MODEL_NAME, "type": "model-name"}],
    }


def _observation(kept: Kept, patient: Resource, images: Resource, device: Resource) -> Resource:
    code = code_of(kept.sentence)
    standard = code.scheme_designator == "SCT"
    coding = [{"system": SCT, "code": code.value, "display": code.meaning}] if standard else []
    value: Resource = {
        "dataAbsentReason": {
            "coding": [
                {
                    "system": "http://terminology.hl7.org/CodeSystem/data-absent-reason",
                    "code": "not-applicable",
                }
            ]
        }
    }
    if kept.probability is not None:
        percent = round(100 * kept.probability, 4)
        value = {
            "valueQuantity": {"value": percent, "unit": "%", "system": UCUM, "code": "%"},
            "component": [
                {
                    "code": {"text": "Probability is calibrated"},
                    "valueBoolean": bool(kept.calibrated),
                }
            ],
        }
    return {
        "status": "preliminary",
        "category": [{"coding": [{"system": _OBSERVATIONS, "code": "imaging"}]}],
        "code": {"text": kept.sentence, **({"coding": coding} if coding else {})},
        "subject": patient,
        "issued": kept.made,
        **value,
        "note": [{"text": WARNING}],
        "device": device,
        "derivedFrom": [images],
    }


def _report(
    results: Sequence[Kept], patient: Resource, images: Resource, observations: list[Resource]
) -> Resource:
    said = []
    for first, *_ in _findings(results):
        likely = "no probability"
        if first.probability is not None:
            kind = "calibrated" if first.calibrated else "not calibrated"
            likely = f"probability {100 * first.probability:.0f} % ({kind})"
        said.append(f"{first.sentence} {likely}")
    reports = [_oid(one.instance) for one in results if one.kind == "sr"]
    return {
        **({"identifier": reports} if reports else {}),
        "status": "preliminary",
        "category": [{"coding": [{"system": _SERVICES, "code": "RAD"}]}],
        "code": {"coding": [CHEST]},
        "subject": patient,
        "issued": max(one.made for one in results),
        "result": observations,
        "imagingStudy": [images],
        "conclusion": "\n".join([f"{WARNING}.", *said]),
    }


def check(resource: Resource) -> None:
    """Refuse a bundle whose required values are outside of their sets (DataError).

    Libraries of FHIR take any text for a status.
    """
    several = [resource, *(entry["resource"] for entry in resource.get("entry", []))]
    for one in several:
        for (kind, element), allowed in REQUIRED.items():
            if one["resourceType"] == kind and one.get(element) not in allowed:
                raise DataError(f"FHIR: {kind}.{element} must be one of {', '.join(allowed)}")
