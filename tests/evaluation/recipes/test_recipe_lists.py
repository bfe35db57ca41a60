"""Recipes as files, the digests of lists, and lists that published code draws."""

from hashlib import sha256
from pathlib import Path

import pytest

from cxrtext.errors import ConfigError, DataError
from cxrtext.evaluation.recipes import load_recipe, recipe_names
from cxrtext.evaluation.recipes.lists import (
    CHEXPERT_5X200,
    chexpert_5x200,
    digest_of_names,
    draw_rsna,
    draw_studies,
    name_of,
    read_list,
)
from cxrtext.records import write_table


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


def test_gloria_has_all_combinations_of_its_parts() -> None:
    content = load_recipe("chexpert-5x200").content
    assert content.prompts is not None
    prompts = content.prompts.prompts()
    assert [len(one.positive) for one in prompts.values()] == [210, 15, 192, 18, 36]
    kinds = ("pulmonary", "trace interstitial", "pulmonary interstitial", "mild pulmonary")
    assert prompts["Edema"].positive[:4] == tuple(f"{kind} edema" for kind in kinds)


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


def test_the_digest_is_of_sorted_distinct_names() -> None:
    expected = sha256(b"a.png\nb.png\n").hexdigest()
    assert digest_of_names(["b.png", "a.png", "b.png"]) == expected
    assert digest_of_names([]) == sha256(b"").hexdigest()


def test_what_stands_for_an_image() -> None:
    path = "images/CheXpert-v1.0-small/train/patient00001/study1/view1_frontal.jpg"
    assert name_of("tail", path) == "patient00001/study1/view1_frontal.jpg"
    assert name_of("file", path) == "view1_frontal.jpg"
    assert name_of("stem", "a/1.2.276.0.850819.dcm") == "1.2.276.0.850819"
    assert name_of("stem", "1.2.276.0.850819") == "1.2.276.0.850819"
    assert name_of("stem", "x/aa.DICOM") == "aa"


def test_the_split_of_rsna_does_not_depend_on_the_order_of_names() -> None:
    names = [f"{number:05d}" for number in range(41)]
    test, val = draw_rsna(reversed(names))
    assert (test, val) == draw_rsna(names)
    assert (len(test), len(val), len(test & val)) == (6, 7, 0)
    # As GLoRIA draws; another version of scikit-learn must not draw otherwise.
    assert sorted(test) == ["00004", "00011", "00025", "00030", "00031", "00038"]


def test_studies_are_drawn_by_the_digest_of_their_number() -> None:
    names = [f"{study}_IM-{image}.dcm" for study in range(200) for image in ("a", "b")]
    test, val = draw_studies(reversed(names))
    for name in names:
        tenth = int(sha256(name.split("_")[0].encode()).hexdigest(), 16) % 10
        assert (name in test, name in val) == (tenth < 3, tenth == 3)
    assert {name.split("_")[0] for name in test}.isdisjoint(n.split("_")[0] for n in val)


def chexpert_table(root: Path, each: int) -> list[dict[str, str]]:
    rows = []
    for number in range(each * 6):
        kind = number % 6
        row = dict.fromkeys(("Path", "Frontal/Lateral", "No Finding", *CHEXPERT_5X200), "")
        row["Path"] = f"CheXpert-v1.0-small/train/patient{number:05d}/study1/view1_frontal.jpg"
        row["Frontal/Lateral"] = "Lateral" if kind == 5 else "Frontal"
        row[CHEXPERT_5X200[min(kind, 4)]] = "1.0"
        row["Lung Opacity"] = "0.0"
        if number < 12:  # another finding beside, and one that is uncertain
            row["Fracture" if number < 6 else "Pneumonia"] = "1.0" if number < 6 else "-1.0"
        rows.append(row)
    root.mkdir(parents=True)
    write_table(root / "train.csv", list(rows[0]), rows)
    return rows


def test_chexpert_5x200_is_drawn_of_images_with_one_finding_alone(tmp_path: Path) -> None:
    rows = {row["Path"]: row for row in chexpert_table(tmp_path / "set", 210)}
    drawn = chexpert_5x200(tmp_path / "set")
    assert len(set(drawn)) == 1000
    assert drawn == chexpert_5x200(tmp_path / "set")
    for place, path in enumerate(drawn):
        row = rows[path]
        assert row[CHEXPERT_5X200[place // 200]] == "1.0"
        assert row["Frontal/Lateral"] == "Frontal"
        assert not row["Fracture"]
        assert not row["Pneumonia"]
    # RandomState(0).choice(208, size=200, replace=False) begins with 12, 80, 33, as in pandas
    firsts = ["patient00084", "patient00492", "patient00210"]
    assert [path.split("/")[2] for path in drawn[:3]] == firsts
    with pytest.raises(DataError, match="a class has fewer than 200 images"):
        chexpert_table(tmp_path / "small", 190)
        chexpert_5x200(tmp_path / "small")


def test_a_list_of_the_users_comes_before_the_drawn_one(tmp_path: Path) -> None:
    recipe = load_recipe("chexpert-5x200")
    chexpert_table(tmp_path / "set", 210)
    assert read_list(recipe, tmp_path / "set").where == "train.csv"
    own = tmp_path / "set/chexpert_5x200.csv"
    own.write_text("Path\nCheXpert-v1.0/train/patient00001/study2/view1_frontal.jpg\n")
    found = read_list(recipe, tmp_path / "set")
    assert (found.where, set(found.names)) == (own.name, {"patient00001/study2/view1_frontal.jpg"})
    assert found.known is None


def test_a_set_without_its_list(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="test_list.txt is missing, which lists the images of nih"):
        read_list(load_recipe("nih"), tmp_path)
