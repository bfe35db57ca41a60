import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from cxrtext.errors import CheckpointError
from cxrtext.models.folders import PICKLED_WEIGHTS, cache_folder
from cxrtext.models.masked_lm import load_masked_language_model
from cxrtext.models.weight_files import keep_copy, read_state


@pytest.fixture
def folder(tmp_path: Path, write_cxr_bert: Callable[[Path], Path]) -> Path:
    """A model of CXR-BERT's layout with pickled weights, in a folder of the user's."""
    return write_cxr_bert(tmp_path / "m")


def copy_of(folder: Path) -> Path:
    digest = hashlib.sha256((folder / PICKLED_WEIGHTS).read_bytes()).hexdigest()
    return cache_folder() / digest / "model.safetensors"


def test_a_pickle_is_copied_tensor_by_tensor_and_read_no_more(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sorted(folder.iterdir())
    state = torch.load(folder / PICKLED_WEIGHTS, weights_only=True)
    first = load_masked_language_model(folder)
    copied = load_file(copy_of(folder))
    assert copied.keys() == state.keys()
    for name, tensor in state.items():
        assert copied[name].dtype == tensor.dtype
        assert torch.equal(copied[name], tensor)
    assert sorted(folder.iterdir()) == before

    def unpickle(*args: object, **kwargs: object) -> None:
        raise AssertionError("the pickle was read again")

    monkeypatch.setattr(torch, "load", unpickle)
    assert load_masked_language_model(folder).fingerprint == first.fingerprint
    assert "cls_projection_head.dense_to_output.weight" in copied


def test_another_pickle_has_another_copy(folder: Path) -> None:
    first = load_masked_language_model(folder)
    state = torch.load(folder / PICKLED_WEIGHTS, weights_only=True)
    state["cls.predictions.transform.dense.bias"] += 1
    torch.save(state, folder / PICKLED_WEIGHTS)
    assert load_masked_language_model(folder).fingerprint != first.fingerprint
    assert len(list(cache_folder().rglob("model.safetensors"))) == 2


def test_tensors_that_do_not_fit_are_never_copied(folder: Path) -> None:
    state = torch.load(folder / PICKLED_WEIGHTS, weights_only=True)
    del state["cls.predictions.transform.dense.bias"]
    torch.save(state, folder / PICKLED_WEIGHTS)
    with pytest.raises(CheckpointError, match=f"{PICKLED_WEIGHTS}: the tensors do not fit"):
        load_masked_language_model(folder)
    assert not cache_folder().exists()


@pytest.mark.parametrize("content", [b"", b"\xff" * 64])
def test_a_damaged_copy_is_written_again(folder: Path, content: bytes) -> None:
    first = load_masked_language_model(folder)
    copy_of(folder).write_bytes(content)
    assert load_masked_language_model(folder).fingerprint == first.fingerprint
    assert read_state(folder)[0] == copy_of(folder)


def test_a_copy_that_differs_is_not_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def save_wrong(tensors: dict[str, torch.Tensor], path: Path, **kwargs: object) -> None:
        name = "cls.predictions.transform.dense.bias"
        save_file({**tensors, name: tensors[name] + 1}, path)

    monkeypatch.setattr("cxrtext.models.weight_files.save_file", save_wrong)
    state = torch.load(folder / PICKLED_WEIGHTS, weights_only=True)
    assert keep_copy(folder / PICKLED_WEIGHTS, state) is None
    assert not list(cache_folder().rglob("*.safetensors"))


def test_without_a_place_for_the_copy_the_pickle_is_read_each_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    first, second = load_masked_language_model(folder), load_masked_language_model(folder)
    assert first.fingerprint == second.fingerprint
    assert read_state(folder)[0] == folder / PICKLED_WEIGHTS


def test_tensors_that_share_memory_are_copied(tmp_path: Path) -> None:
    base = torch.arange(12.0).reshape(3, 4)
    state = {"a": base, "b": base, "c": base.T, "d": base[1:]}
    torch.save(state, tmp_path / PICKLED_WEIGHTS)
    path = keep_copy(tmp_path / PICKLED_WEIGHTS, state)
    assert path is not None
    assert all(torch.equal(load_file(path)[name], state[name]) for name in state)


def test_the_cache_lies_where_the_desktop_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert cache_folder() == tmp_path / "xdg" / "cxrtext" / "models"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "cxrtext" / "models"
