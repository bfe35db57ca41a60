"""Mapped vector files: rows that are fetched together."""

import mmap
from itertools import pairwise
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest

from cxrtext.index.store import vectors
from cxrtext.index.store.vectors import VectorFile, fetch, rows_of

ROW = 29_250
PAGE = mmap.PAGESIZE


@pytest.fixture
def file(tmp_path: Path) -> VectorFile:
    made = VectorFile(tmp_path / "a.vectors", (ROW,), "|i1")
    made.append(0, np.random.default_rng(0).integers(-99, 99, (50, ROW)).astype(np.int8))
    return made


@pytest.mark.parametrize(
    "places", [[0], [49], [3, 4, 5], [0, 7, 8, 20, 49], list(range(50)), [0, 2, 4]]
)
def test_just_the_pages_of_the_rows_are_asked_for(
    file: VectorFile, places: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = file.open(50, scattered=True)
    told = MagicMock()
    told.__len__.return_value = rows.nbytes
    monkeypatch.setattr(vectors, "_map_of", lambda _: told)
    fetch(rows, np.array(places))
    advices, firsts, lengths = zip(
        *(call.args for call in told.madvise.call_args_list), strict=True
    )
    assert set(advices) == {mmap.MADV_WILLNEED}
    ranges = [(first, first + length) for first, length in zip(firsts, lengths, strict=True)]
    wanted = {
        page
        for place in places
        for page in range(place * ROW // PAGE, ((place + 1) * ROW - 1) // PAGE + 1)
    }
    asked = [page for a, b in ranges for page in range(a // PAGE, -(-b // PAGE))]
    assert sorted(asked) == sorted(wanted), "each page once, and no other"
    assert all(a % PAGE == 0 and b <= rows.nbytes for a, b in ranges)
    runs = 1 + sum(b - a > 1 for a, b in pairwise(places))
    assert len(ranges) == runs, "rows that lie together are asked for at once"


def test_rows_are_what_was_written(file: VectorFile) -> None:
    plain, scattered = file.open(50), file.open(50, scattered=True)
    places = np.array([1, 2, 30, 49])
    assert (rows_of(scattered, places) == plain[places]).all()
    assert rows_of(scattered, places[:0]).shape == (0, ROW)
    assert (rows_of(np.asarray(plain), places) == plain[places]).all()  # no file, no fetching
