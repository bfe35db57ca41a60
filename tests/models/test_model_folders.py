"""The hub is always a fake here: a folder, or something that refuses to answer."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import huggingface_hub
import pytest
from huggingface_hub import constants
from huggingface_hub.errors import LocalEntryNotFoundError

from cxrtext.errors import CheckpointError, HubError
from cxrtext.models.folders import DEFAULT_MODEL, PINNED, find_model_folder, find_vision_folder
from cxrtext.models.masked_lm import load_masked_language_model
from cxrtext.project.encoders import find_encoder
from tests import small_backbones
from tests.models.conftest import write_cxr_bert

FIRST, SECOND = "1" * 40, "2" * 40
SPECIALIZED = "microsoft/BiomedVLP-CXR-BERT-specialized"


class FakeHub:
    """A hub of one model with branches and tags; it counts how often it is asked."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.refs = {"main": FIRST, "v1.1": SECOND}
        self.fetched: dict[str, str] = {}  # commits of branches and tags in the local cache
        self.asked: list[str] = []
        self.patterns: list[str] = []
        self.weights = "pytorch_model.bin"
        self.write: Callable[..., object] = write_cxr_bert

    def model_info(self, repository: str, *, revision: str, timeout: float) -> Any:
        assert timeout <= 10
        self.asked.append(f"{repository}@{revision}")
        names = ("config.json", self.weights, "modeling_x.py")
        return SimpleNamespace(siblings=[SimpleNamespace(rfilename=name) for name in names])

    def snapshot_download(
        self, repository: str, *, revision: str, local_files_only: bool = False, **how: Any
    ) -> str:
        known = self.fetched if local_files_only else self.refs
        name = "models--" + repository.replace("/", "--")
        folder = self.cache / name / "snapshots" / known.get(revision, revision)
        if not folder.is_dir():
            if local_files_only:
                raise LocalEntryNotFoundError("not here")
            self.fetched[revision] = folder.name
            self.patterns = how["allow_patterns"]
            self.write(folder, seed=int(folder.name[0]))
        return str(folder)


