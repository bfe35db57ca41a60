"""Drawing the images of a set, and the masks of what the findings cover, into files."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image

from cxrtext.files import replacing
from cxrtext.phantom.effects import Effect
from cxrtext.phantom.render import PlacedBox, paint, placed_boxes
from cxrtext.phantom.studies import PhantomStudy

SUFFIXES = {"png": ".png", "dicom": ".dcm"}


@dataclass(frozen=True, slots=True)
class Job:
    """What a process needs to know to draw images.

    Args:
        out: The folder of the set.
        size: Pixels along each side.
        seed: Of the set.
        image_format: "png" or "dicom".
        difficulty: How faint the findings are.
        masks: Whether masks are written.
    """

    out: Path
    size: int
    seed: int
    image_format: str
    difficulty: float = 1.0
    masks: bool = False


def image_name(study: PhantomStudy, image_format: str) -> str:
    """The ``image`` cell of the manifest."""
    return f"images/{study.study_id}{SUFFIXES[image_format]}"


def mask_name(study_id: str, finding: str, part: str) -> str:
    """The file of a mask, from the folder of the set."""
    words = "_".join(word.lower().replace(" ", "-") for word in (finding, part))
    return f"masks/{study_id}_{words}.png"


def _write_masks(job: Job, study: PhantomStudy, effects: list[Effect]) -> None:
    for effect in effects:
        mask = Image.fromarray(effect.mask().astype(np.uint8) * np.uint8(255))
        with replacing(job.out / mask_name(study.study_id, effect.finding, effect.part)) as file:
            mask.save(file, format="PNG")


def write_image(job: Job, study: PhantomStudy) -> list[PlacedBox]:
    """Draw and write one study's image, after its masks where they are wanted.

    Args:
        job: Where and how.
        study: Whom.

    Returns:
        The boxes of its findings.
    """
    picture, effects = paint(replace(study.sitter, difficulty=job.difficulty), job.size)
    if job.masks:
        _write_masks(job, study, effects)
    with replacing(job.out / image_name(study, job.image_format)) as temporary:
        if job.image_format == "png":
            grey = Image.fromarray(np.round(picture * 255.0).astype(np.uint8))
            # Noise hardly compresses, so that a higher level costs much time for little.
            grey.save(temporary, format="PNG", compress_level=2)
        else:
            from cxrtext.phantom.dicom import save_dicom

            save_dicom(temporary, picture, study, job.seed)
    return placed_boxes(effects)


def draw_chunk(job: Job, studies: list[PhantomStudy]) -> list[tuple[str, list[PlacedBox]]]:
    """Draw several studies, and give each one's id and boxes."""
    return [(study.study_id, write_image(job, study)) for study in studies]
