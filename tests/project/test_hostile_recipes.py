"""A recipe from somebody else is read whole or refused in one line; nothing is removed by it."""

from pathlib import Path

import pytest

from cxrtext.errors import DataError
from cxrtext.files import write_json
from cxrtext.project.facts import Facts
from cxrtext.project.recipe import Source, choose_recipe, read_recipe, write_recipe
from cxrtext.project.stages import NOTES, Progress, Stage, Teller, training_stage
from tests.cli.conftest import cxrtext

FACTS = Facts(400, 400, 320, True, True, 90_000, 8_000_000, 144, ())
BOMB = "a: &a [x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "a: &a {x: 1}\n" + "".join(
    f"{b}: &{b}\n  <<: [{', '.join([f'*{a}'] * 9)}]\n"
    for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)
HOSTILE = {  # what stands in the recipe, put in its place, and what the line says
    "out is the project": ("train:", "train:\n  out: .", "train.out: '.'"),
    "out is the data": ("train:", "train:\n  out: data", "train.out: 'data'"),
    "out is a foreign folder": ("train:", "train:\n  out: ../precious", "train.out"),
    "out is absolute": ("train:", "train:\n  out: {precious}", "train.out"),
    "out is a link": ("train:", "train:\n  out: link/x", "train.out"),
    "out is a list": ("train:", "train:\n  out: [run]", "train.out"),
    "out is nested": ("train:", "train:\n  out: {run: run}", "train.out"),
    "another manifest": ("  data:", "  data:\n    manifest: ../precious/a.csv", "data.manifest"),
    "other sentences": ("  data:", "  data:\n    sentences: precious.csv", "data.sentences"),
    "another cache": ("  data:", "  data:\n    cache: ../precious", "data.cache: '../precious'"),
    "other words": ("  data:", "  data:\n    words: ../precious/w", "data.words"),
    "other weights": ("    image:", "    image_weights: /w\n    image:", "model.image_weights"),
    "another model": ("    image:", "    init: ../precious\n    image:", "init starts from"),
    "other prompts": ("  training:", "  training:\n    prompts: ../p", "training.prompts"),
    "features": ("  data:", "  data:\n    features: ../precious", "data.features"),
    "a place of the encoder": ("image_encoder:", "image_encoder:\n  out: ..", "image_encoder.out"),
    "a place of the text": ("language_model:", "language_model:\n  out: .", "language_model.out"),
    "a place of the index": ("threads: 1", "threads: 1\nindex: ../precious", "index: no such key"),
    "an unknown key": ("train:", "train:\n  speed: 1", "there is no key 'speed'"),
    "a key of two lines": ("threads: 1", 'threads: 1\n"a\\nb": 1', r"a\nb: no such key"),
    "a key of two lines in train": ("train:", 'train:\n  "a\\nb": 1', r"no key 'a\nb'"),
    "a tag of two lines": ("threads: 1", "threads: !a%0Ab 1", r"'!a\nb'"),
    "archive is relative": ("archive: /archive", "archive: ../precious", "absolute path"),
    "archive is an option": ("archive: /archive", "archive: --out=precious", "absolute path"),
    "archive is a list": ("archive: /archive", "archive: [/archive]", "source.archive"),
    "archive is null": ("archive: /archive", "archive:", "source.archive: None"),
    "an encoder is relative": ("encoder: null", "encoder: ../x", "image_encoder.encoder: '../x'"),
    "a revision leads out": ("encoder: null", "encoder: a/b@../x", "image_encoder.encoder"),
    "an encoder is a list": ("encoder: null", "encoder: [/x]", "image_encoder.encoder"),
    "old weights": ("epochs: null\n  encoder", "weights: /x\n  encoder", "weights: no such key"),
    "nothing to tune": ("tune: false", "tune: true", "image_encoder.tune: true: there is no"),
    "a word for tune": ("tune: false", "tune: perhaps", "image_encoder.tune: 'perhaps'"),
    "only ResNets are tuned": (
        "image: resnet-narrow\n  resize: 128\n  crop: 112\n  epochs: null",
        "image: backbone\n  resize: 128\n  crop: 112\n  epochs: null",
        "image_encoder.image: 'backbone' is not one of resnet18",
    ),
    "columns are text": ("columns: {}", "columns: a=b", "source.columns"),
    "link is text": ("link: false", "link: ../precious", "source.link"),
    "a word for a number": ("steps: 200", "steps: fast", "training.steps: 'fast'"),
    "not a number": ("lr: 0.003", "lr: .nan", "training.lr: nan"),
    "infinity": ("retrain_from: 1.1", "retrain_from: .inf", "retrain_from: inf"),
    "below the range": ("steps: 200", "steps: -1", "training.steps: -1"),
    "a huge number": ("steps: 200", f"steps: {10**30}", "training.steps: 1000000000000"),
    "too many digits": ("steps: 200", "steps: " + "9" * 5000, "not readable YAML"),
    "huge images": ("resize: 128", "resize: 1000000000", "image_encoder.resize: 1000000000"),
    "no crop": ("crop: 112", "crop: 0", "image_encoder.crop: 0 is not between"),
    "many threads": ("threads: 1", "threads: 1000000", "threads: 1000000"),
    "an unknown network": ("image: resnet-narrow", "image: ../x", "image: '../x' is not one of"),
    "an unknown size": ("size: demo", "size: ../demo", "language_model.size"),
    "train is a list": ("train:\n", "train: []\nelse:\n", "train: []"),
    "a section is a number": ("  objective:\n    name: dcl-eta-lm", "  objective: 5", "objective"),
    "a section is a list": ("    lock:\n    - image", "    lock: {image: x}", "training.lock"),
    "a key is given twice": ("threads: 1", "threads: 1\nthreads: 2", "'threads' is given twice"),
    "a tag": ("threads: 1", "threads: !!python/object/apply:os.getcwd []", "python/object"),
    "a bomb of anchors": ("threads: 1", f"threads: 1\n{BOMB}", "an alias of more than one value"),
    "a bomb of merges": ("threads: 1", f"threads: 1\n{MERGES}", "an alias of more than one value"),
    "many brackets": ("threads: 1", "threads: " + "[" * 5000, "nested too deeply"),
    "no YAML": ("threads: 1", "threads: '", "not readable YAML"),
}


