import itertools
from pathlib import Path

import pytest
import yaml

from cxrtext.config import kinds_of, load_config, template, with_whole_paths
from cxrtext.errors import ConfigError


def write(folder: Path, text: str) -> Path:
    path = folder / "c.yaml"
    path.write_text(text)
    return path


DATA = "data: {manifest: m.csv, sentences: s.csv}\n"


def test_the_template_is_the_defaults(tmp_path: Path) -> None:
    from_template = load_config(write(tmp_path, template()))
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
    text = DATA + "training: {lr: 1e-4}\n"
    config = load_config(write(tmp_path, text), ["training.clip=2e-1"])
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
        (DATA, ["training.ema=0.9"], "there is no key 'training.ema'"),
        ("data: {manifest: m.csv}\n", [], "key 'data.sentences' is missing"),
        ("", [], "key 'data' is missing"),
        ("- a\n", [], "expected sections"),
        ("data: [\n", [], "line 2: not readable YAML: expected the node content, but found"),
        ("data:\n\tmanifest: m.csv\n", [], "line 2: not readable YAML: found character '\\t'"),
        ("out: 2024-13-45\n", [], "not readable YAML: month must be in 1..12"),
        (DATA, ["model.image=vgg"], "model.image: 'vgg': input should be 'resnet18'"),
        (DATA, ["model.similarity=mean"], "model.similarity: 'mean': input should be 'global'"),
        (DATA + "objective: {name: dcl-eta, eta: 0.1}\n", ["objective.name=info-nce"], "eta=null"),
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


VALUES = {
    "symmetric": True,
    "eta": 0.2,
    "tau_plus": 0.3,
    "beta": 2.0,
    "threshold": 0.4,
    "keep": 5,
    "ridge": 0.6,
    "weight": 0.7,
    "clusters": 8,
    "condition": ["age"],
    "kernel": [{"name": "laplacian", "sigma": 0.9}],
    "labels": "l.csv",
    "findings": ["Edema"],
    "true_probability": "t.csv",
    "lam": 3.0,
    "query": "none",
}
"""A value of each key that some kinds of a section take and others do not."""


def kinds() -> list[tuple[str, str]]:
    return [(one, kind) for one in ("objective", "model") for kind in kinds_of(one)[1]]


def value(section: str, key: str) -> object:
    fields = [
        one.model_fields[key] for one in kinds_of(section)[1].values() if key in one.model_fields
    ]
    return VALUES.get(key, fields[0].default)


def override(section: str, key: str) -> str:
    written = yaml.safe_dump(value(section, key), default_flow_style=True)
    return f"{section}.{key}={written.removesuffix('...' + chr(10))}"


def depending(section: str) -> list[str]:
    """Keys that some of a section's kinds take."""
    key, classes = kinds_of(section)
    every = [set(one.model_fields) - {key} for one in classes.values()]
    return sorted(set().union(*every) - every[0].intersection(*every[1:]))


@pytest.mark.parametrize(("section", "kind"), kinds())
def test_a_kind_of_section_takes_its_own_keys_and_no_other(section: str, kind: str) -> None:
    chosen, classes = kinds_of(section)
    own = [key for key in depending(section) if key in classes[kind].model_fields]
    data = ["data.manifest=m.csv", "data.sentences=s.csv"]
    naming = f"{section}.{chosen}={kind}"
    needed = ["objective.condition=[age]"] if "condition" in classes[kind].model_fields else []
    given = [override(section, key) for key in own]
    one = load_config(None, [*data, naming, *given])
    assert one == load_config(None, [*given, *data, naming])  # in any order
    found = getattr(one, section).model_dump(mode="json")
    assert {key: found[key] for key in own} == {key: value(section, key) for key in own}
    assert with_whole_paths(one).model_dump().keys() == one.model_dump().keys()
    for key in set(depending(section)) - set(own):
        for order in itertools.permutations([naming, override(section, key)]):
            with pytest.raises(ConfigError) as error:
                load_config(None, [*data, *needed, *order])
            said = str(error.value)
            assert f"{section}.{key}: {kind} does not take it, only " in said
            assert all(name in said for name in own)
            assert "\n" not in said


def test_null_takes_a_key_of_the_file_away(tmp_path: Path) -> None:
    file = write(tmp_path, DATA + "objective: {name: dcl-eta, eta: 0.1}\ntraining: {lr: 1e-4}\n")
    taken = ["objective.name=info-nce", "objective.eta=null", "training.lr=null"]
    config = load_config(file, taken)
    assert config.objective.model_dump() == {"name": "info-nce", "symmetric": False}
    assert config.training.lr == 1e-5
