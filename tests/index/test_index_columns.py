"""Columns beside the vectors: filters answered from them say what SQLite's rows say."""

import random
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cxrtext.index import Archive, Index, open_index
from cxrtext.index.changes import add_images, delete_images, set_attributes
from cxrtext.index.features.scoring import packed_rows
from cxrtext.index.search.columns import columns_of
from cxrtext.index.search.filter import as_cell, parse
from cxrtext.index.search.selection import select
from cxrtext.index.store import columns as module
from cxrtext.index.store.catalogue import SCHEMA_VERSION, Catalogue
from cxrtext.index.store.check import check_index
from cxrtext.index.store.snapshot import take_snapshot
from cxrtext.index.store.writer import writing
from cxrtext.models import ImageTextModel
from cxrtext.pausing import finish
from tests.index.conftest import MakeArchive, made_up, regions_of

CELLS = [
    None, "", 0, 1, 1.0, -3, 60, 59.5, 0.1, 1e20, 2**52, "60", "007", "F", "M", "é", "x'y", "1.0",
    "2024-01-31", "\U0001f4a9", "z",
]  # fmt: skip
VALUES = [
    "0", "1", "60", "59.5", "0.1", "'60'", "'1'", "'1.0'", "'007'", "'F'", "'é'", "'x''y'", "'zz'",
    "''", "1e20", "'1.0e+20'", "'2024-01-01'", "9007199254740993",
]  # fmt: skip
COLUMNS = ["age", "sex", "note", "code", "image", "study_id", "patient_id", "height", "empty"]


@pytest.fixture(autouse=True)
def _columns_of_small_indexes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_IMAGES", 1)
    monkeypatch.setattr(module, "STALE", 25)


@pytest.fixture
def index(make_archive: MakeArchive, tmp_path: Path, model: ImageTextModel) -> Iterator[Archive]:
    with open_index(make_archive(tmp_path / "index", 120), model) as archive:
        yield archive


def random_filter(chance: random.Random, depth: int = 0) -> str:
    column = chance.choice(COLUMNS)
    value, other = chance.choice(VALUES), chance.choice(VALUES)
    if depth < 3 and chance.random() < 0.5:
        inner = [random_filter(chance, depth + 1) for _ in range(chance.randint(2, 3))]
        return f"({chance.choice([' and ', ' or ']).join(inner)})"
    negation = chance.choice(["", "not "])
    return chance.choice(
        [
            f"{negation}{column} {chance.choice(['=', '<>', '<', '<=', '>', '>='])} {value}",
            f"{column} {negation}in ({value}, {other}, {chance.choice(VALUES)})",
            f"{column} {negation}between {value} and {other}",
            f"{column} is {negation}null",
        ]
    )


def change(folder: Path, model: ImageTextModel, chance: random.Random, step: int) -> None:
    """Add, replace, delete or relabel some images."""
    with writing(folder) as catalogue:
        numbers = [number for (number,) in catalogue.database.execute("SELECT number FROM images")]
        some = chance.sample(numbers, 7)
        kind = chance.choice(["cells", "cells", "study", "add", "replace", "delete"])
        if kind in ("add", "replace"):
            first = 1000 + 10 * step if kind == "add" else chance.randrange(100)
            language = take_snapshot(folder, catalogue).language
            rows, _ = packed_rows(model, regions_of(4, step), language, "float16")
            images = [replace(made_up(first + i), metadata={"code": f"{i}"}) for i in range(4)]
            add_images(folder, catalogue, images, rows)
            return
        with catalogue.transaction(write=True) as database:
            if kind == "cells":
                names = ("age", "sex", "code", f"new{step}")
                cells = [(n, {name: chance.choice(CELLS) for name in names}) for n in some]
                set_attributes(database, cells)
            elif kind == "study":
                database.executemany(
                    "UPDATE images SET patient_id = 'moved' WHERE number = ?", [(n,) for n in some]
                )
            else:
                delete_images(database, "study_id", [f"s{chance.randrange(60)}"])


def put(part: Index, cells: Iterable[tuple[int, dict[str, Any]]]) -> None:
    with writing(part.folder) as catalogue, catalogue.transaction(write=True) as database:
        set_attributes(database, cells)


def remove(part: Index, studies: list[str]) -> None:
    with writing(part.folder) as catalogue, catalogue.transaction(write=True) as database:
        delete_images(database, "study_id", studies)


def by_rows(archive: Archive, where: str) -> list[int]:
    part = archive
    condition = parse(where, part.catalogue.columns())
    rows = part.catalogue.database.execute(
        "SELECT place FROM images LEFT JOIN attributes USING (number) "  # noqa: S608
        f"WHERE {condition.sql} ORDER BY place",
        condition.values,
    )
    return [place for (place,) in rows]


def by_select(archive: Archive, where: str) -> list[int]:
    part = archive
    return list(finish(select(part.catalogue, part.snapshot, where)).tolist())


