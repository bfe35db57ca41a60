"""``cxrtext import``."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from cxrtext.errors import ConfigError
from cxrtext_cli.given import ANY_PATH, FILE, FILE_OR_FOLDER, NEW_FOLDER
from cxrtext_cli.options import (
    AsJson,
    FollowLinks,
    IdMatching,
    Link,
    MaxRejected,
    Stages,
    TableColumns,
    print_json,
    print_table,
    say,
)

if TYPE_CHECKING:
    from cxrtext.datasets.importing import ImportSummary


def _shares(text: str) -> tuple[int, int, int]:
    parts = text.split(",")
    if len(parts) != 3 or not all(part.strip().isdigit() for part in parts):
        raise ConfigError(f"--split is '{text}'; give three shares such as 80,10,10")
    train, val, test = (int(part) for part in parts)
    return train, val, test


_VERSIONS = {
    "addenda": "addenda appended",
    "replaced": "versions replaced (reports.replaced.csv)",
    "again": "the same report again",
    "other_patient": "of another patient than their study",
}
"""Labels for the counts of later versions of reports."""


def _rows(summary: "ImportSummary") -> list[tuple[str, int]]:
    rows = [("images kept", summary.images)]
    rows += [(f"  {name}", count) for name, count in summary.files.items()]
    rows += [("studies", summary.studies), ("patients", summary.patients)]
    rows += [(f"split {name}", count) for name, count in summary.splits.items() if count]
    rows += [(f"view {name}", count) for name, count in summary.views.items()]
    if summary.without_patient:
        rows.append(("images without a patient id", summary.without_patient))
    if summary.reports is not None:
        rows.append(("reports matched", summary.reports))
        versions = summary.report_versions or {}
        rows += [(f"  {label}", versions[n]) for n, label in _VERSIONS.items() if versions.get(n)]
        rows.append(("  reports without an image", summary.reports_without_study))
        rows.append(("  studies without a report", summary.studies_without_report))
    if summary.labelled is not None:
        rows.append(("studies with labels", summary.labelled))
        rows += [(f"  {name}", count) for name, count in summary.findings.items()]
    if summary.boxes is not None:
        rows.append(("boxes", summary.boxes))
        rows += [("  phrases without a box", summary.absent)] if summary.absent else []
        rows.append(("  boxes without an image", summary.boxes_without_image))
    rows += sorted(summary.notes.items())
    rows += [(f"same pixels {what}", count) for what, count in summary.same_images.items()]
    if summary.merged:
        rows.append(("images of merged patients", summary.merged))
    rows.append(("left out", sum(summary.set_aside.values())))
    return rows + [(f"  {kind}", count) for kind, count in summary.set_aside.items()]


def _tell(summary: "ImportSummary", folder: Path, out: Path) -> None:
    from cxrtext.records.report_sources import made_of_labels

    rows = _rows(summary)
    if summary.layout == "reports":
        rows = [("reports", summary.reports or 0), *((k, n) for k, n in rows if "left" in k)]
    print_table([(f"{out} ({summary.layout})", "count"), *((k, str(n)) for k, n in rows)])
    versions = summary.report_versions
    is_empty = versions is not None and 0 < versions["versions"] == versions["empty"]
    if summary.reports == 0 and summary.layout != "reports" and not is_empty:
        say("no report matched: their study_id must be the study's id or its accession number")
    if made := made_of_labels(out / "reports.csv" if summary.reports else None):
        missing = summary.without_sentence
        say(made + (f"; none for {len(missing)} labels, such as {missing[0]}" if missing else ""))
    if summary.left_out:
        say(f"metadata not read (name it with --keep): {', '.join(summary.left_out)}")
    if any("two" in relation for relation in summary.same_images):
        say(
            f"images with equal pixels: {out / 'import.same-images.csv'}; patients who share one "
            "are in the same split"
        )
    if summary.not_there:
        say(f"listed, but not in {folder} or below: {', '.join(summary.not_there)} …")
    if summary.rejected_path is not None:
        say(f"what was left out, and why: {summary.rejected_path}")
    if summary.hashed:
        say(
            "ids and file names are hashes; NOT de-identified: DICOM headers, report text, text "
            "burnt into pixels"
        )


def import_data(
    folder: Annotated[
        Path,
        typer.Argument(help="Folder of images or of a public set, or a table of images."),
        FILE_OR_FOLDER,
    ],
    out: Annotated[Path, typer.Option(help="Data folder to write."), NEW_FOLDER],
    layout: Annotated[
        str,
        typer.Option(
            help="auto, mimic, chexpert, nih, rsna, siim, vindr, chestxdet10, padchest-gr, "
            "padchest, openi, generic, dicom, pictures or reports."
        ),
    ] = "auto",
    reports: Annotated[
        Path | None,
        typer.Option(
            help="Table or folder of reports, joined by study or accession number; for PNG and "
            "JPEG files, the table that lists them."
        ),
        FILE_OR_FOLDER,
    ] = None,
    columns: TableColumns = "",
    ids: IdMatching = "exact",
    follow_links: FollowLinks = False,
    labels: Annotated[
        Path | None,
        typer.Option(help="Table of labels: study_id or image, and a column per finding."),
        FILE,
    ] = None,
    label_sentences: Annotated[
        bool,
        typer.Option(
            "--label-sentences",
            help="For sets with labels but no reports: write reports of plain sentences from the "
            "labels.",
        ),
    ] = False,
    boxes: Annotated[
        Path | None, typer.Option(help="Box file: COCO JSON as in MS-CXR, or CSV."), FILE
    ] = None,
    keep: Annotated[
        str, typer.Option(help="Metadata for the manifest, such as age,sex; no other is read.")
    ] = "",
    hash_ids: Annotated[
        Path | None,
        typer.Option(
            "--hash-ids",
            metavar="KEYFILE",
            help="Replace ids and file names by hashes under the key in this file; drop dates.",
        ),
        ANY_PATH,
    ] = None,
    split: Annotated[
        str, typer.Option(help="Shares of train, val, test by patient if the set has no split.")
    ] = "80,10,10",
    link: Link = False,
    issuer: Annotated[
        str, typer.Option(help="Issuer of patient ids if the DICOM header names none.")
    ] = "",
    merged_patients: Annotated[
        Path | None, typer.Option(help="Table of merged patients: patient_id, merged_into."), FILE
    ] = None,
    max_rejected: MaxRejected = 100,
    as_json: AsJson = False,
) -> None:
    """Turn a folder of images with a table of reports, or a public set, into a data folder.

    Recognized: MIMIC-CXR(-JPG) with MS-CXR, CheXpert (with the list of 5x200), NIH ChestX-ray14,
    RSNA pneumonia, SIIM-ACR, VinDr-CXR, ChestX-Det10, PadChest, PadChest-GR, Open-i, a manifest,
    a tree of DICOM files, and with --reports a folder of PNG or JPEG files. Only frontal views are
    kept; whatever is left out is listed with the reason.
    """
    from cxrtext.datasets.importing import ImportOptions, import_folder
    from cxrtext.project.stages import say_columns

    kept = tuple(name.strip() for name in keep.split(",") if name.strip())
    table = reports if folder.is_dir() else folder
    given = say_columns(table or folder, say, columns, text=folder.is_dir())
    options = ImportOptions(
        layout=layout,
        keep=kept,
        reports=reports,
        columns=given,
        ids=cast(Any, ids),
        follow_links=follow_links,
        labels=labels,
        label_sentences=label_sentences,
        boxes=boxes,
        hash_key=hash_ids,
        split=_shares(split),
        link=link,
        issuer=issuer,
        merged_patients=merged_patients,
        max_rejected=max_rejected,
    )
    with Stages() as stages:
        summary = import_folder(folder, out, options, stages.show)
    if as_json:
        paths = {"rejected_path": str(summary.rejected_path or ""), "folder": str(out)}
        print_json(asdict(summary) | paths)
    else:
        _tell(summary, folder, out)
