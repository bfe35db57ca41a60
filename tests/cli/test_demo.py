"""``cxrtext demo``: its stages, that none is done twice, and that nothing of it is left behind."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from cxrtext.config import load_config, template
from cxrtext.errors import DataError, WorkError
from cxrtext_cli.commands import demo
from cxrtext_cli.commands.demo import ENCODER, LANGUAGE, PHANTOMS, REST, Stage, make
from tests.test_manifests import parse

EVERY = (PHANTOMS, *LANGUAGE, ENCODER, *REST)
WRITES = """
import os, sys
_, _, name, *words = sys.argv
code, path = int(words[0]), words[1]
print(f"error: {name} fails" if code else name)
with open(path, "a") as file:
    file.write(os.environ["OMP_NUM_THREADS"] + (" again" if "--resume" in words else ""))
if "last" in words:
    os.rename(path, path.removesuffix(".part"))
sys.exit(code)
"""


def small(name: str, threads: int = 1, code: int = 0, more: str = "last") -> Stage:
    words = f"{name} {code} {{out}}/{name}.part {more}"
    return Stage(name, words, threads, (name,), f"{name}.part.state", "--resume")


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages that write down how they were called."""
    monkeypatch.setattr(demo, "_CHILD", WRITES)
    monkeypatch.setattr(demo, "PHANTOMS", small("drawn"))
    monkeypatch.setattr(demo, "LANGUAGE", (small("model"), small("scores")))
    monkeypatch.setattr(demo, "ENCODER", small("encoder"))
    monkeypatch.setattr(demo, "REST", (small("trained", 2),))


@pytest.mark.parametrize("stage", EVERY, ids=lambda stage: stage.title)
def test_every_stage_is_a_command_line_of_ours(stage: Stage, tmp_path: Path) -> None:
    parse(stage.command(tmp_path))
    if stage.state:
        (tmp_path / stage.state).mkdir(parents=True)
        assert "--resume" in stage.command(tmp_path)
        parse(stage.command(tmp_path))


def test_every_stage_has_its_number_of_threads() -> None:
    assert {stage.words.split()[0]: stage.threads for stage in EVERY} == {
        **dict.fromkeys(("phantom", "pretrain-text", "score-text", "pretrain-image"), 1),
        **dict.fromkeys(("train", "evaluate", "calibrate", "index"), 2),
    }


def test_what_is_trained_is_what_the_stages_make(tmp_path: Path) -> None:
    for name in ("train.yaml", "prompts.yaml"):
        (tmp_path / name).write_text(template(f"demo/{name}"))
    (tmp_path / "language-model").mkdir()
    config = load_config(tmp_path / "train.yaml")
    said = " ".join(word for stage in EVERY for word in stage.command(tmp_path))
    given = (config.data.manifest, config.data.sentences, config.model.text, config.data.cache)
    assert all(f" {path}" in said for path in given)
    assert config.model.image_weights == tmp_path / "encoder/encoder.safetensors"
    assert config.out == tmp_path / "run"
    assert config.training.prompts == tmp_path / "prompts.yaml"


@pytest.mark.usefixtures("stages")
def test_each_stage_is_done_once_with_its_threads(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model").write_text("done before")
    make(tmp_path)
    made = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert made == {
        "drawn": "1", "model": "done before", "scores": "1", "encoder": "1", "trained": "2",
        "encoder.log": "encoder\n",
    }  # fmt: skip
    capfd.readouterr()
    make(tmp_path)
    assert made == {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert capfd.readouterr().out == ""


@pytest.mark.usefixtures("stages")
def test_a_stage_that_has_begun_goes_on(tmp_path: Path) -> None:
    (tmp_path / "trained.part.state").mkdir()
    make(tmp_path)
    assert (tmp_path / "trained").read_text() == "2 again"


@pytest.mark.usefixtures("stages")
def test_a_stage_that_fails_ends_the_demo_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "ENCODER", small("encoder", code=2, more=""))
    with pytest.raises(typer.Exit) as ended:
        make(tmp_path)
    assert ended.value.exit_code == 2
    assert capfd.readouterr().err == "error: encoder fails\n"
    assert not (tmp_path / "trained").exists()
    monkeypatch.setattr(demo, "ENCODER", small("encoder", more=""))
    with pytest.raises(WorkError, match="'cxrtext encoder' left no encoder; run the same command"):
        make(tmp_path)


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.yaml").write_text("mine")
    with pytest.raises(DataError, match=r"holds 'train.yaml' and no demo; name a new folder"):
        demo.demo(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["train.yaml"]


WAITS = """
import signal
from pathlib import Path
from cxrtext_cli.commands import demo

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
ends_with_its_parent = demo._CHILD.rpartition("from ")[0]
demo._CHILD = ends_with_its_parent + "import time; print('waits', flush=True); time.sleep(600)"
demo.PHANTOMS = demo.Stage("begun", "phantom", 1, ("drawn",))
try:
    demo.make(Path("."))
finally:
    print("ended", flush=True)
"""


@pytest.mark.parametrize(("number", "last"), [(signal.SIGKILL, ""), (signal.SIGINT, "ended\n")])
def test_stopped_demos_leave_no_process(number: signal.Signals, last: str, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WAITS], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "begun\n"
        assert process.stdout.readline() == "waits\n"
        process.send_signal(number)
        # The pipe ends when the last process that holds it is gone.
        assert process.stdout.read() == last
    process.wait()
