"""``cxrtext encode``, and the export of embeddings, as a user starts them."""

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
    status = json.loads(cxrtext("job", "status", out, "--json").stdout)
    assert (status["kind"], status["rows_done"]) == ("encode", 48)
    assert "begun with another --grid (2, now 3)" in refused(
        *given[:-4], "--grid", "3", *given[-2:]
    )


def test_embeddings_of_a_checkpoint_are_exported(
    refused: Refused, checkpoint: Path, data_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "v.parquet"
    done = cxrtext(
        "evaluate", checkpoint, "--data", data_folder, "--split", "val",
        "--device", "cpu", "--export", out,
    )  # fmt: skip
    assert str(out) in done.stdout
    assert "v.csv: embeddings are written to a file in .parquet" in refused(
        "evaluate", checkpoint, "--data", data_folder, "--split", "val",
        "--device", "cpu", "--export", tmp_path / "v.csv",
    )  # fmt: skip
    model = load_model(checkpoint)
    held = pq.read_table(out)
    assert held["split"].to_pylist() == ["val"] * 8
    assert json.loads(held.schema.metadata[b"cxrtext"])["model"] == model.fingerprint
    row = held.to_pylist()[3]
    (batch,) = embed_files(model, [data_folder / row["image"]], processes=0)
    expected = batch.regions[0].mean(dim=0).numpy()
    assert np.allclose(row["vector"], expected, atol=1e-3)
