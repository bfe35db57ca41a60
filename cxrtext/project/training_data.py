"""What the models of a project are trained on: its training studies, and a third of them."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cxrtext.evaluation.data import find_table, manifest_of
from cxrtext.files import write_json
from cxrtext.project.layout import DATA, REPORTS, THIRD
from cxrtext.records import RowWriter
from cxrtext.records.rows import TableRows
from cxrtext.records.tables import stream_table

_NOTE = ".fit/trained-on.json"


@dataclass(frozen=True, slots=True)
class TrainingData:
    """Digests of the ids of studies to ``train`` on, and of those now ``held_out``."""

    digest: str
    train: frozenset[str]
    held_out: frozenset[str] = frozenset()

    @property
    def studies(self) -> int:
        return len(self.train)

    def serves(self, now: "TrainingData", growth: float) -> bool:
        """Whether models made of it still serve: few new studies, and none of its own held out."""
        return now.studies < growth * self.studies and self.train.isdisjoint(now.held_out)


def training_data(folder: Path) -> TrainingData:
    """What models would be trained on now: manifest rows and reports without the split "test"."""
    digest, studies = hashlib.sha256(), set()
    parts: dict[bool, set[str]] = {True: set(), False: set()}
    for row in stream_table(manifest_of(folder / DATA)):
        name = hashlib.sha256(row["study_id"].encode("utf-8", "surrogatepass")).hexdigest()[:16]
        parts[row["split"] == "train"].add(name)
        if row["split"] != "test":
            studies.add(row["study_id"])
            digest.update(json.dumps([row["image"], row["study_id"], row["split"]]).encode())
    for row in _reports(folder, studies):
        digest.update(json.dumps(row, sort_keys=True).encode())
    return TrainingData(digest.hexdigest(), frozenset(parts[True]), frozenset(parts[False]))


def noted(folder: Path) -> TrainingData | None:
    """What the existing models, or those in the making, were trained on."""
    try:
        note = json.loads((folder / _NOTE).read_text(encoding="utf-8"))
        return TrainingData(note["digest"], frozenset(note["train"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def write_training_data(folder: Path, data: TrainingData) -> None:
    """Write the reports to train on, and the third of the manifest."""
    manifest = manifest_of(folder / DATA)
    rows = list(stream_table(manifest))
    studies = {row["study_id"] for row in rows if row["split"] != "test"}
    table = find_table(folder / DATA, "reports") or manifest
    columns = TableRows(table).columns
    with RowWriter(folder / REPORTS, dict.fromkeys(columns, "text")) as writer:
        for row in _reports(folder, studies):
            writer.write(row)
    (folder / REPORTS).chmod(0o600)
    with RowWriter(folder / DATA / THIRD, dict.fromkeys(rows[0], "text")) as writer:
        for row in rows:
            drawn = hashlib.sha256(row["patient_id"].encode("utf-8", "surrogatepass")).digest()[0]
            if row["split"] != "train" or drawn < 256 / 3:
                writer.write(row)
    (folder / DATA / THIRD).chmod(0o600)
    (folder / _NOTE).parent.mkdir(exist_ok=True)
    write_json(folder / _NOTE, {"digest": data.digest, "train": sorted(data.train)})


def _reports(folder: Path, studies: set[str]) -> Iterator[dict[str, str]]:
    table = find_table(folder / DATA, "reports") or manifest_of(folder / DATA)
    return (row for row in stream_table(table) if row["study_id"] in studies)
