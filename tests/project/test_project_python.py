"""A project as Python asks it: every kind of image, and what is given back."""

import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import cxrtext
from cxrtext.errors import CheckpointError, ConfigError, DataError, InputError, UnavailableError
from cxrtext.evaluation import Prompts
from cxrtext.evaluation.how_good import HowGood
from cxrtext.project import Project
from tests.conftest import draw, read_csv
from tests.datasets.written import save_radiograph

EFFUSION = "Left pleural effusion."
KNOWN = "images/s01.png"  # an effusion of the index
PAIR = {"Effusion": (EFFUSION, "The lungs are clear.")}


@pytest.fixture(scope="module")
def project(project_folder: Path) -> Iterator[Project]:
    with cxrtext.open(project_folder) as opened:
        yield opened


def test_a_project_a_checkpoint_and_an_index_open(
    project: Project, project_folder: Path, checkpoint: Path, index_folder: Path
) -> None:
    assert "48 images, 3 sentences" in repr(project)
    with cxrtext.open(str(index_folder)) as of_index:
        assert np.array_equal(of_index.embed(KNOWN), project.embed(KNOWN))
    with cxrtext.open(checkpoint) as alone, pytest.raises(InputError, match="no index is loaded"):
        alone.search(EFFUSION)
    with cxrtext.open(checkpoint, index=index_folder) as both:
        assert repr(both.search(EFFUSION)).endswith("10 of 48 images")
    with pytest.raises(CheckpointError, match="not an index"):
        cxrtext.open(project_folder, index=project_folder)
    with pytest.raises(DataError, match="no such folder"):
        cxrtext.open(project_folder / "x")


COLORS = np.random.default_rng(5).integers(0, 255, (90, 70, 3)).astype(np.uint8)
DEEP = draw("effusion", 3).astype(np.uint16) * 200 + 9
KINDS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "array": (draw("effusion", 3), lambda pixels: pixels),
    "floats": (draw("effusion", 3), lambda pixels: pixels / 255),
    "float32": (draw("effusion", 3), lambda pixels: np.float32(pixels) / np.float32(255)),
    "Pillow": (draw("effusion", 3), Image.fromarray),
    "F": (draw("effusion", 3), lambda pixels: Image.fromarray(np.float32(pixels / 255))),
    "colors": (COLORS, lambda pixels: pixels),
    "colored floats": (COLORS, lambda pixels: pixels / 255),
    "colored Pillow": (COLORS, Image.fromarray),
    "16 bits": (DEEP, lambda pixels: pixels),
    "16 bits of Pillow": (DEEP, Image.fromarray),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_picture_in_memory_is_the_same_as_its_file(
    kind: str, project: Project, tmp_path: Path
) -> None:
    pixels, made = KINDS[kind]
    path = tmp_path / "a.png"
    Image.fromarray(pixels).save(path)
    expected = project.service.embed_file(path)
    for given in (made(pixels), path, str(path)):
        found = project.image(given)
        assert torch.allclose(
            found.embedded.regions,
            expected.regions,
            atol=1e-3 if kind == "colored floats" else 1e-6,
        )
        assert (found.embedded.height, found.embedded.width) == pixels.shape[:2]
        assert found.read().shape == pixels.shape[:2]


def test_a_turned_jpeg_and_dicom(project: Project, tmp_path: Path) -> None:
    turned, exif = Image.fromarray(COLORS), Image.Exif()
    exif[0x0112] = 6
    turned.save(tmp_path / "a.jpg", exif=exif)
    save_radiograph(tmp_path / "a.dcm", "1.2.3", draw("effusion", 4))
    for path in (tmp_path / "a.jpg", tmp_path / "a.dcm"):
        expected = project.service.embed_file(path).regions
        assert torch.equal(project.image(path).embedded.regions, expected)
    with Image.open(tmp_path / "a.jpg") as picture:
        of_memory = project.image(picture)
    assert torch.equal(
        of_memory.embedded.regions, project.image(tmp_path / "a.jpg").embedded.regions
    )
    assert of_memory.read().shape == (70, 90)


