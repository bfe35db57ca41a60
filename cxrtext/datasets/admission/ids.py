"""The ids of an object with their issuers, as they are or replaced by keyed hashes."""

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cxrtext.errors import ConfigError
from cxrtext.images.dicom.described import Described

IDS = (
    *("SOPInstanceUID", "StudyInstanceUID", "PatientID", "IssuerOfPatientID"),
    *("IssuerOfPatientIDQualifiersSequence", "AccessionNumber", "IssuerOfAccessionNumberSequence"),
)
"""The elements that name an object, its study and its patient."""

NO_UID = "its SOPInstanceUID is missing or not a UID"
_UID = re.compile(r"[0-9]+(\.[0-9]+)+")

AGE_TOP = 89  # years; with hashed ids, the age of older patients is written as one year more
KEY_BYTES = 16  # shortest key: one with fewer bytes could be found by trying all
KEY_LIMIT = 65_536
DIGITS = 24  # hexadecimal digits of a hashed id: 96 bits, so that no two ids share one by chance


def is_uid(text: str) -> bool:
    """Whether a text is a UID, and so is safe as an image's name, in a URL and in a query."""
    return len(text) <= 64 and _UID.fullmatch(text) is not None


def digest(text: str) -> int:
    """Eight bytes, as a number, that stand for a text in memory."""
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest())


def read_key(path: Path) -> bytes:
    try:
        with path.open("rb") as handle:
            key = handle.read(KEY_LIMIT + 1).strip()
    except OSError as error:
        raise ConfigError(f"{path}: the key file cannot be read ({error.strerror})") from None
    if not KEY_BYTES <= len(key) <= KEY_LIMIT or len(set(key)) < KEY_BYTES // 2:
        raise ConfigError(
            f"{path}: a key is {KEY_BYTES} to {KEY_LIMIT} bytes drawn at random; make one with: "
            "head -c 32 /dev/urandom | base64 > KEYFILE"
        )
    return key


class Ids:
    """Gives ids as they are or, with a key, their HMAC-SHA256 hashes."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key

    @property
    def hashed(self) -> bool:
        return self._key is not None

    @property
    def fingerprint(self) -> str:
        """Tells one key from another without giving it away; "" without a key."""
        return self.of("key", "fingerprint") if self._key else ""

    def of(self, kind: str, value: str) -> str:
        """The id to write; equal values of two kinds (such as "study", "file") get other hashes."""
        if self._key is None or not value:
            return value
        message = f"{kind}\0{value}".encode("utf-8", "surrogatepass")
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()[:DIGITS]

    def of_metadata(self, values: Mapping[str, str]) -> dict[str, str]:
        """Metadata of a header; with hashed ids, numbers are hashed and ages above 89 become 90."""
        metadata = dict(values)
        if self.hashed:
            for name in metadata.keys() & {"accession", "subject_id"}:
                metadata[name] = self.of("accession", metadata[name])
            if metadata.get("age", "").isdigit() and int(metadata["age"]) > AGE_TOP:
                metadata["age"] = str(AGE_TOP + 1)
        return metadata

    def of_object(self, own: "ObjectIds") -> "ObjectIds":
        """The ids of an object as they are written; a hashed patient has no issuer."""
        if not self.hashed:
            return own
        return ObjectIds(
            self.of("instance", own.instance),
            self.of("study", own.study),
            self.of("patient", own.patient),
            "",
            self.of("accession", own.accession.casefold()),
            self.of("issuer", own.accession_issuer.casefold()),
        )


@dataclass(frozen=True, slots=True)
class ObjectIds:
    """What a header calls an object, its study and its patient; "" if it does not say."""

    instance: str
    study: str  # the study's UID, or else its accession number
    patient: str  # with its issuer
    issuer: str
    accession: str
    accession_issuer: str


def object_ids(said: Described, issuer: str = "") -> ObjectIds:
    """The ids of an object, read for `IDS`; ``issuer`` is for patients without one."""
    accession = said.first("AccessionNumber")
    named = said.first("IssuerOfPatientID") or said.first("IssuerOfPatientIDQualifiersSequence")
    return ObjectIds(
        said.first("SOPInstanceUID"),
        said.first("StudyInstanceUID") or accession,
        # Some systems use a backslash, which divides values, in their numbers.
        issued("\\".join(filter(None, said.all("PatientID"))), named or issuer),
        (named or issuer).replace(":", "%3A"),
        accession,
        said.first("IssuerOfAccessionNumberSequence"),
    )


def issued(value: str, issuer: str) -> str:
    """An id with its issuer, as "HOSPITAL:000123": two issuers may use one number for two patients.

    The id itself stays as it is, with leading zeros; a colon in the issuer is written %3A.
    """
    return f"{issuer.replace(':', '%3A')}:{value}" if value and issuer else value
