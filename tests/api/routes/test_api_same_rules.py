"""Each rule of each question is refused alike by HTTP, the command line, the client and Python."""

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

import cxrtext as library
from cxrtext.client import Client, ImageId
from cxrtext.errors import CxrTextError, InputError
from cxrtext.project import Project
from cxrtext.service.limits import MAX_REPORT_CHARACTERS, MAX_RESULTS
from cxrtext.service.questions import Classify, Ground, Question, Search, Verify
from cxrtext_cli.commands.archive.search import search
from tests.commands import cxrtext

FILE = Path("images/s01.png")  # below the data folder
SAID, IMAGE = {"query": ["Effusion."]}, {"image": FILE}
RULES: list[tuple[type[Question], dict[str, Any], str]] = [
    (Search, {}, "give a query"),
    (Search, {"query": ["…"]}, "the sentence is empty"),
    (Search, {"query": ["e" * 2001]}, "2001 characters"),
    (Search, SAID | {"not": ["!"]}, "the sentence is empty"),
    (Search, SAID | {"not": ["Tube."] * 17}, "at most 16"),
    (Search, IMAGE | {"image_id": "x"}, "not both"),
    (Search, {"query": ["A.", "B."], "target": "sentences"}, "not by both"),
    (Search, SAID | IMAGE | {"target": "sentences"}, "not by both"),
    (Search, SAID | {"not": ["B."], "target": "sentences"}, "only for a search for images"),
    (Search, SAID | {"unique": "study", "target": "sentences"}, "only for a search for images"),
    (Search, SAID | {"mode": "fast", "target": "sentences"}, "only for a search for images"),
    (Search, SAID | {"exclude_patient": ["p"], "target": "sentences"}, "only for a search for"),
    (Search, {"image_id": "x", "other_patients": True, "target": "sentences"}, "only for a search"),
    (Search, SAID | {"other_patients": True}, "needs"),
    (Search, IMAGE | {"other_patients": True}, "a file does not say whose"),
    (Search, SAID | {"image_weight": 0.5}, "needs a query and an image"),
    (Search, SAID | IMAGE | {"image_weight": 1.5}, "less than or equal to 1"),
    (Search, IMAGE | {"as_written": True}, "needs a query"),
    (Search, SAID | {"k": 0}, "greater than or equal to 1"),
    (Search, SAID | {"k": MAX_RESULTS + 1}, "less than or equal to 1000"),
    (Search, SAID | {"offset": 10_001}, "less than or equal to 10000"),
    (Search, SAID | {"min_score": 2.5}, "less than or equal to 2"),
    (Search, SAID | {"where": "e" * 10_001}, "at most 10000 characters"),
    (Search, SAID | {"exclude_patient": ["p"] * 65}, "at most 64"),
    (Search, SAID | {"unique": "person"}, "patient"),
    (Search, SAID | {"mode": "slow"}, "exact"),
    (Search, SAID | {"target": "films"}, "sentences"),
    (Classify, {}, "give image"),
    (Classify, IMAGE | {"image_id": "x"}, "not both"),
    (Classify, IMAGE | {"prompts": {}}, "0 prompts"),
    (Classify, IMAGE | {"prompts": {"a": (["!"], ["None."])}}, "the sentence is empty"),
    (Classify, IMAGE | {"prompts": {"a": ([], ["None."])}}, "at least one sentence"),
    (Classify, IMAGE | {"prompts": {"a": (["A."] * 64, ["None."])}}, "65 prompts"),
    (Ground, {"sentence": "Effusion."}, "give image"),
    (Ground, IMAGE | {"sentence": "…"}, "the sentence is empty"),
    (Ground, IMAGE | {"sentence": "e" * 2001}, "2001 characters"),
    (Ground, IMAGE | {"sentence": "Effusion.", "threshold": 1.5}, "less than or equal to 1"),
    (Ground, IMAGE | {"sentence": "…", "as_written": True}, "the sentence is empty"),
    (Verify, {"report": "Effusion."}, "give image"),
    (Verify, IMAGE | {"report": "e" * (MAX_REPORT_CHARACTERS + 1)}, "at most 20000 characters"),
    (Verify, IMAGE | {"report": "TECHNIQUE: PA."}, "no sentence of findings"),
    (Verify, IMAGE | {"report": "Effusion.", "threshold": -1.5}, "greater than or equal to -1"),
]