def test_an_id_is_an_indexed_image_unless_a_file_has_the_name(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    hit = next(hit for hit in project.search(EFFUSION, k=48) if hit.image.image == KNOWN)
    for given in (KNOWN, hit):
        opened = project.image(given)
        assert torch.equal(opened.embedded.regions, project.service.embedded(KNOWN).regions)
        assert np.array_equal(opened.read(), draw("effusion", 1))
    (tmp_path / "images").mkdir()
    Image.fromarray(draw("clear", 0, 50)).save(KNOWN)
    assert project.image(KNOWN).read().shape == (50, 50)


WRONG: dict[str, tuple[Any, str]] = {
    "shape": (np.zeros((1, 80, 80), np.uint8), r"is \[1, 80, 80\]; an image is \[H, W\]"),
    "channels": (np.zeros((80, 80, 4), np.uint8), "an image is"),
    "line": (np.zeros(80, np.uint8), "an image is"),
    "dtype": (np.zeros((80, 80), np.int64), "is int64; give uint8"),
    "bool": (np.zeros((80, 80), bool), "is bool; give uint8"),
    "NaN": (np.full((80, 80), np.nan), "from nan to nan; give floats"),
    "one NaN": (np.where(np.eye(80) > 0, np.nan, 0.5), "from nan to nan; give floats"),
    "range": (np.full((80, 80), 255.0), "from 255 to 255; give floats"),
    "empty": (np.zeros((0, 80), np.float32), "is 80 x 0 pixels"),
    "Pillow": (Image.fromarray(np.full((8, 8), -1, np.int32)), "the Pillow image: is int32"),
    "type": ({"image": 1}, "cannot be a dict; give a path"),
    "id": ("images/none.png", "'images/none.png': neither a file nor the id"),
    "long": ("x" * 5000, "neither a file nor the id"),
    "path": (Path("none.png"), "none.png: cannot be opened"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_image(what: str, project: Project) -> None:
    given, says = WRONG[what]
    for ask in (project.classify, project.embed):
        with pytest.raises(InputError, match=says) as error:
            ask(given)
        assert "\n" not in str(error.value)


def test_a_file_that_is_no_image(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("no picture")
    with pytest.raises(InputError, match="is not a PNG, JPEG or DICOM file"):
        project.classify(str(path))


def test_findings_are_a_mapping_and_a_table(project: Project, tmp_path: Path) -> None:
    found = project.classify(KNOWN, PAIR)
    expected = project.service.classify(
        project.service.embedded(KNOWN), {"Effusion": Prompts((EFFUSION,), (PAIR["Effusion"][1],))}
    )
    assert [found["Effusion"]] == expected == list(found.values())
    assert found.table().column("probability").to_pylist() == [expected[0].probability]
    assert f"<td>{expected[0].probability:.3f}</td>" in found._repr_html_()
    assert f"{expected[0].probability:.3f}" in repr(found)
    assert len(project.classify(KNOWN)) == 5
    (tmp_path / "p.yaml").write_text(f"Effusion:\n  positive: {EFFUSION}\n  negative: No.\n")
    assert list(project.classify(KNOWN, tmp_path / "p.yaml")) == ["Effusion"]
    many = project.classify([KNOWN, draw("clear", 9)], PAIR)
    assert many.table().to_pydict() == {
        "image": [KNOWN, "the array"],
        "Effusion": [one["Effusion"].probability for one in many],
    }
    assert many[0]["Effusion"] == found["Effusion"]
    assert many[0]["Effusion"].score > many[1]["Effusion"].score
    for wrong in (EFFUSION, (EFFUSION,)):
        with pytest.raises(InputError, match="prompts of 'Effusion': give what affirms it"):
            project.classify(KNOWN, {"Effusion": wrong})  # type: ignore[dict-item]


def test_vectors_and_scores_are_those_of_searches(project: Project) -> None:
    one, other = project.embed(KNOWN), project.embed("images/s04.png")
    assert one.dtype == np.float32
    assert np.linalg.norm(one) == pytest.approx(1, abs=1e-5)
    hits = {hit.image.image: hit.score for hit in project.search(image=KNOWN, k=48)}
    assert one @ other == pytest.approx(hits["images/s04.png"], abs=1e-4)
    said = project.embed_text(EFFUSION)
    assert said.shape == one.shape
    assert np.linalg.norm(said) == pytest.approx(1, abs=1e-5)
    score = {hit.image.image: hit.score for hit in project.search(EFFUSION, k=48)}[KNOWN]
    assert project.score(KNOWN, EFFUSION) == pytest.approx(score, abs=1e-4)
    assert project.ground(KNOWN, EFFUSION).score == pytest.approx(score, abs=1e-4)


def test_a_search_honours_where_without_and_unique(project: Project) -> None:
    found = project.search(EFFUSION, k=5, where="age > 60")
    assert len(found) == 5
    assert all(int(hit.image.metadata["age"]) > 60 for hit in found)
    assert found[:2] == (found[0], found[1])
    assert found.table().column("age").to_pylist() == [hit.image.metadata["age"] for hit in found]
    assert "5 of 27 images" in found._repr_html_()
    without = project.search(EFFUSION, k=5, where="age > 60", without="Right pneumothorax.")
    assert [hit.score for hit in without] != [hit.score for hit in found]
    assert len(project.search(EFFUSION, k=48, unique="patient")) == 48
    with pytest.raises(InputError, match="unique: Input should be .patient., .study. or .picture."):
        project.search(EFFUSION, unique="person")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="the filter leaves no image: age holds"):
        project.search(EFFUSION, where="age > 'abc'")
    nothing = project.search(EFFUSION, where="age > 100")
    assert (len(nothing), nothing.table().num_rows) == (0, 0)
    assert nothing.table().column_names[:2] == ["score", "image"]


def test_sentences_and_the_images_of_the_index(project: Project, data_folder: Path) -> None:
    assert project.search_sentences(EFFUSION, k=1)[0].sentence == EFFUSION
    assert project.search_sentences(image=KNOWN, k=3).table().num_rows == 3
    assert len(project.search_sentences(EFFUSION, where="image = 'images/s01.png'")) == 1
    with pytest.raises(InputError, match="give a query, image"):
        project.search_sentences()
    rows = read_csv(data_folder / "manifest.csv")
    some = project.images("split = 'test'")
    assert [one.image for one in some] == [r["image"] for r in rows if r["split"] == "test"]
    table = project.images().table()
    assert table.column("age").to_pylist() == [row["age"] for row in rows]
    labels = table.column("label.Pleural Effusion").to_pylist()
    expected = [project.classify(row["image"])["Pleural Effusion"].probability for row in rows[:4]]
    assert labels[:4] == pytest.approx(expected, abs=0.02)


def test_a_report_is_verified(project: Project) -> None:
    report = f"FINDINGS: {EFFUSION} No right pneumothorax."
    found = project.verify(KNOWN, report)
    expected = project.service.verify(project.service.embedded(KNOWN), report)
    said = [(one.sentence, one.verdict, one.support) for one in expected.sentences]
    assert [(one.sentence, one.verdict, one.support) for one in found] == said
    rows = found.table().to_pylist()
    assert [(row["sentence"], row["verdict"], row["support"]) for row in rows] == said


def test_a_heatmap_lies_over_the_picture(project: Project, tmp_path: Path) -> None:
    pixels = draw("effusion", 3, 120)
    found = project.ground(pixels, EFFUSION)
    assert found.map.shape == (120, 120)
    x, y = map(int, found.peak)
    assert found.map[y, x] == pytest.approx(np.nanmax(found.map), abs=0.02)
    plain = project.service.ground(found.image.embedded, EFFUSION)
    assert (found.boxes, found.peak, found.score) == (plain.boxes, plain.peak, plain.score)
    overlay = found.overlay()
    assert (overlay.size, overlay.mode) == ((120, 120), "RGB")
    assert "Left pleural effusion." in found._repr_html_()
    assert project.image(pixels)._repr_png_().startswith(b"\x89PNG")
    assert "&lt;x&gt;" in replace(found, sentence="<x>", read_as=None)._repr_html_()


def test_a_plot_has_the_overlay(project: Project) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    found = project.ground(KNOWN, EFFUSION)
    _, given = pyplot.subplots()
    for ax in (found.plot(), found.plot(given)):
        (drawn,) = ax.images
        assert np.array_equal(np.asarray(drawn.get_array()), np.asarray(found.overlay()))
        assert EFFUSION in ax.get_title()
        ax.figure.canvas.draw()
    assert found.plot(given) is given
    pyplot.close("all")


def test_data_frames_need_pandas(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UnavailableError, match="needs pandas, which is not installed"):
        project.classify(KNOWN).to_pandas()


def test_how_good_the_model_is(project: Project, checkpoint: Path, tmp_path: Path) -> None:
    assert project.summary == ()
    folder = shutil.copytree(checkpoint, tmp_path / "checkpoint")
    lines = ("AUC .90 < 1", "of 2 findings")
    HowGood(fingerprint=project.service.model.fingerprint, lines=lines).save(folder)
    with cxrtext.open(folder) as measured:
        assert measured.summary == lines
        assert "<li>AUC .90 &lt; 1</li>" in measured._repr_html_()


def test_vectors_of_one_several_and_all(project: Project) -> None:
    every = project.embeddings()
    assert (len(every), every.vectors.shape) == (48, (48, 16))
    known = every.vectors[every.ids.index(KNOWN)]
    assert np.allclose(known, project.embed(KNOWN), atol=1e-6)
    assert np.array_equal(np.asarray(every), every.vectors)
    assert every.table().column_names[:2] == ["image", "e0"]
    column: Any = type("Series", (list,), {"__module__": "pandas.core.series"})
    several: Any
    for several in ([KNOWN, "images/s07.png"], column([KNOWN, "images/s07.png"])):
        assert np.allclose(project.embed(several)[0], known, atol=1e-6)
        assert [row["image"] for row in project.classify(several).table().to_pylist()] == several
    assert project.embed([]).shape == (0, 16)
    texts = project.embed_text([EFFUSION, "No effusion."])
    assert np.array_equal(texts[0], project.embed_text(EFFUSION))
    with pytest.raises(InputError, match="a sentence, or several"):
        project.embed_text(3)  # type: ignore[call-overload]
    assert len(project.embeddings("split = 'test'")) < 48


def test_making_from_python_refuses_as_the_commands_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"settings: training\.lr"):
        cxrtext.train({"training": {"lr": "fast"}})
    with pytest.raises(InputError, match="no such file or folder"):
        cxrtext.fit(tmp_path / "none", tmp_path / "project")
    assert not list(tmp_path.iterdir())
