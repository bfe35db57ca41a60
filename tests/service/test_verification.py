import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from cxrtext.errors import CheckpointError
from cxrtext.models.familiar import Unlike
from cxrtext.models.reference import REFERENCE, load_reference, save_reference
from cxrtext.pausing import finish
from cxrtext.service import EmbeddedImage, Service, load_service
from cxrtext.service.limits import UNLIKE_IMAGE
from cxrtext.service.verify.page import verification_page
from cxrtext.service.verify.reference import ReferenceScores, index_reference, percentile
from cxrtext.service.verify.verify import ReferenceUsed
from cxrtext.verdicts.judge import UNLIKE

REPORT = "FINDINGS: Left pleural effusion. No right pneumothorax.\n\nIMPRESSION: Left effusion."


@pytest.fixture(scope="module")
def service(checkpoint: Path) -> Iterator[Service]:
    loaded = load_service(checkpoint)
    yield loaded
    loaded.close()


@pytest.fixture(scope="module")
def effusion(service: Service, data_folder: Path) -> EmbeddedImage:
    return service.embed_file(data_folder / "images/s01.png")


@pytest.fixture
def bare(checkpoint: Path, tmp_path: Path) -> Path:
    shutil.copytree(checkpoint, tmp_path / "bare")
    (tmp_path / "bare" / REFERENCE).unlink()
    return tmp_path / "bare"


def test_a_percentile_by_hand() -> None:
    others = np.array([0.1, 0.2, 0.2, 0.4], dtype=np.float32)
    assert percentile(0.3, others) == 75
    assert percentile(0.2, others) == 50  # one below, two equal
    assert percentile(0.0, others) == 0
    assert percentile(0.5, others) == 100


def test_support_is_the_percentile_of_the_models_scores(
    service: Service, effusion: EmbeddedImage, checkpoint: Path
) -> None:
    reference = load_reference(checkpoint, service.model)
    assert reference is not None
    (one,) = service.verify(effusion, "Left pleural effusion.").sentences
    texts = service.model.embed_sentences(["Left pleural effusion."])
    with torch.inference_mode():
        others = service.model.scores(reference.regions(0, 8), texts)[0].numpy()
    below = 100 * float(np.mean(others < one.score))
    assert one.support == pytest.approx(below, abs=100 / 8)


def test_what_an_image_shows_is_better_supported(service: Service, data_folder: Path) -> None:
    sentence = "Left pleural effusion."
    shown, not_shown = (
        service.verify(service.embed_file(data_folder / f"images/{name}.png"), sentence)
        for name in ("s01", "s00")
    )
    assert (shown.sentences[0].support or 0.0) > (not_shown.sentences[0].support or 0.0)


def test_reference_scores_are_remembered(service: Service) -> None:
    known = service.reference()
    assert known is not None
    assert service.reference() is known
    small = ReferenceScores(service.model, known.reference, size=2)
    texts = service.model.embed_sentences(["a", "b", "c"])
    first = [one.scores for one in finish(small.of(["a", "b", "c"], texts))]
    again = [one.scores for one in finish(small.of(["c", "a", "c"], texts[[2, 0, 2]]))]
    np.testing.assert_allclose(again, [first[2], first[0], first[2]], atol=1e-6)
    assert all((np.diff(scores) >= 0).all() for scores in first)


def test_without_a_reference_there_is_no_support(bare: Path, effusion: EmbeddedImage) -> None:
    service = load_service(bare)
    found = service.verify(effusion, REPORT)
    assert found.reference == ReferenceUsed("none", 0)
    assert {(one.support, one.verdict) for one in found.sentences} == {(None, "not judged")}
    service.close()


def test_an_index_stands_in_for_a_reference(
    bare: Path, index_folder: Path, effusion: EmbeddedImage
) -> None:
    service = load_service(bare, index_folder)
    found = service.verify(effusion, REPORT)
    assert found.reference == ReferenceUsed("index", 48)
    assert found.sentences[0].support is not None
    assert found.sentences[0].support > 50
    assert service.reference() is service.reference()
    service.close()


