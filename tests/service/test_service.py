import functools
import gc
import os
import signal
import subprocess
import sys
import timeit
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from cxrtext.errors import DataError, ImageError, NotFoundError
from cxrtext.evaluation import CHEX5_PROMPTS, Prompts, prompt_embeddings
from cxrtext.images import Geometry, Preprocessing, read_image, to_uint8
from cxrtext.index import ImageHit, build_index, delete
from cxrtext.service import Service, load_service
from cxrtext.service.answers import ground_grid
from cxrtext.service.cache import TextMemory, prompt_vectors
from cxrtext.service.service import threads_for

KINDS = {
    "Effusion": Prompts(("Left pleural effusion.",), ("The lungs are clear.",)),
    "Pneumothorax": Prompts(("Right pneumothorax.",), ("The lungs are clear.",)),
}


@pytest.fixture(scope="module")
def service(checkpoint: Path, index_folder: Path) -> Iterator[Service]:
    loaded = load_service(checkpoint, index_folder)
    yield loaded
    loaded.close()


@torch.no_grad()
def test_a_probability_by_hand_at_another_gamma(service: Service) -> None:
    """The logistic of γ² (s_pos - s_neg), at γ² = 5."""
    model, before = service.model, service.model.log_gamma_sq.clone()
    image = service.embedded("images/s01.png")
    texts = model.embed_sentences(["Left pleural effusion.", "The lungs are clear."])
    present, absent = model.scores(image.regions[None].float(), texts)[:, 0].tolist()
    try:
        model.log_gamma_sq.fill_(np.log(5.0))
        found = service.classify(image, KINDS)[0].probability
    finally:
        model.log_gamma_sq.copy_(before)
    assert found == pytest.approx(1 / (1 + np.exp(-5 * (present - absent))), abs=1e-5)


def hits_of(service: Service, query: str, k: int = 10) -> list[ImageHit]:
    return service.search(service.make_query([query]), k).hits


Started = list[subprocess.Popen[bytes]]


@pytest.fixture
def started(without_kept_readers: None, monkeypatch: pytest.MonkeyPatch) -> Started:
    processes = Started()
    plain = subprocess.Popen.__init__

    def noted(process: subprocess.Popen[bytes], *arguments: Any, **options: Any) -> None:
        processes.append(process)
        plain(process, *arguments, **options)

    monkeypatch.setattr(subprocess.Popen, "__init__", noted)
    return processes


def test_files_are_read_in_processes_that_start_late_and_end_with_the_service(
    checkpoint: Path, data_folder: Path, started: Started
) -> None:
    path = data_folder / "images/s01.png"
    closed, forgotten = load_service(checkpoint), load_service(checkpoint)
    assert not started
    for service in (closed, forgotten):
        assert np.array_equal(service.read_file(path), read_image(path))
        service.embed_file(path)
    assert len(started) == 2
    closed.close()
    closed.close()
    assert started[0].poll() is not None
    del service, forgotten
    gc.collect()
    assert started[1].poll() is not None


def test_a_file_that_hangs_its_reader_costs_one_error(
    checkpoint: Path, data_folder: Path, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = data_folder / "images/s01.png"
    service = load_service(checkpoint)
    service.read_file(path)
    (reader,) = service._readers._running
    monkeypatch.setattr(reader, "_limits", replace(reader._limits, wall_seconds=2.0))
    os.kill(started[0].pid, signal.SIGSTOP)  # as a decoder that hangs
    with pytest.raises(ImageError, match="was not decoded within 2 s"):
        service.embed_file(path)
    assert service.read_file(path).shape == (1, 80, 80)
    service.close()


def test_the_pixels_of_an_indexed_image(checkpoint: Path, data_copy: Path, tmp_path: Path) -> None:
    build_index(data_copy / "manifest.csv", checkpoint, tmp_path / "index")
    service = load_service(checkpoint, tmp_path / "index")
    path = data_copy / "images/s01.png"
    assert np.array_equal(service.shown("images/s01.png"), to_uint8(read_image(path)))
    path.write_bytes(b"no image")
    with pytest.raises(ImageError, match="^the indexed image: is not a PNG"):
        service.shown("images/s01.png")
    path.unlink()
    with pytest.raises(NotFoundError, match="no longer where it was"):
        service.shown("images/s01.png")
    service.close()


def test_an_image_that_was_indexed_anew_since_the_last_look(
    checkpoint: Path, data_copy: Path, tmp_path: Path
) -> None:
    manifest, folder = data_copy / "manifest.csv", tmp_path / "index"
    build_index(manifest, checkpoint, folder)
    service = load_service(checkpoint, folder)
    before = service.embedded("images/s01.png")
    delete(folder, ["s01"])
    build_index(manifest, checkpoint, folder)  # it has another number now
    # Alone instead of among 48, its numbers may have other last bits.
    torch.testing.assert_close(
        service.embedded("images/s01.png").regions, before.regions, atol=2e-3, rtol=0
    )
    service.close()


def test_probabilities_tell_the_findings_apart_by_default_those_of_chex5(service: Service) -> None:
    one, other = (
        {f.finding: f.score for f in service.classify(service.embedded(image), KINDS)}
        for image in ("images/s01.png", "images/s02.png")
    )
    assert one["Effusion"] > other["Effusion"]
    assert other["Pneumothorax"] > one["Pneumothorax"]
    chex5 = [f.finding for f in service.classify(service.embedded("images/s00.png"))]
    assert chex5 == ["Cardiomegaly", "Edema", "Pleural Effusion", "Pneumonia", "Pneumothorax"]


def test_grounding_has_a_map_a_peak_and_boxes(service: Service, data_folder: Path) -> None:
    image = read_image(data_folder / "images/s01.png")
    found = service.ground(service.embed(image), "Left pleural effusion.")
    assert found.grid.shape == (4, 4)
    full = found.map_over()
    assert full.shape == (80, 80)
    assert np.isnan(full[0, 0])  # outside the crop that the model saw
    # bilinear between region centres: never above the best region, and near it somewhere
    assert found.grid.max() - 0.02 < np.nanmax(full) <= found.grid.max()
    assert 0 <= found.peak[0] <= 80
    assert found.boxes[0].score == pytest.approx(float(found.grid.max()))


def test_what_is_not_there(service: Service, checkpoint: Path) -> None:
    with pytest.raises(DataError, match="no column 'weight'"):
        service.search(service.make_query(["Edema."]), where="weight > 3")
    with pytest.raises(NotFoundError, match="no image of that id"):
        service.embedded("../../etc/passwd")
    with pytest.raises(NotFoundError, match="no index is loaded"):
        hits_of(load_service(checkpoint), "Effusion.")
    with pytest.raises(DataError, match="a checkpoint, an index, or both"):
        load_service()


def test_several_threads_get_the_answers_of_one(service: Service) -> None:
    queries = [f"Left pleural effusion {i}." for i in range(8)]
    expected = [[h.score for h in hits_of(service, q, 5)] for q in queries]
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda query: [h.score for h in hits_of(service, query, 5)], queries)
        assert list(found) == expected


