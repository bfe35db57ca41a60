"""What all results share: identity, time, codes, and errors in one line."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import cxrtext
from cxrtext.errors import ImageError
from cxrtext.images.source import quiet, shown
from cxrtext.pacs.identity import MANUFACTURER, NUMBERS, series_description, uid
from cxrtext.pacs.results.image import SourceImage, repeat
from cxrtext.text.wording import mentions, wording

if TYPE_CHECKING:
    from highdicom.sr import CodedConcept
    from pydicom.dataset import Dataset

    from cxrtext.pacs.results.finding import Finding

FORMAT = "3"  # version of the results' form; a new one gives new UIDs
SCHEME = "99CXRTEXT"  # our private coding scheme, for sentences and whatever has no standard code
MODEL_NAME = "cxrtext image-text model"

FINDINGS = {
    "cardiomegaly": ("8186001", "Cardiomegaly"),
    "pulmonary edema": ("19242006", "Pulmonary edema"),
    "pleural effusion": ("60046008", "Pleural effusion"),
    "pneumonia": ("233604007", "Pneumonia"),
    "pneumothorax": ("36118008", "Pneumothorax"),
    "atelectasis": ("46621007", "Atelectasis"),
    "consolidation": ("95436008", "Lung consolidation"),
    "emphysema": ("87433001", "Pulmonary emphysema"),
    "hiatal hernia": ("84089009", "Hiatal hernia"),
    "rib fracture": ("33737001", "Fracture of rib"),
}
"""SNOMED CT codes of findings, by the words for them in a sentence."""


def result_uid(source: SourceImage, model: str, sentence: str, kind: str) -> str:
    return uid(FORMAT, source.fingerprint, model, kind, sentence)


@dataclass(frozen=True, slots=True)
class Result:
    """A result being built: its image, what was found there, and when."""

    source: SourceImage
    finding: "Finding"
    made: datetime

    def uid(self, kind: str) -> str:
        return result_uid(self.source, self.finding.model, self.finding.sentence, kind)

    def given(self, kind: str) -> dict[str, Any]:
        """Arguments for highdicom's objects; a series belongs to an image, a model and a kind."""
        number = int(self.uid(kind).removeprefix("2.25."))
        # OHIF shows only the last report of a series, so each report gets its own.
        own = ("series", self.finding.sentence) if kind == "sr" else ()
        series = uid(FORMAT, self.source.fingerprint, self.finding.model, kind, *own)
        return {
            "series_instance_uid": series,
            "series_number": NUMBERS[kind],
            "sop_instance_uid": self.uid(kind),
            "instance_number": 1 + number % 99_999,
            "manufacturer": MANUFACTURER,
        }

    def finish(self, kind: str, built: "Dataset") -> "Dataset":
        """Add patient, study, series and time to an object."""
        repeat(self.source, built)
        built.ContributingEquipmentSequence = [_algorithm(self.finding.model)]
        return series_attributes(kind, built, self.finding.model, self.made)


def device_uid(model: str) -> str:
    return uid("device", model)


def _algorithm(model: str) -> "Dataset":
    """The maker of a result, named as in its report (IHE RAD TF-3 6.5.3.1, AI Results)."""
    from highdicom import ContributingEquipment
    from pydicom.sr.codedict import codes

    made_by = ContributingEquipment(
        MANUFACTURER,
        codes.DCM.ProcessingEquipment,
        manufacturer_model_name=MODEL_NAME,
        software_versions=cxrtext.__version__,
    )
    made_by.DeviceUID = device_uid(model)
    return made_by


def series_attributes(kind: str, built: "Dataset", model: str, made: datetime) -> "Dataset":
    """Write into an object what its series is, what made it, and when."""
    built.SeriesDescription = series_description(kind)
    built.ManufacturerModelName = MODEL_NAME
    built.SoftwareVersions = cxrtext.__version__
    built.DeviceSerialNumber = model[:16]
    day, time = made.strftime("%Y%m%d"), made.strftime("%H%M%S")
    built.InstanceCreationDate, built.InstanceCreationTime = day, time
    built.SeriesDate, built.SeriesTime = day, time
    if "ContentDate" in built:
        built.ContentDate, built.ContentTime = day, time
    return built


@contextmanager
def silent() -> Iterator[None]:
    """Drop the warnings and log lines of libraries, as they quote names."""
    logging.getLogger("highdicom").setLevel(logging.CRITICAL)  # its loggers inherit the level
    with quiet():
        yield


@contextmanager
def building(source: SourceImage, what: str) -> Iterator[None]:
    """Turn any error in building an object into one line that quotes nothing."""
    try:
        with silent():
            yield
    except ImageError:
        raise
    except Exception as error:  # noqa: BLE001 - a header that breaks the standard
        raise ImageError(
            f"{shown(source.path)}: its header gives no {what} ({type(error).__name__}); "
            "export the file again"
        ) from None


def code_of(sentence: str) -> "CodedConcept":
    """The standard code of the finding that a sentence affirms, else a code of our own."""
    from highdicom.sr import CodedConcept

    words = " ".join(sentence.casefold().replace("effusions", "effusion").split())
    named = [code for name, code in FINDINGS.items() if name in words]
    if len(named) == 1 and wording(sentence) == "affirmed" and not mentions(sentence)[1]:
        return CodedConcept(named[0][0], "SCT", named[0][1])
    return CodedConcept(uid("sentence", sentence)[-16:], SCHEME, short_line(sentence))


def one_line(text: str, longest: int) -> str:
    """A text without control characters or backslashes, cut to a length."""
    plain = " ".join("".join(c if c.isprintable() and c != "\\" else " " for c in text).split())
    return plain if len(plain) <= longest else f"{plain[: longest - 1]}…"


def short_line(text: str) -> str:
    """A text for an element of 64 characters, cut to 64 bytes, as some readers count UTF-8."""
    return one_line(text, 64).encode()[:64].decode(errors="ignore")


def name_scheme(built: "Dataset") -> None:
    from pydicom.dataset import Dataset

    scheme = Dataset()
    scheme.CodingSchemeDesignator = SCHEME
    scheme.CodingSchemeName = "cxrtext sentences and properties"
    scheme.CodingSchemeResponsibleOrganization = MANUFACTURER
    built.CodingSchemeIdentificationSequence = [scheme]