def test_images_that_come_and_go_displace_few_others(index_folder: Path, checkpoint: Path) -> None:
    service = load_service(checkpoint, index_folder)
    state = service.archive.snapshot
    before = index_reference(state, 10)
    assert before is not None
    gone = np.array([n if n != state.numbers[0] else -1 for n in state.numbers])
    after = index_reference(replace(state, numbers=gone), 10)
    assert after is not None
    rows = {row.tobytes() for row in before.rows}
    assert len(rows & {row.tobytes() for row in after.rows}) >= 9
    every = index_reference(state, 1000)
    assert every is not None
    assert len(every) == 48
    assert index_reference(replace(state, numbers=np.full_like(state.numbers, -1)), 10) is None
    service.close()


def test_another_models_reference_is_refused(
    checkpoint: Path, bare: Path, service: Service, effusion: EmbeddedImage
) -> None:
    reference = load_reference(checkpoint, service.model)
    assert reference is not None
    save_reference(bare, reference, "0" * 64)
    other = load_service(bare)
    with pytest.raises(CheckpointError, match="made by another model"):
        other.verify(effusion, REPORT)
    other.close()


def test_the_page_shows_the_report_and_runs_nothing(
    service: Service, effusion: EmbeddedImage, data_folder: Path
) -> None:
    report = "FINDINGS: <script>alert(1)</script> effusion. No edema.\n"
    found = service.verify(effusion, report)
    pixels = service.read_file(data_folder / "images/s01.png")
    page = verification_page(found, report, pixels)
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert page.count("<mark ") == len(found.sentences)
    assert "not a medical device" in page
    assert "unlike those" not in page
    assert f"This image {UNLIKE_IMAGE}." in verification_page(found, report, pixels, unlike=True)


@pytest.fixture(scope="module")
def judging(judged_checkpoint: Path) -> Iterator[Service]:
    loaded = load_service(judged_checkpoint)
    yield loaded
    loaded.close()


def test_calibrated_verdicts(judging: Service, data_folder: Path) -> None:
    counts: Counter[tuple[bool, str, str]] = Counter()
    for number in range(48):
        image = judging.embed_file(data_folder / f"images/s{number:02d}.png")
        for one in judging.verify(image, "Pleural effusion. The lungs are clear.").sentences:
            counts[number % 3 == 1, one.sentence.split()[0], one.verdict] += 1
    assert counts[True, "Pleural", "supported"] >= 8
    assert counts[True, "Pleural", "unsupported"] <= 2
    assert counts[False, "Pleural", "supported"] <= 3
    assert counts[False, "Pleural", "unsupported"] >= 8
    assert counts[True, "The", "supported"] <= 2


def test_what_a_verdict_rests_on_and_why_there_is_none(judging: Service, data_folder: Path) -> None:
    image = judging.embed_file(data_folder / "images/s01.png")
    report = "Pleural effusion. Left effusion. Possible pneumothorax. Scoliosis."
    effusion, left, possible, scoliosis = judging.verify(image, report).sentences
    basis = effusion.judgment.basis
    assert basis is not None
    assert (basis.finding, basis.test) == ("pleural effusion", "presence")
    # No other side was ever seen.
    assert left.judgment.reason == "the side of pleural effusion: no sentences to tell it by"
    assert (possible.verdict, scoliosis.verdict) == ("not judged", "not judged")
    assert "wording" in (possible.judgment.reason or "")
    assert "names no finding" in (scoliosis.judgment.reason or "")
    pixels = judging.read_file(data_folder / "images/s01.png")
    page = verification_page(judging.verify(image, report), report, pixels)
    assert "its wording is uncertain" in page
    assert f"AUC {basis.auc:.2f}" in page


def test_nothing_is_judged_of_an_image_that_is_unlike(judging: Service, data_folder: Path) -> None:
    image = judging.embed_file(data_folder / "images/s01.png")
    (one,) = judging.verify(replace(image, unlike=Unlike(2.0, 1.0)), "Effusion.").sentences
    assert (one.verdict, one.judgment.reason) == ("not judged", UNLIKE)