@pytest.fixture(autouse=True)
def online(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty cache of the hub, and the environment says nothing about the network."""
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    monkeypatch.delenv("TRANSFORMERS_OFFLINE", raising=False)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeHub:
    fake = FakeHub(tmp_path / "hub")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fake.snapshot_download)
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", staticmethod(fake.model_info))
    return fake


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """The library's own cache, and a hub that does not answer."""
    refuse = Mock(side_effect=ConnectionError("Name or service not known"))
    monkeypatch.setattr(huggingface_hub.HfApi, "model_info", refuse)
    return refuse


@pytest.mark.parametrize(
    "switch", [None, "argument", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "import"]
)
def test_a_hub_that_cannot_be_reached_or_is_not_asked_is_two_lines(
    switch: str | None,
    unreachable: Mock,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if switch == "import":
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    elif switch and switch != "argument":
        monkeypatch.setenv(switch, "1")
    with pytest.raises(HubError) as caught:
        load_masked_language_model(DEFAULT_MODEL, offline=switch == "argument")
    message = str(caught.value)
    why = "may not be asked (offline)" if switch else "did not give it (ConnectionError)"
    for said in (why, "pass the path", "cxrtext pretrain-text REPORTS --out DIR"):
        assert said in message
    assert len(message.splitlines()) == 2
    assert unreachable.call_count == (0 if switch else 1)
    assert capsys.readouterr() == ("", "")
    assert caught.value.exit_code == 1


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """What the hub's local cache holds of the default model."""
    folder = tmp_path / "hub" / "models--microsoft--BiomedVLP-CXR-BERT-general"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(FIRST)
    write_cxr_bert(folder / "snapshots" / FIRST)
    return folder


def test_a_cached_snapshot_is_used_without_the_hub(unreachable: Mock, repository: Path) -> None:
    loaded = load_masked_language_model(DEFAULT_MODEL, offline=True)
    assert (loaded.name, loaded.revision) == (DEFAULT_MODEL, FIRST)
    # By its commit it is found even when the branch has moved on.
    (repository / "refs" / "main").write_text(SECOND)
    assert find_model_folder(f"{DEFAULT_MODEL}@{FIRST}", offline=True).name == FIRST
    unreachable.assert_not_called()


def test_an_incomplete_snapshot_is_not_taken_for_the_model(
    unreachable: Mock, repository: Path
) -> None:
    (repository / "snapshots" / FIRST / "pytorch_model.bin").unlink()
    with pytest.raises(HubError, match=f"'{DEFAULT_MODEL}' at revision main is not here"):
        find_model_folder(DEFAULT_MODEL)


def test_only_needed_files_are_fetched_and_known_models_have_revisions(hub: FakeHub) -> None:
    loaded = load_masked_language_model("someone/model")
    assert (loaded.name, loaded.revision) == ("someone/model", FIRST)
    assert " ".join(hub.patterns) == (
        "config.json tokenizer.json vocab.txt tokenizer_config.json "
        "added_tokens.json 1_Pooling/config.json pytorch_model.bin"
    )
    hub.asked.clear()
    assert PINNED[SPECIALIZED] == "v1.1"
    assert load_masked_language_model(SPECIALIZED).revision == SECOND
    assert hub.asked == [f"{SPECIALIZED}@v1.1"]


def test_a_branch_stays_at_the_commit_in_the_cache_until_another_is_asked_for(hub: FakeHub) -> None:
    first = load_masked_language_model(DEFAULT_MODEL)
    hub.refs["main"] = SECOND
    again = load_masked_language_model(DEFAULT_MODEL)
    assert (again.revision, again.fingerprint) == (FIRST, first.fingerprint)
    assert hub.asked == [f"{DEFAULT_MODEL}@main"]
    newer = load_masked_language_model(f"{DEFAULT_MODEL}@{SECOND}")
    assert newer.revision == SECOND
    assert newer.fingerprint != first.fingerprint


@pytest.mark.parametrize(
    "name",
    [
        *("a/b@", "a/b@../../x", "a/b@x/../y", "a/b@.x", "a/b@x@y", "@main", "a@b/c", "a/b@/x"),
        *("no-such-folder", Path("no/such"), "/no/such", "a/b/c", "../x"),
    ],
)
def test_what_is_neither_folder_nor_hub_id_is_refused(name: str | Path, unreachable: Mock) -> None:
    with pytest.raises(CheckpointError, match="no such model folder"):
        load_masked_language_model(name)
    unreachable.assert_not_called()


VISION = "someone/vision"


@pytest.fixture
def vision_hub(hub: FakeHub) -> FakeHub:
    hub.weights = "model.safetensors"
    hub.write = partial(small_backbones.write, model_type="dinov2")
    return hub


def test_a_vision_model_is_fetched_once_and_by_its_revision(vision_hub: FakeHub) -> None:
    first = find_vision_folder(f"{VISION}@v1.1")
    assert first.name == SECOND
    assert vision_hub.patterns == [
        *("config.json", "preprocessor_config.json", "processor_config.json"),
        *("README.md*", "LICENSE*", "model.safetensors"),
    ]
    assert find_vision_folder(f"{VISION}@{SECOND}") == first
    assert find_vision_folder(f"{VISION}@v1.1", offline=True) == first
    assert vision_hub.asked == [f"{VISION}@v1.1"]
    assert find_encoder(f"{VISION}@v1.1").name == f"{VISION}@{SECOND}"


def test_a_repository_without_weights_of_transformers_is_refused(vision_hub: FakeHub) -> None:
    vision_hub.weights = "open_clip_pytorch_model.bin"
    with pytest.raises(CheckpointError, match=r"has no model.safetensors and no .* --model"):
        find_vision_folder(VISION)
    assert not vision_hub.fetched


@pytest.mark.parametrize(("offline", "why"), [(True, "not be asked"), (False, "ConnectionError")])
def test_a_vision_model_that_the_hub_does_not_give_says_the_ways_out(
    offline: bool, why: str, unreachable: Mock
) -> None:
    with pytest.raises(HubError) as caught:
        find_vision_folder(f"{VISION}@v2", offline=offline)
    message = str(caught.value)
    for said in (f"'{VISION}' at revision v2", why, "pass the path", "'cxrtext encoders'"):
        assert said in message
    assert "pretrain-text" not in message
