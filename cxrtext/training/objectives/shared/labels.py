"""Objectives that use the findings of each image's study."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from cxrtext.config import Config
from cxrtext.errors import DataError
from cxrtext.records import CHEX5, ImageRecord, read_labels, read_table
from cxrtext.training.data.drawn import Ask, Drawn
from cxrtext.training.objectives.shared.objective import Contrast, Source, table


class Labelled(Contrast):
    """``known["same"]`` [S, B]: where studies share a label."""

    labels: Path | None = None
    findings: Annotated[tuple[str, ...], Field(min_length=1)] | None = None

    def files(self, config: Config) -> list[Path]:
        return [table("labels", self.labels, config.data.manifest, self.name, "labels")]

    def prepare(self, source: Source) -> Ask:
        import torch

        from cxrtext.objectives import same_labels

        (path,) = self.files(source.config)
        sets = label_sets(path, self.findings, source.training)
        none = np.zeros_like(next(iter(sets.values())))

        def ask(drawn: Drawn) -> dict[str, Any]:
            own = [sets.get(record.study_id, none) for record in drawn.records]
            labels = torch.from_numpy(np.stack(own))
            return {"same": same_labels(labels[drawn.image_of], labels)}

        return ask


def label_sets(
    path: Path, findings: Sequence[str] | None, records: Sequence[ImageRecord]
) -> dict[str, NDArray[np.bool_]]:
    """The findings of each study, [F] by study; at least one training study must have one.

    Only 1 counts, and a study without a row has no finding; ``findings`` None means CheX5.
    """
    if findings is not None:
        # Otherwise a misspelt finding would silently be absent everywhere.
        read_table(path, required=["study_id", *findings])
    wanted = tuple(findings or CHEX5)
    sets = {
        study: np.asarray([values[finding] == 1 for finding in wanted])
        for study, values in read_labels(path, wanted).items()
    }
    studies = {record.study_id for record in records}
    if not any(sets[study].any() for study in studies & sets.keys()):
        raise DataError(
            f"{path}: no training study has a 1 for any of {', '.join(wanted)} "
            f"({len(studies & sets.keys())} of {len(studies)} studies have a row); check study_id "
            "and objective.findings"
        )
    return sets
