"""Is it a frontal chest?  On drawn pictures of other seeds than those it was trained on."""

from collections.abc import Callable
from pathlib import Path
from runpy import run_path
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import pytest

from cxrtext.images import Preprocessing, read_image
from cxrtext.images.frontal import KINDS, look, prepare
from cxrtext.phantom import write_phantoms

Gray = npt.NDArray[np.float32]


SCRIPT = Path(__file__).parents[2] / "benchmarks/images/foreign.py"
FOREIGN = SimpleNamespace(**run_path(str(SCRIPT)))
KINDS_DRAWN = [*FOREIGN.LATERALS, *FOREIGN.FOREIGN]


@pytest.fixture(scope="module")
def phantoms(tmp_path_factory: pytest.TempPathFactory) -> list[Gray]:
    folder = tmp_path_factory.mktemp("phantoms") / "set"
    write_phantoms(folder, studies=24, size=128, seed=41_000, workers=1)
    return [read_image(path)[0] for path in sorted((folder / "images").iterdir())]


def share(pictures: list[Gray], kind: str) -> float:
    return sum(look(picture).kind == kind for picture in pictures) / len(pictures)


CHANGES: dict[str, Callable[[Gray], Gray]] = {
    "frontal": lambda x: x, "inverted": lambda x: 1 - x, "turned": lambda x: np.rot90(x).copy(),
    "mirrored": lambda x: x[:, ::-1].copy(),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "least"), [("frontal", 0.95), ("inverted", 0.8), ("turned", 0.9), ("mirrored", 0.6)]
)
def test_phantoms_are_told_from_what_was_done_to_them(
    phantoms: list[Gray], kind: str, least: float
) -> None:
    assert share([CHANGES[kind](picture) for picture in phantoms], kind) >= least


def drawn(kind: str) -> list[Gray]:
    return [FOREIGN.draw_foreign(kind, np.random.default_rng([9, n]), 128) for n in range(10)]


@pytest.mark.parametrize("kind", KINDS_DRAWN)
def test_foreign_pictures_are_no_frontals(kind: str) -> None:
    assert share(drawn(kind), "frontal") <= 0.1


def test_drawn_laterals_are_laterals() -> None:
    assert share(drawn("lateral"), "lateral") >= 0.8


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


@pytest.mark.parametrize("shape", [(3, 8, 8), (0, 5), (8,), (1, 2, 8, 8)])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="a picture is"):
        prepare(np.zeros(shape, np.float32))
