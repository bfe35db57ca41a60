"""The filter language, against Python over the same rows; filters of an index."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cxrtext.errors import DataError
from cxrtext.index import delete, open_index
from cxrtext.index.search import selection
from cxrtext.index.search.filter import as_cell, named_ids, parse
from cxrtext.models import ImageTextModel

SLOTS = {"age": 0, "sex": 1, "code": 2, "label.Pleural Effusion": 3}
ROWS = [
    # study_id, age, sex, code, label
    ("s1", "61", "F", "007", 0.9),
    ("s2", "60", "M", "7", 0.1),
    ("s3", "", "F", "O'Hara", None),
    ("s4", "unknown", "", 'a"b', 0.5),
    ("5", "59.5", "M", "1e3", 0.4),
]


@pytest.fixture(scope="module")
def ask() -> Callable[[str], list[str]]:
    database = sqlite3.connect(":memory:", check_same_thread=False)
    database.execute(
        "CREATE TABLE images (number, image, study_id TEXT, patient_id, split, height, width)"
    )
    database.execute("CREATE TABLE attributes (number, c0, c1, c2, c3)")
    for i, (study, age, sex, code, label) in enumerate(ROWS):
        database.execute(
            "INSERT INTO images VALUES (?, ?, ?, '', '', 80, 90)", (i, f"{i}.png", study)
        )
        cells = (as_cell(age), as_cell(sex), as_cell(code), label)
        database.execute("INSERT INTO attributes VALUES (?, ?, ?, ?, ?)", (i, *cells))

    def run(where: str) -> list[str]:
        condition = parse(where, SLOTS)
        query = "SELECT study_id FROM images JOIN attributes USING (number) WHERE "
        return [s for (s,) in database.execute(query + condition.sql, condition.values)]

    return run


@pytest.mark.parametrize(
    ("where", "studies"),
    [
        ("age > 60", ["s1"]),
        ("not age > 60", ["s2", "5"]),
        ("age is null", ["s3"]),
        ("age is not null", ["s1", "s2", "s4", "5"]),
        ("age between 59 and 60", ["s2", "5"]),
        ("age not between 59 and 60", ["s1"]),
        ("age between 60 and 60", ["s2"]),
        ("SEX = 'F' AND age > 1", ["s1"]),
        ("sex in ('M', 'X') or age = 61", ["s1", "s2", "5"]),
        ("sex not in ('M')", ["s1", "s3"]),
        ("code = '007'", ["s1"]),
        ("code = 7", ["s2"]),
        ("code = 'O''Hara'", ["s3"]),
        ("code = 1000", ["5"]),
        ("study_id in (5, 's1')", ["s1", "5"]),
        ("height = 80 and width < 91", ["s1", "s2", "s3", "s4", "5"]),
        ('"label.Pleural Effusion" > 0.45', ["s1", "s4"]),
        ("`label.Pleural Effusion` <= .1", ["s2"]),
        ("label.pleural_effusion > 0.45", ["s1", "s4"]),
        ("age > 60 or sex = 'M' and code = 7", ["s1", "s2"]),
        ("code = ''' OR 1=1 --'", []),
    ],
)
def test_what_filters_select(
    ask: Callable[[str], list[str]], where: str, studies: list[str]
) -> None:
    assert ask(where) == studies


def test_a_name_that_two_columns_may_mean_is_refused() -> None:
    assert parse("AGE > 3", {"Age": 0}).sql == parse("Age > 3", {"Age": 0}).sql
    with pytest.raises(DataError, match="no column 'AGE'"):
        parse("AGE > 3", {"Age": 0, "age": 1})


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("", "the filter is empty"),
        ("weight > 3", r"character 1: no column 'weight'; there are image, study_id, patient_id"),
        ("age", "character 4: expected a comparison"),
        ("(age > 3", r"expected '\)'"),
        ("age > 'x", "character 7: this quote is not closed"),
        ("age > 3; drop", "character 8: ';' fits nowhere"),
        ("age in ()", "expected a value"),
        ("age between 3 or 4", "expected 'and'"),
        ("not " * 60 + "age > 3", "nests deeper than 50"),
        (" or ".join(["age = 1"] * 501), "more than 500 comparisons"),
        ("age = " + "1" * 10_001, "at most 10000 are read"),
        ("age = 1\0", "null character"),
    ],
)
def test_wrong_filters_say_where(where: str, says: str) -> None:
    with pytest.raises(DataError, match=says):
        parse(where, SLOTS)


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=40))
def test_any_value_is_data(ask: Callable[[str], list[str]], text: str) -> None:
    quoted = text.replace("'", "''").replace("\0", "")
    assert ask(f"code = '{quoted}' or study_id = 's1'")[0] == "s1"


@settings(max_examples=300, deadline=None)
@given(text=st.text(alphabet="age sx='\"()<>!,.and orti nul0123;-`", max_size=60))
def test_any_text_is_a_filter_or_refused(ask: Callable[[str], list[str]], text: str) -> None:
    try:
        found = ask(text)
    except DataError:
        return
    assert set(found) <= {row[0] for row in ROWS}


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=60))
def test_no_text_of_a_user_reaches_the_sql(text: str) -> None:
    try:
        sql = parse(text, SLOTS).sql
    except DataError:
        return
    assert set(sql) <= set(
        "imagestrbucTNUMERCASWHLOPFYDX_.0123456789()?<>=' ,abcdefghijklmnopqrstuvwxyz"
    )


@pytest.mark.parametrize(
    ("text", "cell"),
    [("", None), (" ", None), ("7", 7), ("-3", -3), ("1.50", 1.5), ("007", "007"), ("0", 0),
     ("0.5", 0.5), ("1_000", "1_000"), ("nan", "nan"), ("inf", "inf"), ("1e400", "1e400"),
     ("x", "x"), ("20200131", 20200131), ("+", "+"), ("2020-01-31", "2020-01-31")],
)  # fmt: skip
def test_cells(text: str, cell: object) -> None:
    assert as_cell(text) == cell


@pytest.mark.parametrize(
    ("where", "named"),
    [
        ("age > 60", {}),
        ("patient_id = 'p1'", {"patient_id": ["p1"]}),
        ("Patient_ID != p1 and not STUDY_ID in ('s1', 2, `x y`)",
         {"patient_id": ["p1"], "study_id": ["s1", "2", "x y"]}),
        ("(age > 1 or patient_id >= 'p1') and patient_id <= 'p1'", {"patient_id": ["p1"]}),
        ("image between 'a' and 'b' and patient_id is not null",
         {"image": ["a", "b"], "patient_id": []}),
        ("patient_id = 'image = x'", {"patient_id": ["image = x"]}),
        ("nobody_knows_this = 'p1' or patient_id = p2", {"patient_id": ["p2"]}),
        # As far as it can be read.
        ("patient_id in ('p1', 'p2'", {"patient_id": ["p1", "p2"]}),
        ("patient_id = 'p1' and and", {"patient_id": ["p1"]}),
        ("patient_id = 'p1", {}),
        ("", {}),
    ],
)  # fmt: skip
def test_whom_a_filter_names(where: str, named: dict[str, list[str]]) -> None:
    assert named_ids(where) == named


def test_a_filter_is_answered_in_parts(
    small: Path, model: ImageTextModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "CELLS_AT_ONCE", 50)
    delete(small, ["s3", "s59"])
    with open_index(small, model) as index:
        steps = selection.select(index.catalogue, index.snapshot, "age >= 60 and sex = 'F'")
        pauses = 0
        while True:
            try:
                next(steps)
                pauses += 1
            except StopIteration as end:
                places = end.value.tolist()
                break
        assert pauses == 8  # of 120 numbers, 16 at once
        there = [i for i in range(120) if i // 2 not in (3, 59)]
        assert places == [i for i in there if 20 + i % 70 >= 60 and i % 2 == 0]
