"""DCL with the true class probability of each sentence.  Source: Wang et al. 2023, section 3.1."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cxrtext.config import Config
from cxrtext.errors import DataError
from cxrtext.records import Sentence, read_table
from cxrtext.training.data.drawn import Ask, Drawn
from cxrtext.training.objectives.shared.metadata import as_number
from cxrtext.training.objectives.shared.objective import (
    Contrast,
    Direction,
    Source,
    Terms,
    debiased,
    table,
)

COLUMNS = ("study_id", "section", "position", "rho")
"""The columns read from a table of true class probabilities."""


class Objective(Contrast):
    true_probability: Path | None = None

    def fits(self, config: Config) -> None:
        if config.data.words:
            raise ValueError(
                "data.words: dcl-eta-true needs the true class probability of every sentence, and "
                "short sentences of words have none; leave the words out"
            )

    def files(self, config: Config) -> list[Path]:
        given = self.true_probability
        return [table("true_probability", given, config.data.manifest, self.name, "truth")]

    def prepare(self, source: Source) -> Ask:
        import torch

        (path,) = self.files(source.config)
        true = true_probabilities(path, source.sentences)

        def ask(drawn: Drawn) -> dict[str, Any]:
            eta = [true[s.study_id, s.section, s.position] for s in drawn.sentences]
            return {"eta": torch.tensor(eta, dtype=torch.float32)}

        return ask

    def losses(self, d: Direction) -> Terms:
        return debiased(d, d.known["eta"])

    def turn_known(self, forward: Direction) -> Mapping[str, Any]:
        return {"eta": forward.known["eta"][: forward.scores.shape[1]]}


def true_probabilities(
    path: Path, sentences: Iterable[Sentence]
) -> dict[tuple[str, str, int], float]:
    """The true class probability of each sentence, matched by study, section and position.

    ``path`` is a table with :data:`COLUMNS`, such as a phantom's ``truth.csv``; if it has a column
    ``sentence``, the text must be the same.
    """
    rows = {
        (row["study_id"], row["section"], row["position"]): (number, row)
        for number, row in enumerate(read_table(path, required=COLUMNS).rows, 1)
    }
    probabilities = {}
    for sentence in sentences:
        study, section, position = sentence.study_id, sentence.section, sentence.position
        where = f"study '{study}', section {section}, position {position}"
        if (study, section, str(position)) not in rows:
            raise DataError(
                f"{path}: no row for {where} of the table of sentences; give the truth of the "
                "same reports in objective.true_probability"
            )
        number, row = rows[study, section, str(position)]
        if row.get("sentence", sentence.sentence) != sentence.sentence:
            raise DataError(
                f"{path}: row {number}: another sentence than the table of sentences has at "
                f"{where}; score the reports that this truth was written for"
            )
        probability = as_number(row["rho"])
        if probability is None or not 0.0 <= probability < 1.0:
            raise DataError(
                f"{path}: row {number}: rho '{row['rho']}' is not a probability from 0 to below 1; "
                "fix it there"
            )
        probabilities[study, section, position] = probability
    return probabilities
