"""Locked encoders: what they make of images and sentences is computed once, and the same."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from cxrtext.config import Config, load_config
from cxrtext.errors import ConfigError, WorkError
from cxrtext.images.augment import center_crop
from cxrtext.models import ImageTextModel, load_model
from cxrtext.models.regions import standardized
from cxrtext.records import Rejects
from cxrtext.training import Listener, train
from cxrtext.training.data.loader import Examples
from cxrtext.training.data.locked_features import Keeping, lock_images, lock_sentences
from cxrtext.training.image_text import gather_examples, look_of, read_tables
from cxrtext.training.initialization import build_model
from cxrtext.training.loop.optimization import TrainingArguments
from tests.training.test_training_run import check_stopped_run, weights


@pytest.fixture
def config(options: list[str]) -> Config:
    return load_config(None, options)


@pytest.fixture
def model(config: Config) -> ImageTextModel:
    return build_model(config).eval()


@pytest.fixture
def examples(config: Config, model: ImageTextModel) -> Examples:
    given = config, read_tables(config), model, Rejects()
    return gather_examples(*given, look_of(config, model))[0]


def test_features_are_those_of_the_center_crop(
    examples: Examples, model: ImageTextModel, tmp_path: Path
) -> None:
    features = lock_images(model, examples.pixels, examples.rows, Keeping(folder=tmp_path))
    spec = model.spec.preprocessing
    squares = torch.from_numpy(np.asarray(examples.pixels[examples.rows])[:, None])
    crops = center_crop(squares, spec.crop).float() / 255.0
    found = features.of(np.arange(len(examples)))
    with torch.inference_mode():
        wanted = model.image_encoder.features(standardized(crops, spec)).numpy()
        regions = model.image_encoder.project(torch.from_numpy(found).float())
        whole = model.embed_images(standardized(center_crop(squares, 64).float() / 255.0, spec))
    assert found == pytest.approx(wanted, rel=1e-3, abs=1e-4)
    assert torch.allclose(regions, whole, atol=2e-3)


def test_states_are_those_of_each_sentence_alone(
    examples: Examples, model: ImageTextModel, tmp_path: Path
) -> None:
    states = lock_sentences(model, examples.tokens, Keeping(folder=tmp_path))
    assert len(states.values) == len({tuple(pieces) for pieces in examples.tokens})
    for place in (0, len(examples.tokens) - 1):
        with torch.inference_mode():
            ids = torch.tensor([examples.tokens[place]])
            wanted = model.text_encoder.states(ids, None)[0].numpy()
        assert states.of([place])[0] == pytest.approx(wanted, rel=2e-3, abs=2e-3)


def counted(folder: Path) -> tuple[Keeping, list[int]]:
    """Where to keep features, and how many were computed in each call with something missing."""
    totals: list[int] = []

    def embedding(_what: str, done: int, total: int) -> None:
        if done == total:
            totals.append(total)

    return Keeping(folder, listener=Listener(embedding=embedding)), totals


def test_what_is_kept_is_not_computed_again(
    examples: Examples, model: ImageTextModel, tmp_path: Path
) -> None:
    keeping, computed = counted(tmp_path)
    one = lock_images(model, examples.pixels, examples.rows, keeping)
    again = lock_images(model, examples.pixels, examples.rows, keeping)
    assert computed == [len(examples)]
    assert np.array_equal(one.of(np.arange(len(examples))), again.of(np.arange(len(examples))))
    lock_images(model, examples.pixels, examples.rows[:3], keeping)  # other images, another file
    with torch.no_grad():
        next(model.image_encoder.trunk.parameters()).mul_(1.01)
    lock_images(model, examples.pixels, examples.rows[:2], keeping)
    assert computed[1:] == [3, 2]
    assert len(list(tmp_path.glob("*.f16"))) == 3


def test_half_written_features_are_computed_again(
    examples: Examples, model: ImageTextModel, tmp_path: Path
) -> None:
    keeping, computed = counted(tmp_path)
    whole = lock_images(model, examples.pixels, examples.rows, keeping)
    wanted = whole.of(np.arange(len(examples)))
    (data,) = tmp_path.glob("*.f16")
    row = data.stat().st_size // len(examples)
    data.write_bytes(data.read_bytes()[: -row // 2])
    again = lock_images(model, examples.pixels, examples.rows, keeping)
    assert computed == [len(examples)] * 2  # of one batch, whole again
    assert np.array_equal(again.of(np.arange(len(examples))), wanted)


def test_features_for_which_there_is_no_room_are_refused(
    examples: Examples, model: ImageTextModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = SimpleNamespace(free=512)
    monkeypatch.setattr("cxrtext.training.loop.resume.shutil.disk_usage", lambda _: full)
    with pytest.raises(
        WorkError, match="images takes .* GB and the disk has .*; make room, or name"
    ):
        lock_images(model, examples.pixels, examples.rows, Keeping(folder=tmp_path))
    assert not list(tmp_path.glob("*.f16"))


@pytest.mark.parametrize("lock", ["[image,text]", pytest.param("[image]", marks=pytest.mark.slow)])
def test_a_run_stopped_before_at_or_after_unlocking_ends_in_the_same_weights(
    options: list[str], tmp_path: Path, lock: str
) -> None:
    chosen = [*options, "training.steps=6", f"training.lock={lock}", "training.unlock=3"]
    check_stopped_run(chosen, tmp_path, [2, 3, 4])


def test_locked_encoders_do_not_move_before_they_are_unlocked(
    options: list[str], tmp_path: Path
) -> None:
    chosen = [*options, "training.lock=[image]", "training.validate_every=4"]
    first = build_model(load_config(None, chosen)).state_dict()
    locked = load_config(None, [*chosen, "training.steps=4", f"out={tmp_path / 'locked'}"])
    live = [*chosen, "training.steps=6", "training.unlock=4", f"out={tmp_path / 'live'}"]
    train(locked)
    train(load_config(None, live))
    still, moved = weights(tmp_path / "locked"), weights(tmp_path / "live")
    backbone = [name for name in first if name.startswith("image_encoder.backbone")]
    assert all(torch.equal(first[name], still[name]) for name in backbone)
    assert not all(torch.equal(first[name], moved[name]) for name in backbone)
    assert not torch.equal(
        first["image_encoder.projection.weight"], still["image_encoder.projection.weight"]
    )


def test_the_rate_begins_anew_after_unlocking() -> None:
    arguments = TrainingArguments(
        steps=30, batch=8, lr=1.0, warmup=4, lock=("image",), unlock=10, unlocked_lr=0.5
    )
    alone = TrainingArguments(steps=10, batch=8, lr=1.0, warmup=4)
    after = TrainingArguments(steps=20, batch=8, lr=0.5, warmup=4)
    expected = [*map(alone.rate, range(10)), *map(after.rate, range(20))]
    assert [*map(arguments.rate, range(30))] == expected


def test_a_run_starts_from_a_checkpoint(
    run_folder: Path, options: list[str], tmp_path: Path
) -> None:
    start = run_folder / "checkpoint"
    chosen = [*options, f"model.init={start}", "training.lr=1e-12", "training.steps=1"]
    said: list[str] = []
    train(load_config(None, [*chosen, f"out={tmp_path / 'a'}"]), listener=Listener(say=said.append))
    before, after = load_model(start).state_dict(), weights(tmp_path / "a")
    same = [name for name in before if "normalization" not in name]
    assert all(torch.allclose(before[name], after[name], atol=1e-6) for name in same)
    train(load_config(None, [*chosen, "model.similarity=lse", f"out={tmp_path / 'b'}"]))
    assert load_model(tmp_path / "b/checkpoint").spec.aggregator == "lse"
    with pytest.raises(ConfigError, match="has dimension 16, and model.dimension is 8; set model"):
        train(load_config(None, [*chosen, "model.dimension=8", f"out={tmp_path / 'c'}"]))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (["training.unlock=5"], "nothing is locked; give lock"),
        (["training.lock=[image]", "training.unlock=9999999"], "is not before the last step"),
        (["model.init=a", "model.image_weights=b"], "give one"),
    ],
)
def test_what_contradicts_itself_is_refused(
    options: list[str], changes: list[str], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        load_config(None, [*options, *changes])
