"""One vector an image, with whose it is, as a file that other tools read; no text, no pixels."""

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxrtext.errors import DataError
from cxrtext.files import replacing
from cxrtext.records import ImageRecord

ENDINGS = (".parquet", ".npz")
_ROWS = 4096  # of a group of a Parquet file


def export_vectors(
    path: Path, records: Sequence[ImageRecord], vectors: NDArray[Any], about: dict[str, Any]
) -> None:
    """Write the vectors [n, D] of n images, as float32, whole or not at all.

    A Parquet file has the columns ``image``, ``study_id``, ``patient_id``, ``split`` and
    ``vector`` (a list of D numbers), and ``about`` in the schema's metadata as "cxrtext"; an
    ``.npz`` has arrays of these names, and ``about`` as one of JSON.

    Raises:
        DataError: The file is of another kind.
    """
    if path.suffix.lower() not in ENDINGS:
        raise DataError(f"{path}: embeddings are written to a file in .parquet or .npz")
    names = {
        "image": [record.name for record in records],
        "study_id": [record.study_id for record in records],
        "patient_id": [record.patient_id for record in records],
        "split": [record.split for record in records],
    }
    with replacing(path) as temporary:
        if path.suffix.lower() == ".npz":
            _write_arrays(temporary, names, vectors, about)
        else:
            _write_parquet(temporary, names, vectors, about)


def _write_arrays(
    path: Path, names: dict[str, list[str]], vectors: NDArray[Any], about: dict[str, Any]
) -> None:
    arrays = {name: np.array(values, dtype=np.str_) for name, values in names.items()}
    arrays["vector"] = np.asarray(vectors, dtype=np.float32)
    arrays["about"] = np.array(json.dumps(about))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            # A fixed time, so that equal vectors make equal files.
            entry = zipfile.ZipInfo(f"{name}.npy")
            with archive.open(entry, "w", force_zip64=True) as handle:
                np.lib.format.write_array(handle, array, allow_pickle=False)


def _write_parquet(
    path: Path, names: dict[str, list[str]], vectors: NDArray[Any], about: dict[str, Any]
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    width = vectors.shape[1]
    columns = [pa.field(name, pa.string()) for name in names]
    vector = pa.field("vector", pa.list_(pa.float32(), width))
    schema = pa.schema([*columns, vector], metadata={"cxrtext": json.dumps(about)})
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, len(vectors), _ROWS):
            part = np.asarray(vectors[start : start + _ROWS], dtype=np.float32)
            lists = pa.FixedSizeListArray.from_arrays(pa.array(part.ravel()), width)
            texts = [pa.array(values[start : start + _ROWS]) for values in names.values()]
            writer.write_table(pa.Table.from_arrays([*texts, lists], schema=schema))
