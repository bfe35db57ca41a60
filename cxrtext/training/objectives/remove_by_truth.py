"""Removes negatives for which the sentence is true: ours, only for drawn images."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from cxrtext.config import Config
from cxrtext.errors import ConfigError
from cxrtext.evaluation.data import find_table
from cxrtext.phantom.truth import KnownTruth, read_truth
from cxrtext.training.data.drawn import Ask, Drawn
from cxrtext.training.objectives.shared.objective import Contrast, Direction, Source, Terms, removed


class Objective(Contrast):
    more_negatives: ClassVar = "train on more different images"

    def files(self, config: Config) -> list[Path]:
        truth = find_table(config.data.manifest.parent, "truth")
        return [] if truth is None else [truth]

    def prepare(self, source: Source) -> Ask:
        import torch

        folder = source.config.data.manifest.parent
        if (known := read_truth(folder)) is None:
            raise ConfigError(
                f"{folder}: 'cxrtext phantom' did not write it, and remove-by-truth wants images "
                "that it drew; take another objective.name"
            )

        def ask(drawn: Drawn) -> dict[str, Any]:
            said = [sentence.sentence for sentence in drawn.sentences]
            studies = [record.study_id for record in drawn.records]
            return {"same": torch.from_numpy(known_true(known, said, studies))}

        return ask

    def losses(self, d: Direction) -> Terms:
        return removed(d, d.known["same"])


def known_true(
    known: KnownTruth, sentences: Sequence[str], studies: Sequence[str]
) -> NDArray[np.bool_]:
    """Whether each sentence is true of each study, [S, B]; never if no drawn image decides it."""
    claims = [known.claims.get(text) for text in sentences]
    distinct = list(dict.fromkeys(claim for claim in claims if claim is not None))
    place = {claim: row for row, claim in enumerate(distinct)}
    true = np.zeros((len(sentences), len(studies)), dtype=np.bool_)
    told = [row for row, claim in enumerate(claims) if claim is not None]
    holds = known.holds(distinct, studies)
    true[told] = holds[[place[claim] for claim in claims if claim is not None]]
    return true
