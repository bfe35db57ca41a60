"""Numbers from outside: at every door finite and in their range, or refused in one line."""

import math
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError
from typer.testing import CliRunner

from cxrtext.datasets.importing.reading import numbers
from cxrtext.errors import CxrTextError, DataError, InputError
from cxrtext.evaluation.classification.subgroups import age_years
from cxrtext.index.search.filter import parse
from cxrtext.pacs.dicomweb import read_json
from cxrtext.records import read_sentences
from cxrtext.records.boxes import Box, iter_boxes
from cxrtext.records.numbers import read_number, read_strict_json
from cxrtext.service.questions import Threshold
from cxrtext.training.objectives.shared.metadata import as_number
from cxrtext_api.routes.write import parse_metadata
from cxrtext_cli.main import app

NONE = ["nan", "inf", "-Infinity", "1e999", "1_0", "0x1", "", "one", "١"]
none = pytest.mark.parametrize("text", NONE)


def test_what_a_number_is() -> None:
    for text, value in ((" 1.50 ", 1.5), ("-.5", -0.5), ("+2e-3", 0.002), ("1e-320", 1e-320)):
        assert read_number(text) == value
    assert read_number(3, 0, 3) == 3.0
    for wrong in (*NONE, None, True, [1], 10**400, math.nan, math.inf, "4"):
        with pytest.raises(ValueError, match=r"^write a number from 0 to 3, such as 0\.5$"):
            read_number(wrong, 0, 3)
    for wrong in ("[NaN]", "[-Infinity]", "[1e999]", "[1"):
        with pytest.raises(ValueError):
            read_strict_json(wrong)


@none
def test_tables(text: str, tmp_path: Path) -> None:
    assert as_number(text) is None
    assert math.isnan(age_years(text))
    assert math.isnan(numbers({"x": text}, "x")[0])
    table = tmp_path / "boxes.csv"
    table.write_text(f"image,label_text,x,y,w,h,width\na.png,Nodule,1,1,{text or 'x'},4,\n")
    assert not isinstance(next(iter(iter_boxes(table))), Box)
    width = "x" if text in ("", "nan") else text  # what is missing in a table is not a number
    table.write_text(f"image,label_text,x,y,w,h,width\na.png,Nodule,1,1,4,4,{width}\n")
    assert not isinstance(next(iter(iter_boxes(table))), Box)
    for cells in (f"{text},-1,0.5", f"1,{text},0.5", f"1,-1,{text}"):
        table.write_text(
            "study_id,section,position,sentence,n_tokens,log_likelihood,eta\n"
            f"s1,findings,1,Clear.,{cells}\n"
        )
        with pytest.raises(DataError, match="row 1"):
            read_sentences(table)


@none
def test_http_and_filters(text: str) -> None:
    for given in (text, f"'{text}'" if text else "9"):
        with pytest.raises(ValidationError):
            TypeAdapter(Threshold).validate_python(given)
    if text in ("nan", "1e999"):
        said = text.replace("nan", "NaN")
        assert read_json(f'{{"Last": {said}}}'.encode()) is None
        with pytest.raises(InputError, match="^metadata: "):
            parse_metadata(f'{{"age": {said}}}')
    if text == "1e999":
        with pytest.raises(DataError, match="^filter, character 7: write a number"):
            parse(f"age > {text}", {"age": 0})


@pytest.mark.parametrize("text", ["nan", "inf"])
@pytest.mark.parametrize(
    "command",
    [["search", ".", "Effusion.", "--min-score"], ["evaluate", ".", "--sensitivity"],
     ["score-text", ".", "--model", ".", "--a"]],
)  # fmt: skip
def test_options(command: list[str], text: str, index_folder: Path) -> None:
    given: list[Any] = [str(index_folder) if one == "." else one for one in command]
    done = CliRunner().invoke(app, [*given, text])
    assert isinstance(done.exception, CxrTextError), done.output
    assert f"{command[-1]} is {text}; give a finite number" in str(done.exception)
