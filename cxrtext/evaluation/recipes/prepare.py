"""The images of a benchmark: compared with the official list, and laid out.

``OUT/selected/NAME`` is the data folder that is measured; its manifest names images of the one that
``cxrtext import`` made.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cxrtext.datasets.importing.folder import WRITTEN
from cxrtext.errors import DataError
from cxrtext.evaluation.data import find_table, manifest_of
from cxrtext.evaluation.documents.images import counted
from cxrtext.evaluation.recipes.lists import FoundList, name_of, read_list
from cxrtext.evaluation.recipes.recipe import Recipe
from cxrtext.files import write_json
from cxrtext.records import read_labels, write_table
from cxrtext.records.tables import read_table

Row = dict[str, str]


@dataclass(slots=True)
class Selection:
    """The data folder of a benchmark: ``short`` says why it is not the benchmark, else empty."""

    folder: Path
    found: FoundList
    images: int
    short: list[str] = field(default_factory=list)
    missing: int = 0
    apart: int = 0
    """Images that choose no thresholds, as another one of their patient is measured."""
    findings: tuple[str, ...] = ()
    """Those with a column of labels that are measured."""
    left_out: list[str] = field(default_factory=list)


def check_list(recipe: Recipe, found: FoundList) -> list[str]:
    """Compare a list with the official ones: a line where it is none of them, else nothing."""
    if found.known is not None:
        return []
    known = recipe.content.images.known
    official = " or ".join(f"the {one.count:,} of {one.title}" for one in known)
    listed = f"{found.where} lists {counted(len(found.names), 'image')}"
    if any(len(found.names) == one.count for one in known):
        return [f"{listed}, and not {official}: the digest of the names differs"]
    return [f"{listed}, and not {official}"]


def check_images(found: FoundList, kept: Iterable[str]) -> list[str]:
    """Compare the images that there are with a list; the first that is missing is named."""
    missing = sorted(found.wanted - set(kept))
    if not missing:
        return []
    total = len(found.wanted)
    more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
    return [f"{total - len(missing):,} of {total:,} images; missing {missing[0]}{more}"]


def _refuse(recipe: Recipe, short: list[str], subset: bool) -> None:
    if short and not subset:
        raise DataError(
            f"{recipe.name}: {'; '.join(short)}. This is not the benchmark; import the whole set "
            f"({recipe.content.get}), whose {WRITTEN[-1]} says what was left out, or try what is "
            "there with --subset"
        )


def prepare(
    recipe: Recipe, data: Path, out: Path, *, listed: Path | None = None, subset: bool = False
) -> Selection:
    """Compare the images of a data folder with the official list, and lay out what is measured.

    ``data`` is what ``cxrtext import`` made of the set; ``listed`` a file with a name a line;
    ``out`` gets ``selected``.  With ``subset`` a list that is not the official one, or not
    complete, is used all the same.
    """
    if data.is_dir() and find_table(data, "manifest") is None:
        raise DataError(f"{data}: holds no manifest.csv; import the set: {recipe.import_command}")
    rows = read_table(manifest_of(data), ["image", "study_id"]).rows
    found = read_list(recipe, rows, listed)
    by_name: dict[str, Row] = {}
    for row in rows:
        by_name.setdefault(name_of(recipe.content.images.name, row["image"]), row)
    short = [*check_list(recipe, found), *check_images(found, by_name)]
    _refuse(recipe, short, subset)
    selection = Selection(out / "selected" / recipe.name, found, 0, short)
    selection.missing = len(found.wanted - by_name.keys())
    _lay_out(recipe, selection, data, by_name)
    return selection


def _lay_out(recipe: Recipe, selection: Selection, home: Path, by_name: Mapping[str, Row]) -> None:
    folder, found = selection.folder, selection.found
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for stem in ("labels.csv", "boxes.json", "reports.csv"):
        (folder / stem).unlink(missing_ok=True)
    names: dict[str, str] = {}
    rows = []
    for name in sorted(found.wanted & by_name.keys()):
        row = by_name[name]
        place = home.resolve() / row["image"]
        image = names[row["image"]] = os.path.relpath(place, folder.resolve())
        rows.append({**row, "image": image, "split": "test" if name in found.test else "val"})
    selection.images = sum(row["split"] == "test" for row in rows)
    if not selection.images:
        raise DataError(f"{home}: has none of the images that {recipe.name} measures")
    # Of those that choose thresholds without the patients who are measured.
    measured = {_patient(row) for row in rows if row["split"] == "test"}
    kept = [row for row in rows if row["split"] == "test" or _patient(row) not in measured]
    rows, selection.apart = kept, len(rows) - len(kept)
    columns = list(dict.fromkeys(column for row in rows[:1] for column in row))
    write_table(folder / "manifest.csv", columns, rows)
    studies = {row["study_id"] for row in rows}
    if "labels" in recipe.content.takes:
        tested = [row["study_id"] for row in rows if row["split"] == "test"]
        _labels(recipe, selection, home, studies, tested)
    if "boxes" in recipe.content.takes:
        _boxes(recipe, selection, home, names)
    table = find_table(home, "reports")
    if "reports" in recipe.content.takes and table is not None:
        reports = read_table(table, ["study_id"])
        own = [row for row in reports.rows if row["study_id"] in studies]
        write_table(folder / "reports.csv", reports.columns, own)


def _patient(row: Row) -> str:
    return row.get("patient_id") or row["study_id"]


def _labels(
    recipe: Recipe, selection: Selection, home: Path, studies: set[str], measured: list[str]
) -> None:
    content, table = recipe.content, find_table(home, "labels")
    if table is None or content.prompts is None:
        raise DataError(f"{home}: holds no labels, which {recipe.name} wants")
    asked = tuple(content.prompts.findings)
    labels = read_labels(table, asked)
    if content.blank == "absent":
        labels = {s: {k: v or 0 for k, v in one.items()} for s, one in labels.items()}
    said = {name: [labels.get(study, {}).get(name) for study in measured] for name in asked}
    counts = {name: values.count(1) for name, values in said.items()}
    least = 0 if selection.short else content.prompts.more_than  # short: a few images to try with
    findings = tuple(name for name in asked if counts[name] > least or not least)
    findings = tuple(name for name in findings if any(one is not None for one in said[name]))
    if len(findings) < len(asked):
        few = f"that not more than {least} of the images have" if least else "without a label"
        selection.left_out.append(
            f"classification: {counted(len(asked) - len(findings), 'finding')} {few}"
        )
    wrong = [
        f"{name}: {counts.get(name, 0):,} with it and not {count:,}"
        for name, count in content.expected.positives.items()
        if counts.get(name) != count
    ]
    _annotations(recipe, selection, "labels", wrong)
    selection.findings = findings
    rows = [
        {"study_id": study, **{name: values[name] for name in findings}}
        for study, values in labels.items()
        if study in studies
    ]
    write_table(selection.folder / "labels.csv", ["study_id", *findings], rows)


def _boxes(recipe: Recipe, selection: Selection, home: Path, names: Mapping[str, str]) -> None:
    table = home / "boxes.json"
    if not table.is_file():
        raise DataError(f"{home}: holds no boxes.json, which {recipe.name} wants")
    tree: dict[str, Any] = json.loads(table.read_text(encoding="utf-8"))
    images = [
        {**image, "file_name": names[image["file_name"]]}
        for image in tree["images"]
        if image["file_name"] in names
    ]
    kept = {image["id"]: image["file_name"] for image in images}
    annotations = [one for one in tree["annotations"] if one["image_id"] in kept]
    kind, tested = recipe.content.images.name, selection.found.test
    boxes = sum(
        one.get("bbox") is not None and name_of(kind, kept[one["image_id"]]) in tested
        for one in annotations
    )
    expected = recipe.content.expected.boxes
    if expected is not None and boxes != expected:
        _annotations(recipe, selection, "boxes", [f"{boxes:,} and not {expected:,}"])
    write_json(
        selection.folder / "boxes.json", {**tree, "images": images, "annotations": annotations}
    )


def _annotations(recipe: Recipe, selection: Selection, what: str, wrong: list[str]) -> None:
    """Refuse annotations that are not the official ones, though the images are."""
    if not wrong:
        return
    line = f"the {what} are not the official ones: {wrong[0]}"
    if len(wrong) > 1:
        line += f", and {len(wrong) - 1} more"
    if not selection.short:  # of other images other counts are expected
        raise DataError(f"{recipe.name}: {line}; get them from {recipe.content.get}")
