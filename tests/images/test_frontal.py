"""Is it a frontal chest?  On drawn pictures of other seeds than those it was trained on."""

import numpy as np
import numpy.typing as npt
import pytest

from cxrtext.images import read_image
from cxrtext.images.frontal import look
from cxrtext.phantom import write_phantoms

Gray = npt.NDArray[np.float32]


ROWS, COLUMNS = np.mgrid[-1:1:128j, -1:1:128j]
FOREIGN = {
    "noise": np.random.default_rng(9).random((128, 128)),
    "ramp": (ROWS + 1) / 2,
    "disc": np.hypot(ROWS, COLUMNS) < 0.6,
    "stripes": np.sin(20 * COLUMNS) > 0,
    "page of text": (np.random.default_rng(9).random((128, 128)) > 0.4) | (ROWS * 32 % 4 < 2),
}


@pytest.fixture(scope="module")
def phantoms(tmp_path_factory: pytest.TempPathFactory) -> list[Gray]:
    folder = tmp_path_factory.mktemp("phantoms") / "set"
    write_phantoms(folder, studies=24, size=128, seed=41_000, workers=1)
    return [read_image(path)[0] for path in sorted((folder / "images").iterdir())]


def share(pictures: list[Gray], kind: str) -> float:
    return sum(look(picture).kind == kind for picture in pictures) / len(pictures)


def test_phantoms_are_told_from_what_was_done_to_them(phantoms: list[Gray]) -> None:
    assert share(phantoms, "frontal") >= 0.95
    assert share([1 - one for one in phantoms], "inverted") >= 0.8
    assert share([np.rot90(one).copy() for one in phantoms], "turned") >= 0.9
    assert share([one[:, ::-1].copy() for one in phantoms], "mirrored") >= 0.6


@pytest.mark.parametrize("what", FOREIGN)
def test_a_picture_of_something_else_is_no_frontal(what: str) -> None:
    assert not look(FOREIGN[what].astype(np.float32)).frontal