def test_sentences_are_embedded_once_and_the_oldest_are_forgotten(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    embed = service.model.embed_sentences
    monkeypatch.setattr(service.model, "embed_sentences", noted := Mock(wraps=embed))
    memory = TextMemory(service.model, size=2)
    first = memory.embed(["A.", "B.", "A."])
    assert torch.equal(first[0], first[2])
    assert torch.allclose(first[1], embed(["B."])[0], atol=1e-6)
    memory.embed(["A."])  # B. is now the oldest
    memory.embed(["C."])
    assert [list(call.args[0]) for call in noted.call_args_list] == [["A.", "B."], ["C."]]
    assert len(memory) == 2
    assert memory.missing(["A.", "B.", "C."]) == ["B."]


def test_phrases_that_are_known_give_the_prompts_of_evaluation(service: Service) -> None:
    vectors = prompt_vectors(TextMemory(service.model), CHEX5_PROMPTS)
    expected = prompt_embeddings(service.model, CHEX5_PROMPTS)
    assert torch.allclose(vectors, expected, atol=1e-5)


def test_regions_that_touch_by_an_edge_are_one_box() -> None:
    grid = np.array([[1, 1, 0, 0], [0, 0.9, 0, 0], [0, 0, 0.8, 0], [0, 0, 0, 0]], dtype=np.float32)
    found = ground_grid(grid, 0.5, Geometry(64, 64, Preprocessing(resize=64, crop=64)))
    assert [box.bbox for box in found.boxes] == [(0, 0, 32, 32), (32, 32, 16, 16)]
    assert [box.score for box in found.boxes] == pytest.approx([1.0, 0.8])


def test_a_box_in_original_pixels_by_hand() -> None:
    # 200 x 100 (w x h), shorter side to 64, crop 32: one original pixel is 0.64 resized pixels.
    geometry = Geometry(100, 200, Preprocessing(resize=64, crop=32))
    grid = np.zeros((2, 2), dtype=np.float32)
    grid[1, 0] = 1.0
    found = ground_grid(grid, 0.5, geometry)
    left, top = (64 * 2 - 64) / 2 + 16, 16 + 16  # of the lower left cell, in resized pixels
    assert found.boxes[0].bbox == pytest.approx((left / 0.64, top / 0.64, 16 / 0.64, 16 / 0.64))
    assert found.peak == pytest.approx(((left + 8) / 0.64, (top + 8) / 0.64))
    assert found.threshold == pytest.approx((0.25 + 1.0) / 2)


@pytest.fixture
def two_threads(one_thread: None) -> Iterator[None]:
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


@pytest.mark.parametrize(("quicker", "threads"), [(1.0, 1), (1.1, 1), (1.9, 2), (0.5, 1)])
def test_several_threads_only_where_they_are_worth_it(
    two_threads: None, quicker: float, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0

    def work() -> None:
        nonlocal now
        now += 0.02 / (quicker if torch.get_num_threads() == 2 else 1)

    clock = SimpleNamespace(repeat=functools.partial(timeit.repeat, timer=lambda: now))
    monkeypatch.setattr(sys.modules[Service.__module__], "timeit", clock)
    assert threads_for(work) == threads
    assert torch.get_num_threads() == 2, "it only says so"
