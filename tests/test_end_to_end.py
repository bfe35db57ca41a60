"""The main job, as a user runs it: a project of a few small phantoms, and questions about it.

Each command is started once at least in a process of its own (the server in one that nothing was
imported in before); a question that is only asked again is put to this process.
"""

import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from cxrtext.client import Client
from cxrtext.project.facts import facts_of_data
from cxrtext.project.recipe import (
    ImageEncoder,
    LanguageModel,
    Source,
    choose_recipe,
    with_steps,
    write_recipe,
)
from cxrtext.records import CHEX5
from tests.cli.conftest import cxrtext as in_this_process
from tests.conftest import Once, read_csv
from tests.server import serving_process
from tests.warm import Warm

ENVIRONMENT = {"OMP_NUM_THREADS": "1", **os.environ, "HF_HUB_OFFLINE": "1"}
COMMAND = ["-c", "from cxrtext_cli.main import main; main()"]

Command = Callable[..., str]


@pytest.fixture(scope="module")
def cxrtext(warm: Warm) -> Command:
    """What a command prints, in a process of its own."""

    def run(*arguments: str | Path) -> str:
        started = warm.start([*COMMAND, *arguments], env=ENVIRONMENT)
        out, err = started.communicate(timeout=1800)
        assert started.returncode == 0, err
        return out

    return run


def cxrtext_here(*arguments: str | Path) -> str:
    return in_this_process(*arguments).stdout


@pytest.fixture(scope="module")
def work(cxrtext: Command, once: Once) -> Path:
    """A project of phantoms."""
    return once("work", partial(do_the_work, cxrtext))


def do_the_work(cxrtext: Command, folder: Path) -> None:
    cxrtext("phantom", folder / "data", "--studies", "60", "--size", "72", "--seed", "3")
    usual = choose_recipe(
        Source(archive=str(folder / "data")), facts_of_data(folder / "data"), None, 1
    )
    training = with_steps(usual.train["training"], 6) | {"batch": 16, "warmup": 2}
    data = usual.train["data"] | {"resize": 72, "crop": 64}
    recipe = usual.model_copy(
        update={
            "source": Source(archive=str(folder / "data")),
            "language_model": LanguageModel(size="demo", epochs=2),
            "image_encoder": ImageEncoder(image="resnet-narrow", resize=72, crop=64, epochs=1),
            "train": {**usual.train, "data": data, "training": training},
        }
    )
    (folder / ".fit").mkdir()
    write_recipe(folder, recipe)
    cxrtext("fit", folder / "data", "--out", folder)


def test_the_scored_sentences_are_the_reports(work: Path) -> None:
    meta = json.loads((work / "sentences.csv.meta.json").read_text())
    splits = [row["split"] for row in read_csv(work / "data/manifest.csv")]
    assert meta["reports"] == sum(split != "test" for split in splits) < 60
    assert meta["sentences"] >= meta["distinct_sentences"] > 20


def test_evaluation_measures_all_three_tasks(cxrtext: Command, work: Path) -> None:
    found = json.loads(cxrtext("evaluate", work, "--split", "all", "--json"))
    assert found["images"] == 60
    rows = {(row["part"], row["group"], row["measure"]): row["value"] for row in found["results"]}
    assert {group for _, group, measure in rows if measure == "AUC"} >= {*CHEX5}
    directions = {group for part, group, _ in rows if part == "retrieval"}
    assert directions >= {"sentence to image", "image to sentence"}
    assert rows["grounding", "mean of findings", "CNR"] > 0
    # With --split all no validation images are left to choose a threshold on, and sixty patients
    # are too few to look at groups of them.
    named = {line.split(":")[0] for line in found["left_out"]}
    assert named == {"thresholds and temperatures", "slices"}


def test_search_finds_what_is_there(cxrtext: Command, work: Path) -> None:
    hits = json.loads(cxrtext("search", work, "Large left pleural effusion.", "--json"))
    assert len(hits) == 10
    assert {"score", "image", "study_id", "patient_id", "age", "sex", "view"} <= set(hits[0])


def test_a_dicom_phantom_is_like_its_png(cxrtext: Command, work: Path, tmp_path: Path) -> None:
    cxrtext_here(
        "phantom", tmp_path / "d", "--studies", "3", "--size", "72", "--seed", "3",
        "--format", "dicom",
    )  # fmt: skip
    cxrtext_here("phantom", tmp_path / "p", "--studies", "3", "--size", "72", "--seed", "3")
    one, other = (
        json.loads(ask("classify", work, tmp_path / image, "--json"))[0]
        for ask, image in (
            (cxrtext, "d/images/s000001.dcm"),
            (cxrtext_here, "p/images/s000001.png"),
        )
    )
    for finding in ("Edema", "Pneumothorax"):
        assert one[finding] == pytest.approx(other[finding], abs=0.05)


@pytest.fixture(scope="module")
def address(work: Path) -> Iterator[str]:
    """A server in a process of its own."""
    with serving_process(work, stderr=subprocess.PIPE) as (server, address):
        yield address
        server.send_signal(signal.SIGTERM)
        _, complaints = server.communicate(timeout=600)
        assert server.returncode == 0
        assert "Traceback" not in complaints


def test_the_page_and_the_api_answer(address: str) -> None:
    with urllib.request.urlopen(f"{address}/", timeout=600) as page:
        assert "Research use only" in page.read().decode()
    with urllib.request.urlopen(f"{address}/v1/model", timeout=600) as answer:
        assert json.load(answer)["images"] == 60


@pytest.mark.data
@pytest.mark.skipif("CXRTEXT_TEST_DATA" not in os.environ, reason="CXRTEXT_TEST_DATA is not set")
def test_a_real_dicom_file_gives_the_same_over_http_and_on_the_command_line(
    work: Path, address: str
) -> None:
    path = Path(os.environ["CXRTEXT_TEST_DATA"]) / "dicom/cr_chest_mono1_15bit_j2k.dcm"
    (row,) = json.loads(cxrtext_here("classify", work, path, "--json"))
    with Client(address, timeout=600) as client:
        findings = client.classify(path).findings
    assert {one.finding for one in findings} == {*row} - {
        "image",
        "unlike",
        "flagged",
        "threshold of",
    }
    for one in findings:
        assert one.probability == pytest.approx(row[one.finding], abs=1e-4)
