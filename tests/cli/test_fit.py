"""``cxrtext fit``: its stages, what is done again and why; that no process is left behind."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml

from cxrtext.datasets.importing import ImportOptions
from cxrtext.errors import ConfigError, DataError
from cxrtext.images import Preprocessing
from cxrtext.models import load_model
from cxrtext.project.archive import import_options, prompts_of
from cxrtext.project.encoders import find_encoder
from cxrtext.project.estimate import Speeds, estimate, fitted
from cxrtext.project.facts import Facts, facts_of_archive, facts_of_data
from cxrtext.project.fitting import (
    Fit,
    _seconds,
    choose,
    claim,
    options_of,
    prepare,
)
from cxrtext.project.layout import REPORTS, THIRD
from cxrtext.project.recipe import (
    ImageEncoder,
    LanguageModel,
    Recipe,
    Source,
    choose_recipe,
    read_recipe,
    write_recipe,
)
from cxrtext.project.stages import (
    NOTES,
    Progress,
    Stage,
    Teller,
    check_stage,
    curve_stages,
    evaluation_stage,
    import_stage,
    index_stage,
    label_stage,
    model_stages,
    training_stage,
    trainings,
)
from cxrtext.project.training_data import noted, training_data, write_training_data
from cxrtext.records import write_table
from tests.cli.conftest import cxrtext
from tests.conftest import read_csv
from tests.models.foreign.folders import WRITERS
from tests.small_backbones import write

DRAWN = Facts(400, 400, 320, True, True, 90_000, 8_000_000, 144, ())
FILMS = Facts(3400, 3400, 2700, True, True, 900_000, 2_000_000_000, 2000, ())
SOURCE = Source(archive="/archive", reports="/reports.csv", columns={"image": "Bild"})
RECIPE = choose_recipe(SOURCE, DRAWN, None, 1)
TUNED = choose_recipe(SOURCE, FILMS, None, 1)
TUNED = TUNED.model_copy(
    update={
        "image_encoder": TUNED.image_encoder.model_copy(
            update={"encoder": "/models/half", "tune": True}
        )
    }
)
FROZEN = TUNED.model_copy(
    update={
        "image_encoder": TUNED.image_encoder.model_copy(
            update={"encoder": "a/rad-dino@main", "tune": False}
        )
    }
)
TABLES = ["data/manifest.csv", "data/reports.csv"]


def stages_of(folder: Path, recipe: Recipe) -> list[Stage]:
    text, encoder = model_stages(folder, recipe)
    return [
        import_stage(folder, recipe.source, "listing", ImportOptions(keep=("age",))),
        label_stage(folder, "reports.csv"),
        check_stage(folder, TABLES),
        *text,
        encoder,
        training_stage(folder, recipe),
        *curve_stages(folder, recipe, TABLES),
        evaluation_stage(folder, recipe, TABLES),
        index_stage(folder, recipe, TABLES),
    ]


def small(folder: Path, code: int = 0, settings: object = None) -> Stage:
    """A stage that appends to a file how it was called."""

    def work(resume: bool, _: Teller) -> str:
        if code:
            raise DataError("it fails")
        (folder / "made").mkdir(exist_ok=True)
        with (folder / "made/it").open("a") as file:
            file.write(f"{torch.get_num_threads()}{' again' if resume else ''};")
        return "3 images"

    return Stage(
        "small", work, settings, reads=("given.csv",), makes=("made/it",), state="made/state",
        threads=2,
    )  # fmt: skip


@pytest.fixture
def do(tmp_path: Path) -> Callable[[Stage], str]:
    """Does a stage as a run of fit does; gives what its file holds then."""
    (tmp_path / NOTES / "logs").mkdir(parents=True)
    (tmp_path / "given.csv").write_text("1")

    def run(stage: Stage) -> str:
        one = Fit(tmp_path, SOURCE, tell=Teller(lambda line: print(line, file=sys.stderr)))  # noqa: T201
        one.progress = Progress(tmp_path)
        one._do(stage)
        return (tmp_path / "made/it").read_text()

    return run


@pytest.mark.parametrize("recipe", [RECIPE, FROZEN, TUNED])
def test_a_process_of_its_own_finds_its_training_by_name(recipe: Recipe, tmp_path: Path) -> None:
    own = {one.name for one in stages_of(tmp_path, recipe) if one.trains}
    assert set(trainings(tmp_path, recipe)) == own
    assert {"language model", "training"} < own


def test_a_stage_is_done_once_and_again_where_what_it_rests_on_changed(
    tmp_path: Path, do: Callable[[Stage], str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert do(small(tmp_path)) == "2;"
    assert "small, 0 s: 3 images" in capsys.readouterr().err
    assert do(small(tmp_path)) == "2;"
    assert capsys.readouterr().err == ""
    (tmp_path / "given.csv").write_text("2")
    assert do(small(tmp_path)) == "2;"  # what was there before is gone
    assert "again: given.csv" in capsys.readouterr().err
    assert do(small(tmp_path, settings=5)) == "2;"
    assert "again: its part of the recipe" in capsys.readouterr().err
    (tmp_path / "made/it").unlink()
    do(small(tmp_path, settings=5))
    assert "again: made/it gone" in capsys.readouterr().err


def test_a_stage_goes_on_only_on_what_it_began_with(
    tmp_path: Path, do: Callable[[Stage], str]
) -> None:
    with pytest.raises(DataError, match="it fails"):
        do(small(tmp_path, code=2))
    (tmp_path / "made/state").mkdir(parents=True)
    assert do(small(tmp_path)) == "2 again;"
    (tmp_path / "made/state").mkdir(exist_ok=True)
    (tmp_path / "given.csv").write_text("another")
    assert do(small(tmp_path)) == "2;"
    assert not (tmp_path / "made/state").exists()


def test_what_an_encoder_makes_is_made_again_where_its_copy_changed(tmp_path: Path) -> None:
    for recipe, place in ((FROZEN, "encoder/rad-dino"), (TUNED, "encoder/half")):
        bases = []
        (tmp_path / place).mkdir(parents=True)
        for text in ("1", "2"):
            (tmp_path / place / "SHA256SUMS").write_text(text)
            bases.append(Progress(tmp_path).basis(model_stages(tmp_path, recipe)[1]))
        assert bases[0] != bases[1]


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "data"
    archive.mkdir()
    claim(tmp_path, archive)  # the archive alone
    (tmp_path / "train.yaml").write_text("mine")
    with pytest.raises(DataError, match=r"holds 'train.yaml' and no project; name a folder with"):
        claim(tmp_path, archive)


@pytest.mark.parametrize("text", ["20", "m", "20x", "-3m", "1h30m"])
def test_what_is_no_budget(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a time; give 20m, 8h or 2d"):
        _seconds(text)


def test_prompts_are_changed_without_a_new_training(tmp_path: Path) -> None:
    (tmp_path / "prompts.yaml").write_text("A: {}")
    stages = {stage.name: stage for stage in stages_of(tmp_path, RECIPE)}

    def bases() -> dict[str, object]:
        return {name: Progress(tmp_path).basis(stage) for name, stage in stages.items()}

    before = bases()
    (tmp_path / "prompts.yaml").write_text("B: {}")
    changed = {name for name, basis in bases().items() if basis != before[name]}
    assert changed == {"evaluation", "a third: measured"}


def test_what_is_not_said_again_stays(project: Path, tmp_path: Path) -> None:
    (project / NOTES).mkdir()
    write_recipe(project, RECIPE)
    labels = tmp_path / "labels.csv"
    labels.touch()
    asked = (
        prepare(project, tmp_path),
        prepare(project, tmp_path, labels=labels),
        prepare(tmp_path / "more", project),
    )
    assert [one.source for one in asked] == [
        SOURCE,
        SOURCE.model_copy(update={"labels": str(labels)}),
        SOURCE.model_copy(update={"archive": str(tmp_path / "more")}),
    ]


# --- the recipe ---


def given(model_type: str, image: str, crop: int) -> Any:
    own = Preprocessing(resize=crop, crop=crop)
    backbone = SimpleNamespace(model_type=model_type, preprocessing=own)
    return SimpleNamespace(name=f"/models/{model_type}", image=image, backbone=backbone)


def test_the_recipe_follows_from_what_is_there(tmp_path: Path) -> None:
    resnet = given("resnet", "resnet50-half", 384)
    vit = given("dinov2", "backbone", 518)
    drawn, films, tuned, frozen, few = (
        choose_recipe(SOURCE, facts, encoder, 3)
        for facts, encoder in (
            (DRAWN, None), (FILMS, None), (FILMS, resnet), (FILMS, vit), (DRAWN, vit),
        )
    )  # fmt: skip
    recipes = drawn, films, tuned, frozen, few
    assert [one.image_encoder.image for one in recipes] == [
        "resnet-narrow", "resnet18", "resnet50-half", "backbone", "backbone",
    ]  # fmt: skip
    assert [one.frozen for one in recipes] == [None, None, None, vit.name, vit.name]
    assert drawn.train["training"]["steps"] < 300
    assert films.train["training"]["batch"] == 64
    forty = choose_recipe(SOURCE, replace(DRAWN, training=40), None, 3)
    assert forty.train["training"]["batch"] == 20
    assert films.train["training"]["lock"] == ["image"]
    assert (tuned.image_encoder.encoder, tuned.image_encoder.crop) == (resnet.name, 224)
    assert (frozen.image_encoder.encoder, frozen.image_encoder.crop) == (vit.name, 518)
    for recipe in recipes:
        write_recipe(tmp_path, recipe)
        assert read_recipe(tmp_path) == recipe
    # One key turns one that is tuned into one that is not.
    write_recipe(tmp_path, tuned)
    text = (tmp_path / "recipe.yaml").read_text()
    (tmp_path / "recipe.yaml").write_text(text.replace("tune: true", "tune: false"))
    assert read_recipe(tmp_path).frozen == resnet.name


PLAIN = Recipe(
    source=SOURCE,
    language_model=LanguageModel(size="demo", epochs=2),
    image_encoder=ImageEncoder(image="resnet18", resize=64, crop=32, epochs=3),
    train={"training": {"steps": 100, "batch": 10, "lock": ["text"], "unlock": 40}},
)
HERE = Speeds(reading=0.01, learning=0.02, embedding=0.005, language=1e-4)
THOUSAND = Facts(1000, 1000, 960, True, False, 300_000, 3_000_000_000, 2000, ())


def test_what_stages_take_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    # 90 steps of 32 images and half of the 40 held-out ones after each of five parts.
    learn = 90 * 32 * 0.02 + 5 * 20 * 0.005
    # 960 images embedded, 100 steps of 10 texts on two cores, 60 of them also of 10 images.
    align = 960 * 0.005 + 100 * (0.06 + 480 * 1e-4 / 2) + 2 + 60 * 10 * 1.3 * 0.02 * 1.25 / 2
    measure = 40 * 0.005 + 5
    language = 1.2 * 2 * 90_000 * 1e-4
    by_hand = {
        "import": 4 + 20,  # 4 ms an image, and 3 GB at 150 MB/s
        "check": 10,
        "labels": 2,
        "findings": 2,
        "language model": language,
        "likelihoods": 0.15 * language,
        "image encoder": 10 + learn,
        "training": align,
        "learning curve": 30 * 32 * 0.02 + 5 * 20 * 0.005 + align / 2 + measure + 12,
        "evaluation": measure,
        "index": 5,
    }
    found = estimate(PLAIN, THOUSAND, HERE, imports=True)
    assert found.seconds == pytest.approx({name: 6 + value for name, value in by_hand.items()})
    assert found.total == pytest.approx(281.465, abs=0.01)
    assert found.disk == 3_000_000_000 + 1000 * 64**2 + 2 * 1000 * 256 + round(0.3 * 2**30)
    assert found.memory == 1.5 * 2**30 + 960 * 64**2 + 1000 * 256
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)  # the language model goes on beside it
    beside = estimate(PLAIN, THOUSAND, HERE, imports=True).seconds["image encoder"]
    assert beside == pytest.approx(6 + 10 + learn - (6 + language + 6 + 0.15 * language))


@pytest.mark.parametrize(
    ("seconds", "epochs", "curve"),
    [(282, 3, True), (281, 5, False), (222, 2, False), (190, 1, False), (10**6, 15, True)],
)
def test_what_a_budget_buys_by_hand(seconds: float, epochs: int, curve: bool) -> None:
    found = fitted(PLAIN, THOUSAND, lambda _: HERE, seconds, imports=True)
    assert (found.image_encoder.epochs, found.learning_curve) == (epochs, curve)


def test_what_a_short_budget_gives_up_in_order() -> None:
    """And never is there no recipe; speeds by the pixels and the language model that are left."""

    def speeds_of(one: Recipe) -> Speeds:
        large = one.language_model.size == "compact"
        shown = (one.image_encoder.crop / 256) ** 2
        return replace(HERE, learning=0.02 * shown, language=1e-4 if large else 2e-5)

    encoder = ImageEncoder(image="resnet18", resize=288, crop=256, epochs=4)
    large = PLAIN.model_copy(
        update={"image_encoder": encoder, "language_model": LanguageModel(size="compact", epochs=4)}
    )
    seen = []
    for seconds in (10**6, 250, 200, 190, 10):
        one = fitted(large, THOUSAND, speeds_of, seconds, imports=True)
        images = one.image_encoder
        seen.append((images.epochs, one.learning_curve, one.language_model.size, images.crop))
    assert seen == [
        (20, True, "compact", 256),  # five times as long as usual is the most
        (2, False, "compact", 256),  # 234 s; half as long as usual is the least
        (2, False, "demo", 256),  # 194 s
        (9, False, "demo", 128),  # 5 s an epoch
        (1, False, "demo", 128),
    ]
    assert (images.resize, one.config()["data"]["resize"], one.config()["data"]["crop"]) == (
        144, 144, 128,
    )  # fmt: skip


def frozen_of(recipe: Recipe, **changes: object) -> Recipe:
    own = recipe.image_encoder.model_copy(update={"encoder": "/m/x", **changes})
    return recipe.model_copy(update={"image_encoder": own})


def test_what_a_frozen_encoder_takes_by_hand() -> None:
    found = estimate(frozen_of(PLAIN), THOUSAND, HERE, imports=False)
    # 1000 films and 256 for the map, on two cores; all else reads features.
    align = 960 * 0.002 + 100 * (0.06 + 480 * 1e-4 / 2) + 2
    measure = 40 * 0.002 + 5
    assert found.seconds["features"] == pytest.approx(6 + 1256 * (0.01 + 0.005) / 2)
    assert found.seconds["training"] == pytest.approx(6 + align)
    assert found.seconds["learning curve"] == pytest.approx(18 + align / 2 + measure)
    assert found.seconds["evaluation"] == pytest.approx(6 + measure)
    assert found.seconds["index"] == pytest.approx(6 + 2)
    assert "image encoder" not in found.seconds
    assert found.disk == 1000 * 4 * (1024 + 128) * 2 + round(0.3 * 2**30)


def test_an_encoder_that_there_is_no_time_to_tune_stays_as_it_is() -> None:
    tuned = frozen_of(PLAIN, tune=True)
    frozen = frozen_of(PLAIN)
    needed = estimate(frozen, THOUSAND, HERE, imports=False).total
    asked = {
        budget: fitted(tuned, THOUSAND, lambda _: HERE, budget, imports=False)
        for budget in (10**6, needed + 1, needed - 1, 60)
    }
    assert [one.frozen for one in asked.values()] == [None, "/m/x", "/m/x", "/m/x"]
    assert [one.learning_curve for one in asked.values()] == [True, True, False, False]


def test_a_tuned_encoder_that_a_budget_leaves_as_it_is_is_measured_at_the_size_it_gets(
    data_folder: Path, tmp_path: Path
) -> None:
    """Its folder asks for other pixels than the training."""
    shape: dict[str, Any] = {
        "embedding_size": 64,
        "hidden_sizes": [64, 128, 256, 512],
        "depths": [2, 2, 2, 2],
    }
    given = find_encoder(str(write(tmp_path / "own", "resnet", **shape)))
    facts = facts_of_data(data_folder)
    source = Source(archive=str(data_folder))
    assert given.image == "resnet18"
    assert given.backbone.preprocessing.crop != 224
    recipe, takes = choose(source, replace(facts, side=256), given, 1.0, Teller(), imports=False)
    assert (recipe.frozen, recipe.image_encoder.crop) == (given.name, 224)
    assert takes.seconds["features"] > 0


# --- what the models are made of ---


@pytest.fixture
def project(data_folder: Path, tmp_path: Path) -> Path:
    shutil.copytree(data_folder, tmp_path / "project/data")
    return tmp_path / "project"


def test_facts_of_a_data_folder(project: Path) -> None:
    facts = facts_of_data(project / "data")
    rows = read_csv(project / "data/manifest.csv")
    assert facts.images == len(rows)
    assert facts.training == len({row["study_id"] for row in rows if row["split"] == "train"})
    assert facts.side == 80
    assert facts.has_reports
    paths = [project / "data" / row["image"] for row in rows]
    guessed = facts_of_archive(paths, 50, 3000, {"Edema": 20}, has_labels=False)
    assert (guessed.training, guessed.side, guessed.has_labels) == (40, 80, False)
    assert (guessed.tested.films, guessed.tested.present) == (5, {"Edema": 2})


def test_prompts_are_in_the_language_of_the_reports(project: Path) -> None:
    assert [*yaml.safe_load(prompts_of(project / "data"))] == ["Pleural Effusion", "Pneumothorax"]
    reports = project / "data/reports.csv"
    rows = ({**row, "findings": "Kein Pleuraerguss links."} for row in read_csv(reports))
    write_table(reports, ["study_id", "findings", "impression"], rows)
    found = yaml.safe_load(prompts_of(project / "data"))
    assert "Kein Pleuraerguss." in found["Pleural Effusion"]["negative"]


def test_the_import_of_a_project_is_told_what_the_user_says_and_keeps_an_order_in_time(
    project: Path,
) -> None:
    given = {"link": True, "ids": "loose", "follow_links": True}
    said = import_options(SOURCE.model_copy(update=given))
    assert (said.reports, said.columns) == (Path("/reports.csv"), SOURCE.columns)
    assert (said.link, said.ids, said.follow_links) == (True, "loose", True)
    rows = [{**row, "date": "2024-03-01"} for row in read_csv(project / "data/manifest.csv")]
    write_table(project / "data/manifest.csv", list(rows[0]), rows)
    kept = options_of(Source(archive=str(project / "data")), project / "out").keep
    assert kept == ("age", "days_since_first")


def test_an_archive_of_labels_alone_gets_reports_made_of_them(project: Path) -> None:
    source = Source(archive=str(project / "data"))
    assert not options_of(source, project / "out").label_sentences
    (project / "data/reports.csv").unlink()
    assert options_of(source, project / "out").label_sentences


def test_models_rest_on_the_training_studies_alone(project: Path) -> None:
    before = training_data(project)
    write_training_data(project, before)
    rows = read_csv(project / "data/manifest.csv")
    of = {row["study_id"]: row["split"] for row in rows}
    seen = {row["study_id"] for row in read_csv(project / REPORTS)}
    assert seen == {study for study, split in of.items() if split != "test"}
    third = read_csv(project / "data" / THIRD)
    train = [row for row in third if row["split"] == "train"]
    assert 0 < len(train) < before.studies
    assert [r for r in third if r["split"] != "train"] == [r for r in rows if r["split"] != "train"]

    def changed(split: str) -> bool:
        reports = project / "data/reports.csv"
        kept = reports.read_text()
        study = next(study for study, one in of.items() if one == split)
        rows = (
            {**row, "findings": "Another."} if row["study_id"] == study else row
            for row in read_csv(reports)
        )
        write_table(reports, ["study_id", "findings", "impression"], rows)
        now = training_data(project)
        reports.write_text(kept)
        return now != before

    fewer = replace(before, train=frozenset(sorted(before.train)[:-1]))
    assert noted(project) == replace(before, held_out=frozenset())
    assert fewer.serves(before, 1.1)
    assert not fewer.serves(before, 1.0)
    moved = replace(before, held_out=frozenset([min(before.train)]))
    assert not fewer.serves(moved, 1.1)  # it would be measured on what it has seen
    assert changed("train")
    assert changed("val")
    assert not changed("test")


# --- processes ---

WAITS = '''
import signal
from pathlib import Path
from cxrtext.project import processes

signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
processes.CHILD = """
import sys, threading, time
from cxrtext.images.sandbox_worker import end_with
threading.Thread(target=end_with, args=[int(sys.argv[1])], daemon=True).start()
print('waits', file=sys.stderr, flush=True)
time.sleep(600)
"""
try:
    with processes.running() as these:
        one = these.start(Path(), "one", 1, None)
        these.finish(one, "one", None)
finally:
    print("ended", flush=True)
'''


@pytest.mark.parametrize(("number", "last"), [(signal.SIGKILL, ""), (signal.SIGINT, "ended\n")])
def test_what_is_stopped_leaves_no_process(
    number: signal.Signals, last: str, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WAITS], cwd=tmp_path, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout, process.stderr:
        assert process.stderr.readline() == "waits\n"
        process.send_signal(number)
        # The pipes end when the last process that holds them is gone.
        assert process.stdout.read() == last
        process.stderr.read()
    process.wait()


def test_a_finished_model_that_cannot_be_taken_is_refused_before_films_are_imported(
    data_folder: Path, tmp_path: Path
) -> None:
    folder, out = tmp_path / "clip", tmp_path / "project"
    folder.mkdir()
    with torch.random.fork_rng():
        WRITERS["clip"](folder)
    (folder / "model.safetensors").write_bytes(b"x")
    done = cxrtext("fit", data_folder, "--out", out, "--model", folder, code=2)
    assert "model.safetensors: not readable as safetensors" in done.stderr
    assert not out.exists()


@pytest.mark.slow
def test_a_finished_model_takes_the_place_of_a_training(data_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "biomedclip"
    folder.mkdir()
    with torch.random.fork_rng():
        WRITERS["biomedclip"](folder)
    words = ["fit", data_folder, "--out", tmp_path / "project", "--model", folder]
    cxrtext(*words)
    best = tmp_path / "project/run/checkpoint-best"
    assert load_model(best).fingerprint == load_model(folder).fingerprint
    assert (best / "how-good.json").is_file()
    assert "again" not in cxrtext(*words).stderr
    for place in (tmp_path / "project", tmp_path / "project/index"):
        assert "images/" in cxrtext("search", place, "Left pleural effusion.").stdout
    assert "again" not in cxrtext("fit", tmp_path / "project").stderr


def test_a_plan_looks_at_whether_the_tables_join(data_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text("study_id,report\nX-77,Clear.\nX-78,Zebulon.\n")
    given = data_folder, "--reports", tmp_path / "r.csv", "--out", tmp_path / "project"
    done = cxrtext("fit", *given, "--plan", code=2)
    assert "r.csv: no report matched: none of its 2 has the study_id" in done.stderr
    assert "Zebulon" not in done.stderr
    assert not (tmp_path / "project").exists()
