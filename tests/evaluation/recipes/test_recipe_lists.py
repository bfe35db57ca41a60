"""Recipes as files, the digests of lists, and lists that published code draws."""

from hashlib import sha256
from pathlib import Path

import pytest

from cxrtext.errors import ConfigError, DataError
from cxrtext.evaluation.recipes import load_recipe, recipe_names
from cxrtext.evaluation.recipes.lists import (
    draw_studies,
    name_of,
    read_list,
)


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_names_itself_and_has_what_it_measures(name: str) -> None:
    recipe = load_recipe(name)
    content = recipe.content
    assert (recipe.name, recipe.sha256) == (name, sha256(recipe.text.encode()).hexdigest())
    assert ("labels" in content.takes) == (content.prompts is not None)
    assert all(one.sha256 for one in content.images.known) or content.not_had
    if content.prompts is not None:
        prompts = content.prompts.prompts()
        assert set(content.expected.positives) <= set(prompts)
        for sides in prompts.values():
            for phrase in (*sides.positive, *sides.negative):
                assert phrase == " ".join(phrase.split())
                assert "{" not in phrase
            assert not set(sides.positive) & set(sides.negative)


def test_a_recipe_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no recipe 'nhi'; there are chestx-det10, "):
        load_recipe("nhi")
    path = tmp_path / "own.yaml"
    path.write_text(load_recipe("nih").text.replace("takes: [labels, boxes]", "takes: [masks]"))
    with pytest.raises(DataError, match=r"own.yaml: takes.0: Input should be 'labels'"):
        load_recipe(path)
    path.write_text(load_recipe("nih").text + "more: 1\n")
    with pytest.raises(DataError, match=r"own.yaml: more: Extra inputs are not permitted"):
        load_recipe(path)


def test_what_stands_for_an_image() -> None:
    path = "images/CheXpert-v1.0-small/train/patient00001/study1/view1_frontal.jpg"
    assert name_of("tail", path) == "patient00001/study1/view1_frontal.jpg"
    assert name_of("file", path) == "view1_frontal.jpg"
    assert name_of("stem", "a/1.2.276.0.850819.dcm") == "1.2.276.0.850819"
    assert name_of("stem", "1.2.276.0.850819") == "1.2.276.0.850819"
    assert name_of("stem", "x/aa.DICOM") == "aa"


def test_studies_are_drawn_by_the_digest_of_their_number() -> None:
    names = [f"{study}_IM-{image}.dcm" for study in range(200) for image in ("a", "b")]
    test, val = draw_studies(reversed(names))
    for name in names:
        tenth = int(sha256(name.split("_")[0].encode()).hexdigest(), 16) % 10
        assert (name in test, name in val) == (tenth < 3, tenth == 3)
    assert {name.split("_")[0] for name in test}.isdisjoint(n.split("_")[0] for n in val)


def test_lists_of_a_file_and_of_none(tmp_path: Path) -> None:
    recipe = load_recipe("rsna")
    with pytest.raises(DataError, match="^rsna: an imported set does not tell .* --list FILE"):
        read_list(recipe, [])
    path = tmp_path / "list.txt"
    path.write_bytes(b"\xef\xbb\xbfaa.DCM\r\nbb\r\n\r\n")  # as editors of Windows leave it
    found = read_list(recipe, [], path)
    assert found.where == "list.txt"
    assert found.test == {"aa", "bb"}
    assert not found.val
    path.write_bytes(b"\n")
    with pytest.raises(DataError, match="lists no image; give a file with one name a line"):
        read_list(recipe, [], path)
    path.write_bytes(b"\x89PNG\r\n\xff\xfe")
    with pytest.raises(DataError, match="not UTF-8 text"):
        read_list(recipe, [], path)