@pytest.mark.parametrize("seed", range(3))
def test_filters_say_what_rows_say_while_everything_changes(
    index: Archive, model: ImageTextModel, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311
    part = index
    put(part, [(n, {"code": chance.choice(CELLS), "empty": None}) for n in range(120)])
    used = 0
    for step in range(15):
        change(part.folder, model, chance, step)
        used += part.snapshot.columns is not None
        for _ in range(6):
            where = random_filter(chance)
            assert by_select(index, where) == by_rows(index, where), where
        with_file, snapshot = index.columns(), part.snapshot
        with_rows = columns_of(part, replace(snapshot, columns=None))
        assert [c.name for c in with_file] == [c.name for c in with_rows]
        for ours, theirs in zip(with_file, with_rows, strict=True):
            assert (ours.kind, ours.least, ours.most) == (theirs.kind, theirs.least, theirs.most)
            assert len(ours.values) == len(theirs.values)
    assert used == 15
    assert check_index(part.folder, part.catalogue) == []


def test_a_view_that_is_older_than_the_file_is_answered_from_rows(index: Archive) -> None:
    part = index
    old = part.snapshot
    put(part, [(n, {"age": 99}) for n in range(60)])
    new = part.snapshot
    assert old.columns
    assert new.columns
    assert old.columns.digest != new.columns.digest
    assert finish(select(part.catalogue, old, "age = 99")).tolist() == list(range(60))


def test_what_was_deleted_is_in_no_file(index: Archive) -> None:
    part = index
    put(part, [(0, {"note": "told apart"}), (1, {"note": "x"})])
    put(part, [(n, {"age": 9}) for n in range(60)])
    (file,) = part.folder.glob("*.columns")
    assert b"told apart" in file.read_bytes()
    remove(part, ["s0"])
    (file,) = part.folder.glob("*.columns")
    assert b"told apart" not in file.read_bytes()


def test_a_file_is_revised_where_images_are_deleted(
    index: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = index
    put(part, [(5, {"note": "since changed"}), (6, {"age": 1.5})])
    monkeypatch.setattr(module, "write_columns", None)  # nothing is derived anew
    remove(part, ["s0", "s7"])
    before = part.snapshot
    assert before.columns is not None
    assert before.columns.places == 120
    for where in ("age < 40", "note is null", "note = 'since changed'", "sex = 'F'", "age = 1.5"):
        assert by_select(index, where) == by_rows(index, where), where
    patients = before.columns["patient_id"]
    assert patients is not None
    assert patients.texts.find("p0") is not None  # of s1
    images = before.columns["image"]
    assert images is not None
    assert [images.texts.find(f"i{i}.png") is None for i in (0, 1, 2, 5, 14)] == [
        True, True, False, True, True
    ]  # fmt: skip
    assert check_index(part.folder, part.catalogue) == []


def test_an_index_of_the_version_before_is_read_and_turned_by_its_next_writer(
    index: Archive, model: ImageTextModel
) -> None:
    folder = Path(shutil.copytree(index.folder, index.folder.parent / "old"))
    with Catalogue(folder / "catalogue.sqlite", write=True) as catalogue:
        for (name,) in catalogue.database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger' AND name LIKE '%recent%'"
        ).fetchall():
            catalogue.database.execute(f"DROP TRIGGER {name}")
        catalogue.database.execute("DROP TABLE recent")
        catalogue.database.execute("DELETE FROM row_sums WHERE name = 'recent'")
        catalogue.database.execute("DELETE FROM structures WHERE name = 'columns'")
        catalogue.database.execute("UPDATE meta SET value = '4' WHERE key = 'schema_version'")
    with open_index(folder, model) as old:
        assert old.snapshot.columns is None
        assert check_index(folder, old.catalogue) == []
        assert by_select(old, "age < 40") == by_select(index, "age < 40")
    with writing(folder):
        pass
    with open_index(folder, model) as turned:
        assert turned.catalogue.meta()["schema_version"] == str(SCHEMA_VERSION)
        assert turned.snapshot.columns is not None
        assert by_select(turned, "age < 40") == by_select(index, "age < 40")


def test_cells_of_every_kind_keep_their_order_in_a_file(tmp_path: Path) -> None:
    with Catalogue(tmp_path / "catalogue.sqlite", write=True) as catalogue:
        database = catalogue.database
        database.execute("INSERT INTO roots VALUES (1, '/r')")
        for i, cell in enumerate(CELLS):
            row = (i, i, f"{i}.png", 1, "s", "p", "train", 1, 1, "{}", None, None)
            database.execute("INSERT INTO images VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
            set_attributes(database, [(i, {"c": cell})])
        path = tmp_path / "made.columns"
        digest = module.write_columns(path, database, {"c": "attributes.c0"}, len(CELLS))
        column = module.Columns(path, digest, len(CELLS))["c"]
    assert column is not None
    cells = [None, *column.numbers.tolist(), *column.texts]
    assert [cells[code] for code in column.codes] == CELLS
    assert list(column.texts) == sorted(column.texts)
    assert np.all(np.diff(column.numbers) >= 0)
    assert as_cell("1") == 1
