"""Prompts, settings and evaluations that several files of tests share."""

from pathlib import Path

import pytest

from cxrtext.evaluation import Evaluation, Prompts, Settings, evaluate
from cxrtext.evaluation.predictions.columns import Images
from cxrtext.metrics.maps import box_mask
from cxrtext.records import Absent, Box, write_boxes
from cxrtext.records.masks import runs_of_mask

QUICK = Settings()
PROMPTS = {
    "Pleural Effusion": Prompts(("Left pleural effusion.",), ("The lungs are clear.",)),
    "Pneumothorax": Prompts(("Right pneumothorax.",), ("The lungs are clear.",)),
}


def images_of_two(count: int) -> Images:
    """So many test images, two of each patient."""
    names = [f"i{place}" for place in range(count)]
    return Images(names, names, [f"p{place // 2}" for place in range(count)], ["test"] * count)


@pytest.fixture(scope="session")
def usual(checkpoint: Path, data_folder: Path) -> Evaluation:
    return evaluate(checkpoint, data_folder, prompts=PROMPTS, settings=QUICK)


CORNERS = {
    1: ("Pleural Effusion", "Left pleural effusion.", (40.0, 40.0, 40.0, 40.0)),
    2: ("Pneumothorax", "Right pneumothorax.", (0.0, 0.0, 40.0, 40.0)),
}
"""By kind of study the finding, sentence and box of its bright corner."""


def write_corners(folder: Path, *, masks: bool = False) -> Path:
    """Boxes of the bright corners; or their masks too, and the phrases without a box elsewhere."""
    found: list[Box | Absent] = []
    for number in range(48):
        name = f"images/s{number:02d}.png"
        for kind, (finding, text, corner) in CORNERS.items():
            if number % 3 == kind:
                runs = runs_of_mask(box_mask(corner, (80, 80))) if masks else None
                found.append(Box(name, 80, 80, finding, text, corner, runs))
            elif masks:
                found.append(Absent(name, 80, 80, finding, text))
    write_boxes(folder / "boxes.json", found)
    return folder


@pytest.fixture
def boxed(data_copy: Path) -> Path:
    """A data folder of the test's own with a box of each bright corner."""
    return write_corners(data_copy)


@pytest.fixture
def masked(data_copy: Path) -> Path:
    """The same with masks, and phrases without a box."""
    return write_corners(data_copy, masks=True)
