"""Which part of an index a study is in: its images, sentences and patients stay together."""

import hashlib


def part_of(study_id: str, parts: int) -> int:
    """The part of a study, from 0 to ``parts`` - 1; the same on every machine.

    Studies spread evenly, and with twice the parts each part becomes two.
    """
    if parts < 1:
        raise ValueError(f"parts must be at least 1, got {parts}")
    digest = hashlib.blake2b(study_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") * parts >> 64


def part_name(number: int, parts: int) -> str:
    """The folder of a part below that of the whole index, such as ``part-00003-of-00010``."""
    return f"part-{number:05d}-of-{parts:05d}"
