import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import torch

from cxrtext.errors import CheckpointError, DataError
from cxrtext.files import write_sums
from cxrtext.files.table_sums import prepare
from cxrtext.images.cache import DecodedCache
from cxrtext.index import build_index, open_index
from cxrtext.index.catalogue import Catalogue
from cxrtext.index.schema import SCHEMA_VERSION
from cxrtext.index.writer import writing
from cxrtext.models import load_model
from cxrtext.models.embedding import embed_all

VECTORS = [
    f"{name}.000001.vectors" for name in ("regions", "sketch", "profiles", "means", "sentences")
]


def test_text_search_ranks_by_the_model_s_own_score(
    index_folder: Path, data_folder: Path, checkpoint: Path
) -> None:
    model = load_model(checkpoint)
    paths = sorted((data_folder / "images").iterdir())
    regions = embed_all(model, paths).regions.float()
    with torch.inference_mode():
        query = model.embed_sentences(["Left pleural effusion."])
        expected = model.scores(regions, query)[0].numpy()
    with open_index(index_folder) as index:
        hits = index.search_text(query[0], k=48)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    found = {Path(hit.image.image).name: hit.score for hit in hits}
    for path, score in zip(paths, expected, strict=True):
        assert found[path.name] == pytest.approx(float(score), abs=2e-3)