def content(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A project with a model, and a folder of others beside it."""
    for name in ("data/manifest.csv", "run/checkpoint-best/model.safetensors", ".fit/it.json"):
        (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "project" / name).write_text("{}")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious/thesis.txt").write_text("ten years of work")
    (tmp_path / "project/link").symlink_to("../precious")
    write_recipe(tmp_path / "project", RECIPE)
    return tmp_path


RECIPE = choose_recipe(Source(archive="/archive"), FACTS, None, 1)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_recipe_is_refused_in_one_line(home: Path, name: str) -> None:
    old, new, said = HOSTILE[name]
    path = home / "project/recipe.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new.replace("{precious}", str(home / "precious")), 1))
    before = content(home)
    done = cxrtext("fit", home / "project", code=2)
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {path}: ")
    assert len(line) < 500
    assert said in line
    assert content(home) == before


def test_a_recipe_that_names_our_own_places_is_read(home: Path) -> None:
    path = home / "project/recipe.yaml"
    path.write_text(path.read_text().replace("train:", "train:\n  out: run", 1))
    assert read_recipe(home / "project").config() == RECIPE.config()


def _nothing(_resume: bool, _tell: Teller) -> str:
    return ""


@pytest.mark.parametrize("kind", ["a link", "a link above", "a link above a file", "no note"])
def test_what_a_stage_did_not_make_stays(home: Path, kind: str) -> None:
    folder, stage = home / "project", training_stage(home / "project", RECIPE)
    (home / "precious/run").mkdir()
    (home / "precious/labels.csv").touch()
    if kind == "a link above":
        stage = Stage("training", _nothing, state="link/run/state")
    if kind == "a link above a file":
        stage = Stage("training", _nothing, makes=("link/labels.csv",))
    if kind != "no note":
        write_json(folder / NOTES / "training.json", {"basis": "another"})
        (folder / "run").rename(folder / "runs")
        (folder / "run").symlink_to("../precious")
    before = content(home)
    with pytest.raises(DataError, match="move it away"):
        Progress(folder).begin(stage)
    assert content(home) == before
