"""Mapped vector files: rows that are fetched together."""

from pathlib import Path

import numpy as np
import pytest

from cxrtext.index.store.vectors import VectorFile, rows_of

ROW = 29_250


@pytest.fixture
def file(tmp_path: Path) -> VectorFile:
    made = VectorFile(tmp_path / "a.vectors", (ROW,), "|i1")
    made.append(0, np.random.default_rng(0).integers(-99, 99, (50, ROW)).astype(np.int8))
    return made


def test_rows_are_what_was_written(file: VectorFile) -> None:
    plain, scattered = file.open(50), file.open(50, scattered=True)
    places = np.array([1, 2, 30, 49])
    assert (rows_of(scattered, places) == plain[places]).all()
    assert rows_of(scattered, places[:0]).shape == (0, ROW)
    assert (rows_of(np.asarray(plain), places) == plain[places]).all()  # no file, no fetching
