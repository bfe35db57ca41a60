import hashlib
from collections import Counter

import pytest

from cxrtext.index.parts import part_name, part_of


def test_studies_spread_evenly_and_always_the_same() -> None:
    studies = [f"s{i}" for i in range(20_000)]
    counts = Counter(part_of(study, 10) for study in studies)
    assert set(counts) == set(range(10))
    assert max(counts.values()) < 1.1 * min(counts.values())
    # The rule as it is written down for others.
    digest = hashlib.blake2b(b"s17", digest_size=8).digest()
    assert part_of("s17", 10) == int.from_bytes(digest, "big") * 10 >> 64
    assert {part_of(study, 1) for study in studies} == {0}
    assert all(part_of(study, 20) // 2 == part_of(study, 10) for study in studies)


def test_names_of_shards() -> None:
    assert part_name(3, 10) == "part-00003-of-00010"
    with pytest.raises(ValueError, match="at least 1"):
        part_of("s", 0)
