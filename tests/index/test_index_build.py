import json
import shutil
import sqlite3
from pathlib import Path
from unittest.mock import patch

import pytest

from cxrtext.datasets.importing.importer import import_folder
from cxrtext.datasets.importing.reading import ImportOptions
from cxrtext.errors import CheckpointError, ConfigError, DataError
from cxrtext.files import write_sums
from cxrtext.images.cache import DecodedCache
from cxrtext.index import Archive, ImageHit, Query, build_index, open_index
from cxrtext.index.features.scoring import mean_region
from cxrtext.index.store.catalogue import SCHEMA_VERSION, set_meta
from cxrtext.index.store.writer import writing
from cxrtext.jobs.embed import embed_job
from cxrtext.models import ImageTextModel, load_model
from tests.conftest import flip, read_csv

VECTORS = [
    f"{name}.000001.vectors" for name in ("regions", "sketch", "profiles", "means", "sentences")
]


def alike(index: Archive, number: int, k: int) -> list[ImageHit]:
    mean = mean_region(index.regions(number)[None])[0]
    return index.search(Query(image=mean), k).hits


def test_an_index_from_decoded_images_is_the_same(
    index_folder: Path, data_folder: Path, checkpoint: Path, tmp_path: Path
) -> None:
    manifest, cache = data_folder / "manifest.csv", DecodedCache(tmp_path / "cache")
    build_index(manifest, checkpoint, tmp_path / "first", cache=cache)
    with patch("cxrtext.images.cache.ReaderPool.map", None):  # all is there
        build_index(manifest, checkpoint, tmp_path / "second", cache=cache)
    for name in VECTORS:
        expected = (index_folder / name).read_bytes()
        assert (tmp_path / "first" / name).read_bytes() == expected
        assert (tmp_path / "second" / name).read_bytes() == expected
    with open_index(index_folder) as one, open_index(tmp_path / "second") as other:
        image = "images/s01.png"
        assert one.find(image) == other.find(image)


def test_a_build_keeps_images_and_sentences_and_measures_its_recall(
    index_folder: Path, checkpoint: Path
) -> None:
    with open_index(index_folder) as index:
        hits = index.search_sentences(10, image=index.regions(0))
        said = ("The lungs are clear.", "Left pleural effusion.", "Right pneumothorax.")
        assert {hit.sentence: hit.studies for hit in hits} == dict.fromkeys(said, 16)
        image = index.find("images/s05.png")
        assert (image.study_id, image.split, image.metadata["age"]) == ("s05", "val", "45")
        assert (image.height, image.width) == (80, 80)
        assert index.catalogue.image("images/none.png") is None
        assert index.catalogue.report("s05") == [("findings", "Right pneumothorax.")]
        assert len(index.page(40, 100)[0]) == 8
    summary = json.loads((index_folder / "index.json").read_text())
    assert summary["images"] == 48
    assert summary["model"] == load_model(checkpoint).fingerprint


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
        assert len(alike(index, 0, 50)) == 32
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
    index_copy: Path, data_folder: Path, checkpoint: Path, tmp_path: Path
) -> None:
    from safetensors.torch import load_file, save_file

    changed = Path(shutil.copytree(checkpoint, tmp_path / "changed"))
    tensors = load_file(changed / "model.safetensors")
    tensors["log_gamma_sq"] = tensors["log_gamma_sq"] + 1
    save_file(tensors, changed / "model.safetensors")
    write_sums(changed)
    with pytest.raises(CheckpointError, match="made by another model"):
        open_index(index_copy, changed)
    with pytest.raises(CheckpointError, match="made by another model"):
        build_index(data_folder / "manifest.csv", changed, index_copy)


def change_meta(folder: Path, key: str, value: str) -> None:
    with sqlite3.connect(folder / "catalogue.sqlite") as database:
        set_meta(database, {key: value})
    database.close()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({"checkpoint": "/moved"}, "no longer at '/moved'; 'cxrtext index build",
                     id="a-moved-checkpoint-is-asked-for"),
        pytest.param({"model": "0" * 64, "preprocessing": '{"resize": 512, "crop": 480}'},
                     "prepares images otherwise .*512.*72", id="other-preprocessing-is-named"),
        pytest.param({"schema_version": "6"},
                     "another version of cxrtext .schema 6.*run 'cxrtext index build",
                     id="another-schema"),
    ],
)  # fmt: skip
def test_what_is_noted_is_looked_at(index_copy: Path, changes: dict[str, str], says: str) -> None:
    for key, value in changes.items():
        change_meta(index_copy, key, value)
    with pytest.raises(CheckpointError, match=says):
        open_index(index_copy)


