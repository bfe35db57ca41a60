"""Images and sentences that are unlike those of the training, and heatmaps of nothing."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cxrtext.index import open_index
from cxrtext.index.store.catalogue import UNLIKE
from cxrtext.models import ImageTextModel
from cxrtext.service import Service
from cxrtext.service.tables import csv_table
from cxrtext.service.verify.reference import COLD, HOT, LEAST_SPAN
from tests.service.conftest import calibration_of


@pytest.fixture(scope="module")
def service(model: ImageTextModel, index_folder: Path) -> Service:
    return Service(model, open_index(index_folder, model))


BLANK = np.full((1, 80, 80), 0.5, dtype=np.float32)


def test_an_unlike_image_is_not_calibrated(
    service: Service, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = calibration_of(service.model.fingerprint, service.prompts, scale=3.0, shift=0.5)
    monkeypatch.setattr(service, "calibration", kept)
    own = service.embed_file(data_folder / "images/s00.png")
    assert not own.is_unlike
    assert all(one.calibrated for one in service.classify(own))
    blank = service.embed(BLANK)
    assert blank.is_unlike
    found = service.classify(blank)
    assert not any(one.calibrated for one in found)
    plain = 1 / (1 + np.exp(-found[0].score))
    assert found[0].probability == pytest.approx(plain, abs=1e-6)
    unknown = replace(blank, unlike=None)
    assert all(one.calibrated for one in service.classify(unknown))


def test_the_index_knows_it_of_its_images(service: Service, data_folder: Path) -> None:
    """An indexed image is as unlike as the same file uploaded, without being read again."""
    for image in ("images/s00.png", "images/s05.png"):
        kept, fresh = service.embedded(image), service.embed_file(data_folder / image)
        assert kept.unlike is not None
        assert fresh.unlike is not None
        assert kept.unlike.distance == pytest.approx(fresh.unlike.distance, rel=1e-5)
        assert kept.unlike.threshold == fresh.unlike.threshold
        (hit,) = service.search(service.make_query(image=kept), 1).hits
        assert hit.image.image == image
        assert hit.unlike == pytest.approx(kept.unlike.share, rel=1e-6)
    assert UNLIKE in [column.name for column in service.archive.columns()]
    found = service.search(service.make_query(["Left pleural effusion."]), where=f"{UNLIKE} > 1")
    assert found.searched < 48
    assert csv_table([hit]).splitlines()[0].endswith(UNLIKE)


def test_the_scale_of_a_heatmap_is_that_of_the_reference(service: Service) -> None:
    """From the 75th to the 99th percentile of the reference images' best regions."""
    sentence = "Left pleural effusion."
    image = service.embedded("images/s01.png")
    found = service.ground(image, sentence)
    assert found.scale is not None
    reference = service.reference()
    assert reference is not None
    text = service.embed_sentences([sentence])[0]
    regions = reference.reference.regions(0, len(reference.reference))
    peaks = torch.einsum("bnd,d->bn", regions, text).amax(dim=1).numpy()
    cold, hot = np.percentile(peaks, (COLD, HOT))
    assert found.scale == pytest.approx((cold, min(max(hot, cold + LEAST_SPAN), 1)), abs=1e-5)
    assert found.limits == found.scale
    assert found.stands_out == bool(found.grid.max() > cold)
    other = service.ground(service.embedded("images/s00.png"), sentence)
    assert other.scale == found.scale  # whatever the image


def test_in_most_reference_images_nothing_stands_out(service: Service) -> None:
    """In the validation images, which are the reference, in one of four by definition."""
    own = [f"images/s{i:02d}.png" for i in range(48) if i % 12 in (5, 6)]
    shown = [service.ground(service.embedded(i), "Left pleural effusion.") for i in own]
    assert len(own) == 8
    assert sum(bool(found.stands_out) for found in shown) in (1, 2, 3)


def test_without_a_reference_the_image_is_its_own_scale(
    model: ImageTextModel, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = Service(model)
    monkeypatch.setattr(alone._references, "now", lambda: None)
    found = alone.ground(alone.embed_file(data_folder / "images/s01.png"), "Left effusion.")
    assert found.scale is None
    assert found.stands_out is None
    assert found.limits == (float(found.grid.mean()), float(found.grid.max()))
    alone.close()
