"""What a backbone's features hold of findings: linear probes.

An image's features are the mean of its regions.  Training images fit, validation images choose, and
test images are measured; images without features are left out and counted.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import DataError
from cxrtext.evaluation.data import find_table, manifest_of
from cxrtext.evaluation.predictions.columns import images_of
from cxrtext.evaluation.probes.linear_probe import Features, fit_probes, measure_probes
from cxrtext.evaluation.rows import PROBES, Rows
from cxrtext.evaluation.settings import Settings
from cxrtext.files import replacing, write_sealed
from cxrtext.models.features.folder import FeatureFolder
from cxrtext.records import ImageRecord, read_labels, read_manifest, require_match
from cxrtext.records.labels import finding_columns
from cxrtext.records.manifest import SPLITS

RESULT = "probe.json"
_AT_ONCE = 256


@dataclass(slots=True)
class FeatureProbe:
    """What was measured.

    ``images`` counts by split those that have features, ``missing`` those of the manifest without.
    ``linear``: by finding ``auc``, its ``interval``, ``ridge`` and ``train`` (images fitted to).
    """

    images: dict[str, int]
    missing: int
    linear: dict[str, Any] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def probe_features(
    features: FeatureFolder,
    data: Path,
    settings: Settings | None = None,
    *,
    labels: Path | None = None,
    out: Path | None = None,
    export: Path | None = None,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> FeatureProbe:
    """Probe the features of a data folder's images.

    ``settings`` say which labels count, and the seed; ``labels`` is a table in place of the
    folder's; ``out`` gets ``probe.json``; ``export`` the mean features of all
    images (:func:`export_vectors`).  ``progress`` is called with (done, total) images.
    """
    settings = settings or Settings()
    manifest = manifest_of(data)
    everyone = read_manifest(manifest, allow_outside=True)  # no image is opened
    places = features.places([record.name for record in everyone])
    records = [everyone[i] for i in np.flatnonzero(places >= 0)]
    if not records:
        raise DataError(
            f"{features.folder}: has features of none of the images of {manifest}; encode these, "
            "or give the data folder whose manifest was encoded"
        )
    vectors = mean_regions(features, places[places >= 0], progress)
    if export is not None:
        about = {"backbone": features.backbone["digest"], "name": features.backbone["name"]}
        export_vectors(export, records, vectors, about)
    counted = Counter(record.split for record in records)
    found = FeatureProbe({split: counted[split] for split in SPLITS}, len(everyone) - len(records))
    table = labels or find_table(data, "labels")
    if table is None:
        found.left_out.append("probes: the data have no labels.csv; give a table with --labels")
    else:
        _measure(found, records, vectors, table, manifest, settings)
    if out is not None:
        about = {"features": str(features.folder.absolute()), "backbone": dict(features.backbone)}
        write_sealed(out / RESULT, {**about, **found.as_dict()})
    return found


def mean_regions(
    features: FeatureFolder,
    places: NDArray[np.int64],
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> NDArray[np.float32]:
    """The mean region [n, R] of the center crop of images."""
    found = np.empty((len(places), features.shape[-1]), dtype=np.float32)
    order = np.argsort(places, kind="stable")  # shard after shard
    for start in range(0, len(order), _AT_ONCE):
        rows = order[start : start + _AT_ONCE]
        found[rows] = features.of(places[rows]).mean(axis=(1, 2), dtype=np.float32)
        progress(start + len(rows), len(order))
    return found


def _measure(
    found: FeatureProbe,
    records: Sequence[ImageRecord],
    vectors: NDArray[np.float32],
    table: Path,
    manifest: Path,
    settings: Settings,
) -> None:
    findings = finding_columns(table)
    labels = read_labels(table, findings)
    studies = {record.study_id for record in records}
    require_match(table, "labels", labels, studies, "study_id", manifest)
    if missing := [split for split in SPLITS if not found.images[split]]:
        found.left_out.append(
            f"probes: no image of {' and '.join(missing)} has features; probes are fitted to "
            "train, chosen on val and measured on test"
        )
        return
    places = {split: [i for i, one in enumerate(records) if one.split == split] for split in SPLITS}

    def of(split: str) -> Features:
        studies = [records[i].study_id for i in places[split]]
        return Features(vectors[places[split]].astype(np.float64), studies)

    train, validation, test = map(of, SPLITS)
    images = images_of([records[i] for i in places["test"]])
    probed, lines = fit_probes(train, validation, test, labels, findings, images, settings)
    found.left_out.extend(lines)
    rows = measure_probes(probed, settings) if probed else Rows()
    for finding in rows.groups(PROBES):
        auc = rows.find(PROBES, finding, "AUC")
        found.linear[finding] = {
            "auc": auc and auc.value,
            "interval": auc and auc.ends,
            "ridge": rows.value(PROBES, finding, "ridge"),
            "train": rows.count(PROBES, finding, "train"),
        }


_ROWS = 4096  # of a group of a Parquet file


def export_vectors(
    path: Path, records: Sequence[ImageRecord], vectors: NDArray[Any], about: dict[str, Any]
) -> None:
    """Write the vectors [n, D] of n images, as float32, whole or not at all.

    A Parquet file has the columns ``image``, ``study_id``, ``patient_id``, ``split`` and
    ``vector`` (a list of D numbers), and ``about`` in the schema's metadata as "cxrtext".
    """
    if path.suffix.lower() != ".parquet":
        raise DataError(f"{path}: embeddings are written to a file in .parquet")
    import pyarrow as pa
    import pyarrow.parquet as pq

    numbers = pa.array(np.asarray(vectors, dtype=np.float32).ravel())
    table = pa.table(
        {
            "image": [record.name for record in records],
            "study_id": [record.study_id for record in records],
            "patient_id": [record.patient_id for record in records],
            "split": [record.split for record in records],
            "vector": pa.FixedSizeListArray.from_arrays(numbers, vectors.shape[1]),
        },
        metadata={"cxrtext": json.dumps(about)},
    )
    with replacing(path) as temporary:
        pq.write_table(table, temporary, row_group_size=_ROWS)
