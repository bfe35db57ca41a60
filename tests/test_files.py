from pathlib import Path

import pytest

from cxrtext.files import replacing, replacing_folder, write_json


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "a.txt"
    with replacing(path) as temporary:
        temporary.write_text("one")
        assert not path.exists()
    with pytest.raises(RuntimeError, match="stop"), replacing(path) as temporary:
        temporary.write_text("two")
        raise RuntimeError("stop")
    assert path.read_text() == "one"
    assert [p.name for p in path.parent.iterdir()] == ["a.txt"]


def test_a_folder_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "model"
    with replacing_folder(path) as temporary:
        (temporary / "a").write_text("one")
        (temporary / "a").chmod(0o600)
    with pytest.raises(RuntimeError, match="stop"), replacing_folder(path) as temporary:
        (temporary / "b").write_text("two")
        raise RuntimeError("stop")
    assert [p.name for p in path.iterdir()] == ["a"]
    (tmp_path / "plain").touch()
    assert (path / "a").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "plain").unlink()
    with replacing_folder(path) as temporary:
        (temporary / "b").write_text("two")
    assert [p.name for p in path.iterdir()] == ["b"]
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_json_holds_no_infinity(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"x": float("inf")})
    assert not list(tmp_path.iterdir())
