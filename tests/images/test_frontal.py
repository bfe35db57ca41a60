"""Is it a frontal chest?  On drawn pictures of other seeds than those it was trained on."""

import numpy as np
import numpy.typing as npt
import pytest

from cxrtext.images import Preprocessing, read_image
from cxrtext.images.frontal import KINDS, look, prepare
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


def test_size_kind_and_contrast_of_the_array_matter_little(phantoms: list[Gray]) -> None:
    plain = look(phantoms[0])
    assert list(plain.scores) == list(KINDS)
    assert sum(plain.scores.values()) == pytest.approx(1)
    assert plain.score == max(plain.scores.values()) == plain.scores[plain.kind]
    assert plain.frontal
    whole = np.rint(phantoms[0] * 255).astype(np.uint8)
    for other in (
        phantoms[0][np.newaxis],
        whole,
        Preprocessing(96, 80).square(whole[np.newaxis]),
        np.kron(whole, np.ones((4, 4), np.uint8)),
        phantoms[0] * 0.5 + 0.2,
    ):
        assert look(other).frontal


def test_a_blank_picture_is_no_chest() -> None:
    for level in (0.0, 0.5, 1.0):
        assert not look(np.full((200, 150), level, np.float32)).frontal


def test_a_sliver_is_no_chest(phantoms: list[Gray]) -> None:
    seen = look(np.kron(phantoms[0], np.ones((6, 1), np.float32)))
    assert (seen.kind, seen.score) == ("other", 1.0)


@pytest.mark.parametrize("shape", [(3, 8, 8), (0, 5), (8,), (1, 2, 8, 8)])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="a picture is"):
        prepare(np.zeros(shape, np.float32))
