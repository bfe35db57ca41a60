"""``cxrtext encode`` as a user starts it."""

from pathlib import Path

import pytest

from tests import small_backbones
from tests.cli.conftest import Refused, cxrtext


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = small_backbones.write(tmp_path_factory.mktemp("backbone") / "tiny", "dinov2")
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# a model\n")
    return folder


def test_images_are_encoded(
    refused: Refused, backbone: Path, data_folder: Path, tmp_path: Path
) -> None:
    manifest, out = data_folder / "manifest.csv", tmp_path / "features"
    how = ("--workers", "1", "--device", "cpu", "--grid", "2", "--reduce", "6")
    given = ("encode", manifest, "--backbone", backbone, "--out", out, *how)
    done = cxrtext(*given)
    assert "48 images of 48, 2 x 2 regions with 6 numbers each, " in done.stdout
    assert "backbone: tiny (dinov2), " in done.stdout
    assert "its licence: mit" in done.stdout
    assert "begun with another --grid (2, now 3)" in refused(
        *given[:-4], "--grid", "3", *given[-2:]
    )
