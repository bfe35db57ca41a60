import tracemalloc
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cxrtext.errors import DataError
from cxrtext.records import LeftOut, Study, open_source, parquet_tables

CANARY = "zebrafish"


def write(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    pq.write_table(pa.table(columns), path, **options)
    return path


# Columns are read one by one: each type of text, and of ids, once.
@pytest.mark.parametrize(
    ("kind", "ids"),
    [
        (pa.string(), [50, 51, 52]),
        (pa.large_string(), ["50", "51", "52"]),
        (pa.dictionary(pa.int32(), pa.string()), [50.0, 51.0, 52.0]),
        (pa.binary(), [50, 51, 52]),
    ],
)
def test_parquet_of_every_text_type(tmp_path: Path, kind: Any, ids: list[Any]) -> None:
    values = [b"Clear.", None, b"nan"] if kind == pa.binary() else ["Clear.", None, "nan"]
    path = write(
        tmp_path / "r.parquet",
        {
            "image": [[1], [2], [3]], "study_id": ids, "findings": pa.array(values, kind),
            "impression": pa.nulls(3), "comparison": [1.5, None, float("nan")],
        },
    )  # fmt: skip
    source = open_source(path)
    assert (source.holds, len(source.digest)) == ("reports", 64)
    found = [item for item in source if isinstance(item, Study)]
    assert [study.study_id for study in found] == ["50", "51", "52"]
    assert [study.sections["findings"] for study in found] == ["Clear.", "", ""]
    assert [study.sections["comparison"] for study in found] == ["1.5", "", ""]
    assert found[0].sections["impression"] == ""
    assert list(source) == found


@pytest.mark.parametrize("wrap", [pa.string(), pa.dictionary(pa.int32(), pa.string())])
def test_parquet_text_that_is_not_utf8(tmp_path: Path, wrap: Any) -> None:
    broken = pa.Array.from_buffers(
        pa.string(), 2, pa.array([b"Clear.", b"\xc9p."], pa.binary()).buffers()
    )
    if pa.types.is_dictionary(wrap):
        broken = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), broken)
    path = write(tmp_path / "r.parquet", {"study_id": [1, 2], "report": broken})
    first, second = open_source(path)
    assert isinstance(first, Study)
    assert second == LeftOut("row 2", "report: not UTF-8 text; save it as UTF-8")


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"study_id": [1], "note": ["x"]}, "no column is known to hold report text"),
        ({"study_id": pa.array([], pa.string()), "report": pa.array([], pa.string())}, "no rows"),
        ({"study_id": [1], "report": [["x"]]}, "column 'report' holds list"),
    ],
)
def test_parquet_that_is_refused_at_once(
    tmp_path: Path, columns: dict[str, Any], says: str
) -> None:
    with pytest.raises(DataError, match=says):
        open_source(write(tmp_path / "r.parquet", columns))


def test_damaged_parquet(tmp_path: Path) -> None:
    path = write(tmp_path / "r.parquet", {"study_id": [1, 2], "report": [CANARY, CANARY + "s"]})
    content = path.read_bytes()
    for damaged in (b"", b"PAR1", content[:-9], content[: len(content) // 2], b"text"):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match=r"r.parquet: not a readable Parquet file"):
            open_source(path)
    path.write_bytes(content[:4] + bytes(60) + content[64:])
    with pytest.raises(DataError, match="not a readable Parquet file") as error:
        list(open_source(path))
    assert CANARY not in str(error.value)


def test_parquet_in_one_row_group_needs_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_tables, "MEMORY_BYTES", 32 << 20)
    path = write(
        tmp_path / "r.parquet",
        {"study_id": list(range(24_000)), "report": [f"{i} {'x' * 2_000}" for i in range(24_000)]},
        use_dictionary=False,
        compression="none",
    )
    tracemalloc.start()
    count = sum(1 for _ in open_source(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 24_000
    assert peak < 6e6
    assert path.stat().st_size > 32 << 20
