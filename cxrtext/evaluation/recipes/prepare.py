"""The images of a benchmark: compared with the official list, and taken from a data folder."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from cxrtext.datasets.importing.folder import WRITTEN
from cxrtext.errors import DataError
from cxrtext.evaluation.data import DataFolder, find_table, read_data_folder
from cxrtext.evaluation.documents.images import counted
from cxrtext.evaluation.recipes.lists import FoundList, name_of, read_list
from cxrtext.evaluation.recipes.recipe import Recipe
from cxrtext.records import ImageRecord


@dataclass(slots=True)
class Selection:
    """What a benchmark measures in a data folder.

    ``short`` says why it is not the benchmark, or is empty; ``missing`` counts images missing from
    the folder, ``apart`` images that choose no thresholds because another image of their patient is
    measured; ``findings`` are those measured, which have a column of labels.
    """

    folder: DataFolder
    found: FoundList
    short: list[str]
    missing: int
    apart: int
    findings: tuple[str, ...] = ()
    left_out: list[str] = field(default_factory=list)


def check_list(recipe: Recipe, found: FoundList) -> list[str]:
    """Compare a list with the official ones; returns a line if it is none of them."""
    if found.known is not None:
        return []
    lists = recipe.content.images.known
    official = " or ".join(f"the {known.count:,} of {known.title}" for known in lists)
    listed = f"{found.where} lists {counted(len(found.names), 'image')}"
    if any(len(found.names) == known.count for known in lists):
        return [f"{listed}, and not {official}: the digest of the names differs"]
    return [f"{listed}, and not {official}"]


def check_images(found: FoundList, kept: Iterable[str]) -> list[str]:
    """Compare the images at hand with a list; the line names the first missing one."""
    missing = sorted(found.wanted - set(kept))
    if not missing:
        return []
    total = len(found.wanted)
    more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
    return [f"{total - len(missing):,} of {total:,} images; missing {missing[0]}{more}"]


def prepare(
    recipe: Recipe, data: Path, *, listed: Path | None = None, subset: bool = False
) -> Selection:
    """Compare the images of a data folder with the official list, and select those measured.

    ``data`` is the set imported by ``cxrtext import``, ``listed`` a file with one name a line.
    With ``subset``, a list that is incomplete or not the official one is used all the same.
    """
    if data.is_dir() and find_table(data, "manifest") is None:
        raise DataError(f"{data}: holds no manifest.csv; import the set: {recipe.import_command}")
    content = recipe.content
    folder = read_data_folder(data, allow_outside=True, findings=tuple(recipe.prompts))
    rows = [{"image": record.name, "split": record.split} for record in folder.records]
    found = read_list(recipe, rows, listed)
    by_name: dict[str, ImageRecord] = {}
    for record in folder.records:
        by_name.setdefault(name_of(content.images.name, record.name), record)
    short = [*check_list(recipe, found), *check_images(found, by_name)]
    if short and not subset:
        raise DataError(
            f"{recipe.name}: {'; '.join(short)}. This is not the benchmark; import the whole set "
            f"({content.get}), whose {WRITTEN[-1]} says what was left out, or try what is there "
            "with --subset"
        )
    records = [
        replace(by_name[name], split="test" if name in found.test else "val")
        for name in sorted(found.wanted & by_name.keys())
    ]
    # Images that choose thresholds must not be of patients who are measured.
    measured = {record.patient_id for record in records if record.split == "test"}
    if not measured:
        raise DataError(f"{data}: has none of the images that {recipe.name} measures")
    kept = [r for r in records if r.split == "test" or r.patient_id not in measured]
    folder = _of_images(recipe, folder, kept)
    missing, apart = len(found.wanted - by_name.keys()), len(records) - len(kept)
    selection = Selection(folder, found, short, missing, apart)
    tested = [record for record in kept if record.split == "test"]
    if "labels" in content.takes:
        _check_labels(recipe, selection, [record.study_id for record in tested])
    if "boxes" in content.takes:
        _check_boxes(recipe, selection, {record.name for record in tested})
    return selection


def _of_images(recipe: Recipe, folder: DataFolder, records: list[ImageRecord]) -> DataFolder:
    """A data folder with only these images and the tables that a recipe needs."""
    takes = recipe.content.takes
    for stem, has in (("labels", folder.labels), ("boxes", folder.boxes)):
        if stem in takes and has is None:
            raise DataError(f"{folder.path}: has no {stem}, which {recipe.name} needs")
    names, studies = {r.name for r in records}, {r.study_id for r in records}
    labels = {k: v for k, v in (folder.labels or {}).items() if k in studies}
    if recipe.content.blank == "absent":
        labels = {s: {k: v or 0 for k, v in one.items()} for s, one in labels.items()}
    boxed, reported = "boxes" in takes, "reports" in takes
    sentences, boxes = folder.sentences or (), folder.boxes or ()
    return replace(
        folder,
        records=records,
        labels=labels if "labels" in takes else None,
        sentences=[s for s in sentences if s.study_id in studies] if reported else None,
        boxes=[box for box in boxes if box.image in names] if boxed else None,
        absent=tuple(phrase for phrase in folder.absent if boxed and phrase.image in names),
        bad_boxes=folder.bad_boxes if boxed else (),
    )


def _check_labels(recipe: Recipe, selection: Selection, measured: Sequence[str]) -> None:
    """Choose the findings that enough of the images measured have; check how many have each."""
    content, labels = recipe.content, selection.folder.labels or {}
    asked = tuple(recipe.prompts)
    values_of = {name: [labels.get(study, {}).get(name) for study in measured] for name in asked}
    counts = {name: values.count(1) for name, values in values_of.items()}
    # a short selection is a few images to try with
    least = content.prompts.more_than if content.prompts and not selection.short else 0
    findings = tuple(
        name
        for name in asked
        if (counts[name] > least or not least) and any(v is not None for v in values_of[name])
    )
    if len(findings) < len(asked):
        few = f"that at most {least} of the images have" if least else "without a label"
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


def _check_boxes(recipe: Recipe, selection: Selection, tested: set[str]) -> None:
    boxes = sum(box.image in tested for box in selection.folder.boxes or ())
    expected = recipe.content.expected.boxes
    if expected is not None and boxes != expected:
        _annotations(recipe, selection, "boxes", [f"{boxes:,} and not {expected:,}"])


def _annotations(recipe: Recipe, selection: Selection, what: str, wrong: list[str]) -> None:
    """Refuse annotations that are not the official ones although the images are."""
    if not wrong:
        return
    line = f"the {what} are not the official ones: {wrong[0]}"
    if len(wrong) > 1:
        line += f", and {len(wrong) - 1} more"
    if not selection.short:  # other images have other counts
        raise DataError(f"{recipe.name}: {line}; get them from {recipe.content.get}")
