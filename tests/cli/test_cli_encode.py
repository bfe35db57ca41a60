"""``cxrtext encode`` and ``cxrtext probe`` as a user starts them."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from cxrtext.models import load_model
from cxrtext.models.regions import embed_files
from tests import small_backbones
from tests.cli.conftest import Refused, cxrtext


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = small_backbones.write(tmp_path_factory.mktemp("backbone") / "tiny", "dinov2")
    (folder / "README.md").write_text("---\nlicense: mit\n---\n# a model\n")
    return folder


def test_images_are_encoded_probed_and_exported(
    refused: Refused, backbone: Path, data_folder: Path, tmp_path: Path
) -> None:
    manifest, out = data_folder / "manifest.csv", tmp_path / "features"
    how = ("--workers", "1", "--device", "cpu", "--grid", "2", "--reduce", "6")
    given = ("encode", manifest, "--backbone", backbone, "--out", out, *how)
    assert "no such folder" in refused("probe", out, "--data", data_folder)
    done = cxrtext(*given)
    assert "48 images of 48, 2 x 2 regions with 6 numbers each, " in done.stdout
    assert "backbone: tiny (dinov2), " in done.stdout
    assert "its licence: mit" in done.stdout
    status = json.loads(cxrtext("job", "status", out, "--json").stdout)
    assert (status["kind"], status["rows_done"]) == ("encode", 48)
    assert "begun with another --grid (2, now 3)" in refused(
        *given[:-4], "--grid", "3", *given[-2:]
    )
    probed = cxrtext(
        "probe", out, "--data", data_folder, "--out", tmp_path / "probe",
        "--export", tmp_path / "v.parquet",
    )  # fmt: skip
    assert "Pneumothorax" in probed.stdout
    assert "images: 28 train, 8 val, 12 test" in probed.stdout
    assert (tmp_path / "probe/probe.json").is_file()
    assert (tmp_path / "v.parquet").is_file()


def test_embeddings_of_a_checkpoint_are_exported(
    checkpoint: Path, data_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "v.parquet"
    done = cxrtext(
        "evaluate", checkpoint, "--data", data_folder, "--split", "val",
        "--device", "cpu", "--export", out,
    )  # fmt: skip
    assert str(out) in done.stdout
    model = load_model(checkpoint)
    held = pq.read_table(out)
    assert held["split"].to_pylist() == ["val"] * 8
    assert json.loads(held.schema.metadata[b"cxrtext"])["model"] == model.fingerprint
    row = held.to_pylist()[3]
    (batch,) = embed_files(model, [data_folder / row["image"]], processes=0)
    expected = batch.regions[0].mean(dim=0).numpy()
    assert np.allclose(row["vector"], expected, atol=1e-3)