def test_an_index_from_decoded_images_is_the_same(
    index_folder: Path,
    data_folder: Path,
    checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    manifest, cache = data_folder / "manifest.csv", DecodedCache(tmp_path / "cache")
    build_index(manifest, checkpoint, tmp_path / "first", cache=cache)
    monkeypatch.setattr("cxrtext.images.cache.ReaderPool.map", None)  # all is there
    build_index(manifest, checkpoint, tmp_path / "second", cache=cache)
    for name in VECTORS:
        expected = (index_folder / name).read_bytes()
        assert (tmp_path / "first" / name).read_bytes() == expected
        assert (tmp_path / "second" / name).read_bytes() == expected
    with open_index(index_folder) as one, open_index(tmp_path / "second") as other:
        image = "images/s01.png"
        assert one.catalogue.image(image) == other.catalogue.image(image)


def test_an_image_finds_itself_first(index_folder: Path) -> None:
    with open_index(index_folder) as index:
        hits = index.search_image(index.regions(7), k=3)
        assert hits[0].image.number == 7
        assert hits[0].score == pytest.approx(1.0, abs=1e-3)


def test_sentences_of_an_image_come_with_their_number_of_studies(index_folder: Path) -> None:
    with open_index(index_folder) as index:
        hits = index.search_sentences(index.regions(0), k=10)
    assert {hit.sentence: hit.studies for hit in hits} == {
        "The lungs are clear.": 16,
        "Left pleural effusion.": 16,
        "Right pneumothorax.": 16,
    }


def test_an_image_keeps_its_row_and_size(index_folder: Path) -> None:
    with open_index(index_folder) as index:
        image = index.catalogue.image("images/s05.png")
        assert image is not None
        assert (image.study_id, image.split, image.metadata["age"]) == ("s05", "val", "45")
        assert (image.height, image.width) == (80, 80)
        assert index.catalogue.image("images/none.png") is None
        assert index.catalogue.report("s05") == [("findings", "Right pneumothorax.")]
        assert len(index.catalogue.page(40, 100)) == 8


def test_the_build_measures_its_recall(index_folder: Path, checkpoint: Path) -> None:
    summary = json.loads((index_folder / "index.json").read_text())
    assert summary["recall_at_10"] == 1.0
    assert 0 < summary["reranked"] <= 1
    assert summary["structures"]["profiles"]["kind"] == "flat"
    assert summary["images"] == 48
    assert summary["model"] == load_model(checkpoint).fingerprint


def test_a_second_build_embeds_only_what_is_new(
    copy: Path, data_folder: Path, checkpoint: Path, tmp_path: Path
) -> None:
    assert build_index(data_folder / "manifest.csv", checkpoint, copy).added == 0
    more = tmp_path / "more"
    shutil.copytree(data_folder, more)
    shutil.copy(more / "images/s00.png", more / "images/new.png")
    (more / "manifest.csv").write_text("image,study_id\nimages/new.png,new\nimages/s01.png,s01\n")
    (more / "reports.csv").write_text("study_id,report\nnew,A new sentence.\n")
    summary = build_index(more / "manifest.csv", checkpoint, copy)
    assert (summary.images, summary.added, summary.sentences) == (49, 1, 4)
    with open_index(copy) as index:
        hits = index.search_image(index.regions(48), k=2)
        assert {hit.image.image for hit in hits} == {"images/new.png", "images/s00.png"}


def test_a_stopped_build_goes_on_and_equals_one_in_one_go(
    data_folder: Path, checkpoint: Path, index_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "index"

    def stop(done: int, _total: int) -> None:
        if done >= 32:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_index(data_folder / "manifest.csv", checkpoint, out, progress=stop)
    assert not (out / "index.json").exists()
    with open_index(out, load_model(checkpoint)) as index:
        assert index.images == 32  # what was acknowledged is there, and can be searched
        assert len(index.search_image(index.regions(0), k=50)) == 32
    with (out / VECTORS[0]).open("ab") as handle:
        handle.write(b"vectors that were never noted")
    (out / "profiles.000009.000001.faiss").write_bytes(b"of a killed writer")
    seen: list[int] = []
    summary = build_index(
        data_folder / "manifest.csv", checkpoint, out, progress=lambda d, _: seen.append(d)
    )
    assert (summary.added, summary.images) == (16, 48)
    assert seen[-1] == 48
    assert not (out / "profiles.000009.000001.faiss").exists()
    for name in VECTORS:
        assert (out / name).read_bytes() == (index_folder / name).read_bytes()


def test_another_model_is_refused(
    copy: Path, data_folder: Path, checkpoint: Path, tmp_path: Path
) -> None:
    from safetensors.torch import load_file, save_file

    changed = Path(shutil.copytree(checkpoint, tmp_path / "changed"))
    tensors = load_file(changed / "model.safetensors")
    tensors["log_gamma_sq"] = tensors["log_gamma_sq"] + 1
    save_file(tensors, changed / "model.safetensors")
    write_sums(changed)
    with pytest.raises(CheckpointError, match="made by another model"):
        open_index(copy, changed)
    with pytest.raises(CheckpointError, match="made by another model"):
        build_index(data_folder / "manifest.csv", changed, copy)


def change_meta(folder: Path, key: str, value: str) -> None:
    with sqlite3.connect(folder / "catalogue.sqlite") as database:
        prepare(database)
        database.execute("UPDATE meta SET value = ? WHERE key = ?", (value, key))
    database.close()


def test_a_moved_checkpoint_is_asked_for(copy: Path) -> None:
    change_meta(copy, "checkpoint", "/moved")
    with pytest.raises(CheckpointError, match="no longer at '/moved'; give its folder with"):
        open_index(copy)


def test_other_preprocessing_is_named(copy: Path, checkpoint: Path) -> None:
    change_meta(copy, "model", "0" * 64)
    change_meta(copy, "preprocessing", '{"resize": 512, "crop": 480}')
    with pytest.raises(CheckpointError, match="prepares images otherwise .*512.*72"):
        open_index(copy, checkpoint)


@pytest.mark.parametrize("name", [*VECTORS, "profiles.000001.000001.faiss"])
def test_a_changed_byte_is_refused(copy: Path, checkpoint: Path, name: str) -> None:
    data = bytearray((copy / name).read_bytes())
    data[len(data) // 2] ^= 1
    (copy / name).write_bytes(data)
    with pytest.raises(CheckpointError, match=f"{name}: .*damaged"):
        open_index(copy, checkpoint)


@pytest.mark.parametrize("name", VECTORS)
def test_a_cut_or_lost_file_is_refused(copy: Path, checkpoint: Path, name: str) -> None:
    (copy / name).write_bytes((copy / name).read_bytes()[:-2])
    with pytest.raises(CheckpointError, match=f"{name}: rows .* are missing"):
        open_index(copy, checkpoint)
    (copy / name).unlink()
    with pytest.raises(CheckpointError, match=f"{name}: rows .* are missing"):
        open_index(copy, checkpoint)


def test_a_broken_catalogue_is_refused(copy: Path) -> None:
    (copy / "catalogue.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(CheckpointError, match="not a readable catalogue"):
        open_index(copy)


def test_other_schemas_are_refused_with_what_to_do(copy: Path) -> None:
    change_meta(copy, "schema_version", "99")
    with pytest.raises(CheckpointError, match="newer version of cxrtext .schema 99.*update cxr"):
        open_index(copy)
    change_meta(copy, "schema_version", "1")
    with pytest.raises(CheckpointError, match="schema 1.* cannot be converted; run 'cxrtext index"):
        open_index(copy)


def test_an_older_schema_is_converted_by_the_next_writer(
    copy: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = SCHEMA_VERSION - 1
    change_meta(copy, "schema_version", str(before))
    told = "INSERT INTO meta VALUES ('converted', 'yes')"
    steps = {before: lambda database: database.execute(told)}
    monkeypatch.setattr("cxrtext.index.schema.MIGRATIONS", steps)
    with pytest.raises(CheckpointError, match="older version.*--check' once, with write access"):
        open_index(copy)
    with Catalogue(copy / "catalogue.sqlite", write=True) as catalogue:
        assert catalogue.meta()["converted"] == "yes"
    with open_index(copy, checkpoint) as index:
        assert index.images == 48


def test_a_catalogue_without_kept_files_is_converted(copy: Path, checkpoint: Path) -> None:
    """As the tables were before version 4."""
    with closing(sqlite3.connect(copy / "catalogue.sqlite")) as database, database:
        triggers = database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        for (name,) in triggers.fetchall():
            database.execute(f"DROP TRIGGER {name}")
        database.execute("DROP TABLE row_sums")
        database.execute("DROP TABLE leftovers")
        database.execute("DROP INDEX images_file")
        for column in ("file", "added_by"):
            database.execute(f"ALTER TABLE images DROP COLUMN {column}")
    change_meta(copy, "schema_version", "3")
    with pytest.raises(CheckpointError, match="older version.*--check' once, with write access"):
        open_index(copy)
    with writing(copy) as catalogue:
        assert catalogue.counts()[0] == 48
    with open_index(copy, checkpoint) as index:
        assert index.images == 48
        found = index.catalogue.image("images/s01.png")
        assert found is not None
        assert Path(found.path).is_file()


def test_a_folder_that_is_no_index(tmp_path: Path, checkpoint: Path) -> None:
    with pytest.raises(CheckpointError, match="not an index; make one"):
        open_index(tmp_path, checkpoint)


def test_two_writers_are_not_let_in(copy: Path, data_folder: Path, checkpoint: Path) -> None:
    import fcntl

    with (copy / "writer.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(DataError, match="another process is writing this index"):
            build_index(data_folder / "manifest.csv", checkpoint, copy)


def test_unreadable_images_are_set_aside(
    data_folder: Path, checkpoint: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(data_folder, tmp_path / "set"))
    (folder / "images/s03.png").write_bytes(b"no image")
    (folder / "images/s04.png").unlink()
    summary = build_index(folder / "manifest.csv", checkpoint, tmp_path / "index")
    assert summary.images == 46
    assert summary.rejected is not None
    listed = summary.rejected.read_text()
    assert "images/s03.png" in listed
    assert "images/s04.png" in listed
    (folder / "manifest.csv").write_text("image,study_id\nimages/s03.png,s03\n")
    with pytest.raises(DataError, match="no image can be read"):
        build_index(folder / "manifest.csv", checkpoint, tmp_path / "empty")


def test_pooled_in_8_bits_takes_less_room(
    data_folder: Path, checkpoint: Path, index_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "small"
    build_index(data_folder / "manifest.csv", checkpoint, out, storage="int8", pool=2)
    build_index(data_folder / "manifest.csv", checkpoint, out)  # what it keeps is noted
    assert (out / VECTORS[0]).stat().st_size == 48 * 4 * (16 + 2)
    assert (index_folder / VECTORS[0]).stat().st_size == 48 * 16 * 16 * 2
    with open_index(out) as small, open_index(index_folder) as whole:
        text = whole.state.texts[0]
        best = {hit.image.image for hit in whole.search_text(text, 10)}
        assert len(best & {hit.image.image for hit in small.search_text(text, 20)}) >= 8


def test_reports_of_other_studies_are_refused(
    checkpoint: Path, data_folder: Path, tmp_path: Path
) -> None:
    others = tmp_path / "others.csv"
    others.write_text("study_id,report\nother,Zebulon is well.\n")
    with pytest.raises(DataError, match=r"others.csv: none of its reports belongs to") as told:
        build_index(data_folder / "manifest.csv", checkpoint, tmp_path / "new", reports=others)
    assert "Zebulon" not in str(told.value)
