from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest
import torch

from cxrtext.errors import CheckpointError
from cxrtext.images import Preprocessing
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.checkpoint import checkpoint_fingerprint
from cxrtext.models.familiar import (
    FREE,
    LOOK,
    Familiar,
    KnownImages,
    KnownWords,
    fit_gaussian,
    know_images,
    know_words,
    load_familiar,
    looks,
    save_familiar,
)
from cxrtext.text.rewording import words_of
from tests.conftest import flip

SMALL = Preprocessing(resize=72, crop=64)


T = TypeVar("T")


def there(found: T | None) -> T:
    assert found is not None
    return found


def kept(folder: Path, model: ImageTextModel) -> tuple[KnownImages, KnownWords]:
    familiar = there(load_familiar(folder, model.fingerprint))
    return there(familiar.images), there(familiar.words)


def _values(count: int, seed: int, width: int = 40) -> np.ndarray:
    rng = np.random.default_rng(seed)
    mixed = np.random.default_rng(9).normal(size=(5, width))
    return rng.normal(size=(count, 5)) @ mixed + 0.1 * rng.normal(size=(count, width)) + 3


def test_the_distance_is_mahalanobis_of_the_covariance_that_it_stands_for() -> None:
    values = _values(200, 0)
    gaussian = fit_gaussian(values)
    kept = len(gaussian.variances)
    assert kept == min(FREE, 200 // 4)
    np.testing.assert_allclose(gaussian.axes @ gaussian.axes.T, np.eye(kept), atol=1e-9)
    covariance = (
        gaussian.rest * np.eye(40)
        + gaussian.axes.T @ np.diag(gaussian.variances - gaussian.rest) @ gaussian.axes
    )
    others = _values(5, 1) + 1
    units = (others - gaussian.mean) / gaussian.scale
    expected = np.sqrt((units @ np.linalg.inv(covariance) * units).sum(axis=1) / 40)
    assert gaussian.distances(others) == pytest.approx(expected, rel=1e-9)
    assert gaussian.distances(values).mean() == pytest.approx(1, abs=0.1)


def test_few_of_the_same_kind_are_flagged_and_all_of_another() -> None:
    known = there(know_images(_values(300, 0), _values(300, 1)))
    assert np.mean([one.flagged for one in known.of(_values(2000, 2))]) < 0.06
    other = np.random.default_rng(3).normal(size=(50, 40)) + 3
    assert all(one.flagged and one.share > 1 for one in known.of(other))


def test_without_held_out_images_training_images_stand_in() -> None:
    """A limit from the very images that were fitted would be too low."""
    train = _values(60, 0)
    crossed = there(know_images(train))
    own = there(know_images(train, train))
    assert crossed.threshold > own.threshold
    assert np.mean([one.flagged for one in crossed.of(_values(500, 1))]) < 0.06
    assert know_images(_values(10, 0)) is None
    assert know_images(_values(0, 0), _values(40, 1)) is not None
    # Images that are all the same have a limit, too.
    known = there(know_images(np.ones((40, 5))))
    (same, other) = known.of(np.array([np.ones(5), np.full(5, 2.0)]))
    assert (same.share, same.flagged) == (0.0, False)
    assert other.flagged


def test_a_look_sees_what_pixels_change() -> None:
    squares = np.random.default_rng(0).integers(0, 256, (3, 1, 72, 72)).astype(np.uint8)
    squares[:, :, :, 36:] //= 4
    found = looks(squares, SMALL)
    assert found.shape == (3, LOOK)
    np.testing.assert_array_equal(looks(torch.from_numpy(squares), SMALL), found)
    np.testing.assert_allclose(looks(squares[1:2], SMALL)[0], found[1], rtol=1e-6)
    border = squares.copy()
    border[:, :, :4] = 0  # outside the crop
    np.testing.assert_array_equal(looks(border, SMALL), found)
    for changed in (squares[..., ::-1], squares[..., ::-1, :].copy() // 2, 255 - squares):
        assert np.abs(looks(changed.copy(), SMALL) - found).max() > 0.05
    large = np.repeat(np.repeat(squares, 4, -1), 4, -2)
    assert looks(large, Preprocessing(resize=288, crop=256)).shape == (3, LOOK)


def test_words_that_few_studies_say_are_unknown() -> None:
    said = [(f"s{i}", "The lungs are clear.") for i in range(3)]
    said += [("s0", "Effusion, effusion and effusion.")] * 5
    known = there(know_words(said))
    assert known.share("LUNGS clear") == 0
    assert known.share("effusion") == 1  # said often, but by one study
    assert [known.knows(word) for word in ("lungs", "effusion", "zz")] == [True, False, False]
    assert known.share("clear effusion lungs effusion") == 0.5
    assert known.share("1234 -") == 1
    assert words_of("No 2nd pneumothorax; T-wave") == ["no", "nd", "pneumothorax", "t", "wave"]
    assert known.of("the lungs are asdf").flagged
    assert not known.of("the lungs are clear, clear lungs and asdf").flagged
    assert know_words(said[:2]) is None


def test_a_side_and_an_article_make_no_sentence_familiar_or_odd() -> None:
    said = [(f"s{i}", "There is a left pleural effusion of the lung.") for i in range(3)]
    known = there(know_words(said))
    assert not known.of("Pleural effusion, right, big.").flagged
    assert known.of("There is a fracture of the left lung.").flagged
    assert not known.of("Left.").flagged
    assert known.of("Right.").flagged


def test_the_limit_of_words_is_that_of_the_held_out_sentences() -> None:
    said = [(f"s{i}", "The lungs are clear.") for i in range(3)]
    odd = [f"the lungs are clear beside word{c} other{c}" for c in "abcdefghij"]
    known = there(know_words(said, odd))
    assert not any(known.of(sentence).flagged for sentence in odd)
    assert known.of("asdf qwerty").flagged
    foreign = there(know_words(said, [f"x{c}" for c in "abcdefghij"]))
    assert foreign.of("asdf qwerty").flagged  # a sentence of unknown words always is


def test_it_comes_back_as_it_was(tmp_path: Path) -> None:
    values = looks(np.random.default_rng(0).integers(0, 256, (60, 1, 72, 72), np.uint8), SMALL)
    familiar = Familiar(know_images(values), know_words((f"s{i}", "Clear.") for i in range(3)))
    path = save_familiar(tmp_path, familiar, "f" * 64)
    back = there(load_familiar(tmp_path, "f" * 64))
    squares = [np.full((1, 72, 72), gray, np.uint8) for gray in (0, 128)]
    assert back.of_squares(squares, SMALL) == familiar.of_squares(squares, SMALL)
    assert back.of_sentence("clear") == familiar.of_sentence("clear")
    before = path.read_bytes()
    assert save_familiar(tmp_path, back, "f" * 64).read_bytes() == before
    save_familiar(tmp_path, Familiar(), "f" * 64)
    assert load_familiar(tmp_path, "f" * 64) == Familiar()
    assert Familiar().of_squares([np.zeros((1, 72, 72), np.uint8)], SMALL) == [None]
    assert Familiar().of_sentence("asdf") is None


def test_what_is_refused(tmp_path: Path) -> None:
    assert load_familiar(tmp_path, "0" * 64) is None
    path = save_familiar(tmp_path, Familiar(know_images(_values(60, 0))), "f" * 64)
    with pytest.raises(CheckpointError, match="made by another model .*; remove it; training"):
        load_familiar(tmp_path, "0" * 64)
    flip(path)
    with pytest.raises(CheckpointError, match="its digest differs"):
        load_familiar(tmp_path, "f" * 64)
    words = KnownWords(np.zeros((2, 2), np.int64), 0.25)
    save_familiar(tmp_path, Familiar(None, words), "f" * 64)
    with pytest.raises(CheckpointError, match="do not fit together"):
        load_familiar(tmp_path, "f" * 64)
    path.write_bytes(b"no such thing")
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_familiar(tmp_path, "f" * 64)


def test_training_keeps_it(checkpoint: Path, run_folder: Path, model: ImageTextModel) -> None:
    best = run_folder / "checkpoint-best"
    kept(best, load_model(best))
    assert checkpoint_fingerprint(checkpoint) == model.fingerprint
    known_images, known_words = kept(checkpoint, model)
    squares = np.stack([np.full((1, 72, 72), gray, np.uint8) for gray in (0, 128, 255)])
    assert all(one.flagged for one in known_images.of(looks(squares, SMALL)))
    assert not known_words.of("left effusion").flagged
    assert known_words.of("asdf qwerty").flagged
