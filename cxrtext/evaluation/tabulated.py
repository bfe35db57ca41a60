"""Probabilities of another model in a table: a row an image, a column a finding.

As published for ChestX-ray14 and CheXpert: the first column names the image ("Image Index",
"Path"), the others findings, with or without "prob_" before.
"""

from pathlib import Path

import numpy as np

from cxrtext.datasets.importing.formats.nih import NAMES
from cxrtext.datasets.importing.reading import numbers
from cxrtext.errors import DataError
from cxrtext.evaluation.classification.classified import Classified
from cxrtext.evaluation.grounding.boxes import image_finder
from cxrtext.evaluation.predictions.file import Predictions
from cxrtext.records import read_table

EDGE = 1e-7  # probabilities are held so far from 0 and 1, whose logits are infinite


def read_probabilities(path: Path, other: Predictions) -> Predictions:
    """As predictions for the images that another evaluation measured, by name, with its labels."""
    part = other.parts.get("classification")
    if not isinstance(part, Classified):
        raise DataError(f"{path}: name an evaluation with labels before it, whose images it is of")
    table = read_table(path)
    key, *columns = table.columns
    named = {_finding(column): column for column in columns}
    findings = tuple(name for name in part.findings if name in named)
    if not findings:
        raise DataError(f"{path}: has no column of a finding: {', '.join(part.findings)}")
    own = np.flatnonzero(part.measured)
    images = part.images.take(own)
    find, values = image_finder(images.names), np.full((len(findings), len(images)), np.nan)
    for number, row in enumerate(table.rows, 1):
        place = find(row[key])
        if place is not None:
            values[:, place] = numbers(row, *(named[name] for name in findings))
            if not ((values[:, place] >= 0) & (values[:, place] <= 1)).all():
                raise DataError(f"{path}: row {number}: holds no probabilities from 0 to 1")
    lacking = np.flatnonzero(np.isnan(values[0])).tolist()
    if lacking:
        raise DataError(
            f"{path}: lacks {len(lacking)} of the {len(images)} images of the evaluation before "
            f"it, the first {images.names[lacking[0]]}"
        )
    held = np.clip(values, EDGE, 1 - EDGE)
    scores = np.log(held / (1 - held))
    rows = np.asarray([part.findings.index(name) for name in findings])
    labels = part.labels[np.ix_(rows, own)]
    told = np.ones(len(images), dtype=np.bool_)
    classified = Classified(findings, images, scores, np.zeros_like(scores), labels, told)
    about = {name: other.about[name] for name in ("data", "split")}
    about |= {"checkpoint": path.stem, "settings": other.about.get("settings", {})}
    return Predictions(about, {"classification": classified})


def _finding(column: str) -> str:
    """The finding of a column: "prob_Effusion" is Pleural Effusion."""
    name = column.strip().removeprefix("prob_")
    return NAMES.get(name, name.replace("_", " "))
