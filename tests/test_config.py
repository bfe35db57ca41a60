from pathlib import Path

import pytest

from cxrtext.config import TEMPLATE, load_config
from cxrtext.errors import ConfigError


def write(folder: Path, text: str) -> Path:
    path = folder / "c.yaml"
    path.write_text(text)
    return path


DATA = "data: {manifest: m.csv, sentences: s.csv}\n"


def test_the_template_is_the_defaults(tmp_path: Path) -> None:
    from_template = load_config(write(tmp_path, TEMPLATE))
    plain = load_config(write(tmp_path, DATA), ["out=" + str(tmp_path / "runs/default")])
    assert from_template.model == plain.model
    assert from_template.training == plain.training
    assert from_template.objective == plain.objective
    assert from_template.data.resize == plain.data.resize == 512
    assert from_template.out == plain.out


def test_paths_are_relative_to_the_file_and_overrides_to_here(tmp_path: Path) -> None:
    (tmp_path / "lm").mkdir()
    config = load_config(write(tmp_path, DATA + "model: {text: lm}\n"), ["data.sentences=here.csv"])
    assert config.data.manifest == tmp_path / "m.csv"
    assert config.data.sentences == Path("here.csv")
    assert config.model.text == str(tmp_path / "lm")


def test_numbers_as_people_write_them(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, DATA + "training: {lr: 1e-4}\n"), ["training.clip=2e-1"])
    assert config.training.lr == 1e-4
    assert config.training.clip == 0.2


@pytest.mark.parametrize(
    ("text", "overrides", "says"),
    [
        (DATA + "training: {lrr: 1}\n", [], "c.yaml: there is no key 'training.lrr'"),
        (DATA, ["training.lr=-1"], "training.lr: -1: input should be greater than 0"),
        (DATA, ["training.lr=fast"], "training.lr: 'fast': input should be a valid number"),
        (DATA, ["training.lr"], "--set training.lr: expected section.key=value"),
        (DATA, ["training=1"], "training: 1: input should be a valid dictionary"),
        (DATA, ["out.x.y=1"], "out"),
        (DATA, ["data.crop=600"], "data: crop 600 is larger than resize 512"),
        ("data: {manifest: m.csv}\n", [], "key 'data.sentences' is missing"),
        ("", [], "key 'data' is missing"),
        ("- a\n", [], "expected sections"),
        ("data: [\n", [], "line 2: not readable YAML"),
        (DATA, ["model.image=vgg"], "model.image: 'vgg': input should be 'resnet18'"),
    ],
)
def test_wrong_configurations(tmp_path: Path, text: str, overrides: list[str], says: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_config(write(tmp_path, text), overrides)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file.*--init"):
        load_config(tmp_path / "none.yaml")