def test_every_field_of_every_question_has_a_rule() -> None:
    for kind in (Search, Classify, Ground, Verify):
        named = {name for asked, given, _ in RULES if asked is kind for name in given}
        fields = {one.alias or name for name, one in kind.model_fields.items()}
        lacking = set() if kind in (Search, Classify) else {"image_id"}  # it is Question's own
        assert fields - named == lacking, kind


@pytest.fixture(scope="module")
def project(project_folder: Path) -> Iterator[Project]:
    with library.open(project_folder) as opened:
        yield opened


@pytest.mark.parametrize(("kind", "given", "says"), RULES)
def test_over_http(
    kind: type[Question], given: dict[str, Any], says: str, client: TestClient, data_folder: Path
) -> None:
    form = {**given}
    file = form.pop("image", None)
    if "prompts" in form:
        sides = {n: {"positive": p, "negative": o} for n, (p, o) in form["prompts"].items()}
        form["prompts"] = json.dumps(sides)
    files = {"image": (data_folder / file).read_bytes()} if file else None
    answer = client.post(f"/v1/{kind.__name__.lower()}", data=form, files=files)
    assert answer.status_code == 422
    assert says in answer.text


@pytest.mark.parametrize(("kind", "given", "says"), RULES)
def test_by_the_client(
    kind: type[Question], given: dict[str, Any], says: str, client: TestClient, data_folder: Path
) -> None:
    if "image_id" in given and kind is Classify:
        return  # an ImageId takes the place of a file: there is no way to give both
    asked = {**given}
    image = data_folder / asked.pop("image") if "image" in asked else None
    asked |= {"without": asked.pop("not")} if "not" in asked else {}
    with Client("http://localhost", http=client) as remote:
        ask = getattr(remote, kind.__name__.lower())
        if "image_id" in asked and image is None:
            image = ImageId(asked.pop("image_id"))
        with pytest.raises(CxrTextError) as caught:
            ask(asked.pop("query", ()), image, **asked) if kind is Search else ask(image, **asked)
    assert says in str(caught.value)


@pytest.mark.parametrize(("kind", "given", "says"), RULES)
def test_in_python(
    kind: type[Question], given: dict[str, Any], says: str, project: Project, data_folder: Path
) -> None:
    asked = {**given}
    image = data_folder / asked.pop("image") if "image" in asked else None
    asked |= {"without": asked.pop("not")} if "not" in asked else {}
    ask = getattr(project, kind.__name__.lower())
    if "image_id" in asked and kind is Classify:
        return  # an id takes the place of a file
    with pytest.raises(InputError) as caught:
        ask(asked.pop("query", None), image, **asked) if kind is Search else ask(image, **asked)
    assert says in str(caught.value)


@pytest.mark.parametrize(("kind", "given", "says"), [rule for rule in RULES if rule[0] is Search])
def test_on_the_command_line(
    kind: type[Question], given: dict[str, Any], says: str, project_folder: Path, data_folder: Path
) -> None:
    options = set(inspect.signature(search).parameters)
    if set(given) - options - {"not"} or len(given.get("query", ())) > 1:
        return  # the command has no such option, and takes one sentence
    words: list[object] = list(given.get("query", ()))
    for name, value in given.items():
        option = "-k" if name == "k" else f"--{name.replace('_', '-')}"
        if name == "not":
            words += [word for one in value for word in (option, one)]
        elif name == "image":
            words += [option, data_folder / value]
        elif name != "query":
            words += [option] if value is True else [option, value]
    done = cxrtext("search", project_folder, *words, code=2)
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("kind", "given", "says"),
    [(kind, given, says) for kind, given, says in RULES if kind in (Ground, Verify)],
)
def test_ground_and_verify_on_the_command_line(
    kind: type[Question], given: dict[str, Any], says: str, project_folder: Path, data_folder: Path
) -> None:
    if "image" not in given or "threshold" in given:
        return  # the commands always want the first, and have no option of the second
    image, text = data_folder / FILE, given.get("sentence", "-")
    written = ["--as-written"] if "as_written" in given else []
    report = given.get("report", "").encode()
    name = kind.__name__.lower()
    assert says in cxrtext(name, project_folder, image, text, *written, text=report, code=2).stderr
