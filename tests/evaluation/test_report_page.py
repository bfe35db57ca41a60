"""The files of a report."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cxrtext.evaluation import Evaluation, Prompts, Settings, evaluate
from cxrtext.evaluation.blocks import number, with_interval
from cxrtext.evaluation.report import ReportOptions, write_report
from cxrtext.evaluation.report.charts import forest, frequency_legend, histogram
from cxrtext.evaluation.report.definitions import DEFINITIONS
from cxrtext.evaluation.report.neighbours import affinities, embed_neighbours
from cxrtext.evaluation.report.svg import MOST_POINTS, thinned
from cxrtext.records import Box, write_boxes

PROMPTS = {
    "Pleural Effusion": Prompts(("Left pleural effusion.",), ("The lungs are clear.",)),
    "Pneumothorax": Prompts(("Right pneumothorax. <b>",), ("The lungs are clear.",)),
}
VOID = {"meta", "br", "img"}


class Nesting(HTMLParser):
    """Checks that tags nest, and collects what a page refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def evaluated(
    checkpoint: Path, data_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Evaluation:
    boxes = [
        Box(f"images/s{i:02d}.png", 80, 80, "Pleural Effusion", "Left pleural effusion.", corner)
        for i in range(1, 48, 3)
        for corner in [(40.0, 40.0, 40.0, 40.0)]
    ]
    path = tmp_path_factory.mktemp("boxes") / "boxes.json"
    write_boxes(path, boxes)
    settings = Settings(resamples=50, boxes=path, probe=True)
    return evaluate(checkpoint, data_folder, prompts=PROMPTS, settings=settings)


def read(folder: Path, name: str) -> str:
    return (folder / name).read_text(encoding="utf-8")


def test_the_page_stands_alone(evaluated: Evaluation, tmp_path: Path) -> None:
    write_report(tmp_path, evaluated)
    page = read(tmp_path, "report.html")
    parser = Nesting()
    parser.feed(page)
    assert parser.open == []
    assert not {"script", "link", "iframe", "object"} & parser.tags
    assert all(source.startswith(("data:image/png;base64,", "#")) for source in parser.sources)
    assert "default-src 'none'" in page
    assert not re.search(r"url\(|@import|https?:", page)
    anchors = set(re.findall(r'<h2 id="([^"]+)"', page))
    assert {s[1:] for s in parser.sources if s.startswith("#")} == anchors
    assert "Right pneumothorax. &lt;b&gt;" in page  # what a user wrote is escaped
    assert "prefers-color-scheme:dark" in page
    assert "@media print" in page
    assert "nan" not in re.sub(r"base64,[^\"]*", "", page).lower().split()


def test_pictures_are_said_and_can_be_left_out(evaluated: Evaluation, tmp_path: Path) -> None:
    write_report(tmp_path / "with", evaluated, ReportOptions(examples=2))
    with_pictures = read(tmp_path / "with", "report.html")
    # two best and two worst in pairs, and two sentences with six images each
    assert with_pictures.count("data:image/png") == 2 * 2 * 2 + 2 * 6
    assert "This page holds pixels of patients" in with_pictures
    write_report(tmp_path / "without", evaluated, ReportOptions(pictures=False))
    plain = read(tmp_path / "without", "report.html")
    assert "data:image" not in plain
    assert "holds pixels" not in plain
    assert "in 4 reports" not in plain


def test_the_tables_of_the_paper_stand_beside_ours(evaluated: Evaluation, tmp_path: Path) -> None:
    write_report(tmp_path, evaluated)
    text = read(tmp_path, "report.md")
    for row in (
        "| DCL-η_LM (paper) | 0.86 | 0.72 | 1.49 | 0.20 | 0.30 | 104 |",
        "| LSE+NL with DCL-η_LM (paper) | 0.884 | 0.889 | 0.913 | 0.861 | 0.760 | 0.862 |",
        "| LSE+NL with DCL-η_LM (paper) | 1.486 | 0.195 |",
        "| BioViL (paper) | 0.07 | 0.26 | 0.40 | 151 | 0.08 | 0.26 | 0.40 | 146 |",
    ):
        assert row in text
    assert text.startswith("# Evaluation\n")
    assert "Research use only" in text
    for name in DEFINITIONS:
        assert f"| {name} |" in text
    assert "## Linear probes" in text


def finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(finite, value.values()))
    if isinstance(value, list):
        return all(map(finite, value))
    return not isinstance(value, float) or bool(np.isfinite(value))


def test_the_metrics_are_finite(evaluated: Evaluation, tmp_path: Path) -> None:
    write_report(tmp_path, evaluated)
    metrics = json.loads(read(tmp_path, "metrics.json"))
    assert finite(metrics)
    assert metrics["grounding"]["mean"]["CNR"] > 0
    assert set(metrics["grounding"]["mean"]["intervals"]) >= {"CNR", "mIoU", "pointing game"}
    assert metrics["box_retrieval"]["MedR"] >= 1
    assert metrics["settings"]["resamples"] == 50


def test_a_report_of_nothing_but_images(
    checkpoint: Path, data_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "set"
    (folder / "images").mkdir(parents=True)
    image = (data_folder / "images/s00.png").read_bytes()
    (folder / "images/a.png").write_bytes(image)
    (folder / "manifest.csv").write_text("image,study_id,split\nimages/a.png,a,test\n")
    result = evaluate(checkpoint, folder)
    write_report(tmp_path / "out", result)
    assert "Left out" in read(tmp_path / "out", "report.html")
    assert len(result.left_out) == 3


def test_clusters_stay_together() -> None:
    generator = np.random.default_rng(0)
    centres = generator.normal(size=(3, 8)) * 6
    points = np.concatenate([centre + generator.normal(size=(20, 8)) for centre in centres])
    placed = embed_neighbours(points)
    distances = ((placed[:, None] - placed) ** 2).sum(axis=-1)
    np.fill_diagonal(distances, np.inf)
    of = np.repeat(np.arange(3), 20)
    assert (of[distances.argmin(axis=1)] == of).all()
    assert np.array_equal(placed, embed_neighbours(points))


def test_affinities_have_the_perplexity_asked_for() -> None:
    points = np.random.default_rng(1).normal(size=(40, 5))
    joint = affinities(points, 10.0)
    assert joint.sum() == pytest.approx(1)
    assert np.allclose(joint, joint.T)
    with pytest.raises(ValueError, match="perplexity"):
        affinities(points[:2], 1.0)
    with pytest.raises(ValueError, match="can be placed"):
        embed_neighbours(points[:2])


def test_equal_points_are_placed() -> None:
    assert np.isfinite(embed_neighbours(np.zeros((12, 4)))).all()


def test_drawings() -> None:
    assert len(thinned([(float(i), 0.0) for i in range(5000)])) == MOST_POINTS
    svg = histogram(np.array([-0.5, 0.2, 0.3, 1.9]), "CNR", "signed CNR")
    assert svg.count('class="fill c1"') + svg.count('class="fill c0"') >= 24
    assert "nan" not in svg
    assert "a &lt;b" in forest([("a <b", 0.5, (0.4, 0.6))], "t", "x")
    assert "nan" not in histogram(np.array([1.0]), "one", "x")
    assert frequency_legend((1, 2, 4)) == ("1", "2–3", "4 or more")
    assert number(-0.5, 2) == "−0.50"
    assert with_interval(None, None) == "–"
    assert with_interval(0.5, (0.25, 0.75), 2) == "0.50 [0.25, 0.75]"