@pytest.mark.parametrize("name", VECTORS)
def test_a_changed_byte_is_refused(index_copy: Path, checkpoint: Path, name: str) -> None:
    flip(index_copy / name, (index_copy / name).stat().st_size // 2)
    with pytest.raises(CheckpointError, match=f"{name}: .*damaged"):
        open_index(index_copy, checkpoint)


@pytest.mark.parametrize("name", VECTORS)
def test_a_cut_or_lost_file_is_refused(index_copy: Path, checkpoint: Path, name: str) -> None:
    (index_copy / name).write_bytes((index_copy / name).read_bytes()[:-2])
    with pytest.raises(CheckpointError, match=f"{name}: .* bytes are there"):
        open_index(index_copy, checkpoint)
    (index_copy / name).unlink()
    with pytest.raises(CheckpointError, match=f"{name}: .* bytes are there"):
        open_index(index_copy, checkpoint)


@pytest.mark.parametrize(
    ("whole", "damaged"),
    [
        (b"SQLite format 3", b"no database"),
        (b"ON images (study_id)", b"ON imag\xf4s (study_id)"),
        (b"said (\n    study_id", b"said (\n`   study_id"),
    ],
)
def test_damaged_catalogues_are_one_line(index_copy: Path, whole: bytes, damaged: bytes) -> None:
    """SQLite quotes all of a schema that it does not know, be it text or not."""
    path = index_copy / "catalogue.sqlite"
    path.write_bytes(path.read_bytes().replace(whole, damaged))
    with pytest.raises(CheckpointError, match="is damaged") as raised:
        open_index(index_copy)
    assert "\n" not in str(raised.value)


def test_an_older_schema_is_refused_also_by_a_writer(index_copy: Path) -> None:
    change_meta(index_copy, "schema_version", "3")
    says = f"schema 3, this one reads {SCHEMA_VERSION}"
    with pytest.raises(CheckpointError, match=says), writing(index_copy):
        pass


@pytest.mark.parametrize("name", ["received", "Label.Edema", "model.unlike"])
def test_columns_that_the_index_writes_itself_are_refused(
    data_copy: Path, checkpoint: Path, tmp_path: Path, name: str
) -> None:
    manifest = data_copy / "manifest.csv"
    head, *rows = manifest.read_text().splitlines()
    lines = [f"{head},{name}", *(f"{row},z" for row in rows)]
    manifest.write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match=f"column '{name}': an index keeps its own"):
        build_index(manifest, checkpoint, tmp_path / "out")
    with pytest.raises(DataError, match=f"column '{name}': an index keeps its own"):
        embed_job(manifest, checkpoint, tmp_path / "job", tmp_path / "index")
    with pytest.raises(ConfigError, match=f"--keep {name}: the"):
        import_folder(data_copy, tmp_path / "imported", ImportOptions(keep=(name,)))


def test_unreadable_images_are_set_aside(data_copy: Path, checkpoint: Path, tmp_path: Path) -> None:
    manifest = data_copy / "manifest.csv"
    (data_copy / "images/s03.png").write_bytes(b"no image")
    (data_copy / "images/s04.png").unlink()
    summary = build_index(manifest, checkpoint, tmp_path / "index")
    assert summary.images == 46
    assert summary.rejected is not None
    assert {row["item"] for row in read_csv(summary.rejected)} == {
        "images/s03.png", "images/s04.png"
    }  # fmt: skip
    manifest.write_text("image,study_id\nimages/s03.png,s03\n")
    with pytest.raises(DataError, match="no image can be read"):
        build_index(manifest, checkpoint, tmp_path / "empty")


def test_8_bits_take_less_room(
    data_folder: Path, checkpoint: Path, index_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "small"
    build_index(data_folder / "manifest.csv", checkpoint, out, storage="int8")
    build_index(data_folder / "manifest.csv", checkpoint, out)  # what it keeps is noted
    assert (out / VECTORS[0]).stat().st_size == 48 * 16 * (16 + 2)
    assert (index_folder / VECTORS[0]).stat().st_size == 48 * 16 * 16 * 2


def test_reports_of_others_are_refused(checkpoint: Path, data_folder: Path, tmp_path: Path) -> None:
    others = tmp_path / "others.csv"
    others.write_text("study_id,report\nother,Zebulon is well.\n")
    with pytest.raises(DataError, match=r"others.csv: none of its reports belongs to") as told:
        build_index(data_folder / "manifest.csv", checkpoint, tmp_path / "new", reports=others)
    assert "Zebulon" not in str(told.value)


def test_a_second_build_embeds_what_is_new_alone(
    index_copy: Path, data_copy: Path, checkpoint: Path
) -> None:
    manifest, table = data_copy / "manifest.csv", data_copy / "reports.csv"
    with open_index(index_copy) as index:
        known = set(index.catalogue.known_sentences())
    embed = ImageTextModel.embed_sentences
    with patch.object(ImageTextModel, "embed_sentences", autospec=True, side_effect=embed) as noted:
        assert build_index(manifest, checkpoint, index_copy).added == 0
        table.write_text(table.read_text().replace("s05,", "s05,Never said before. ", 1))
        build_index(manifest, checkpoint, index_copy)
    embedded = [sentence for call in noted.call_args_list for sentence in call.args[1]]
    assert embedded.count("Never said before.") == 1
    assert not known & set(embedded)
    shutil.copy(data_copy / "images/s00.png", data_copy / "images/new.png")
    manifest.write_text("image,study_id\nimages/new.png,new\nimages/s01.png,s01\n")
    table.write_text("study_id,report\nnew,A new sentence.\n")
    summary = build_index(manifest, checkpoint, index_copy)
    assert (summary.images, summary.added, summary.sentences) == (49, 1, 5)
    with open_index(index_copy) as index:
        hits = alike(index, 48, 2)
        assert {hit.image.image for hit in hits} == {"images/new.png", "images/s00.png"}


def test_a_sentence_that_moves_to_another_study_stays(
    data_copy: Path, checkpoint: Path, tmp_path: Path
) -> None:
    """Its study loses its last image when that is replaced; another study says it from now on."""
    few, said, out = data_copy / "few.csv", data_copy / "said.csv", tmp_path / "index"
    for study in ("one", "other"):
        few.write_text(f"image,study_id\nimages/s00.png,{study}\n")
        said.write_text(f"study_id,report\n{study},Never said before.\n")
        build_index(few, checkpoint, out, reports=said, replace=True)
    with open_index(out, checkpoint) as index:
        assert index.report("other") == [("report", "Never said before.")]
        assert index.report("one") == []
        hits = index.search_sentences(5, image=index.regions(1))
        assert [hit.sentence for hit in hits] == ["Never said before."]
