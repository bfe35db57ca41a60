"""An archive with everything that hospitals do: counts in are counts out and reasons."""

from importlib import util
from pathlib import Path
from types import ModuleType

import pytest

from cxrtext.datasets.checking import check_data


@pytest.fixture(scope="module")
def archive() -> ModuleType:
    """The script that makes a large one."""
    path = Path(__file__).parents[2] / "benchmarks/images/archive.py"
    spec = util.spec_from_file_location("hospital_archive", path)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    # Its dataclasses look for their module.
    import sys

    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_nothing_of_an_archive_is_lost_silently(archive: ModuleType, tmp_path: Path) -> None:
    planted = archive.make(tmp_path, 30)
    found = archive.load(tmp_path, tmp_path / "data")
    for what, made, seen in archive.compare(planted, found):
        assert made == seen, what
    first = archive.digest(tmp_path / "data")
    assert archive.load(tmp_path, tmp_path / "data") == found
    assert archive.digest(tmp_path / "data") == first
    tables = found.tables()
    assert len(tables["manifest"].rows) == found.images
    assert len(tables["import.rejected"].rows) == sum(found.set_aside.values())
    assert {row["of"] for row in tables["import.rejected"].rows} <= {"image", "report"}
    assert len(tables["reports"].rows) == found.reports
    report = check_data(tmp_path / "data")
    assert len(report.images) == found.images
    text = "".join(p.read_text() for p in (tmp_path / "data").glob("import.*"))
    assert "Müller" not in text
    assert "Schmidt" not in text
