"""``cxrtext classify``."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cxrtext.errors import ImageError, InputError
from cxrtext_cli.given import FILE, INDEX, NEW_TABLE
from cxrtext_cli.options import (
    AllowOutside,
    AsJson,
    Device,
    NotedModel,
    PromptsFile,
    far_fields,
    pick_device,
    print_json,
    print_rows,
    progress,
    say,
    say_unlike,
    write_rows,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cxrtext.evaluation import Prompts
    from cxrtext.models.familiar import Unlike

MAX_PRINTED = 1000
"""Images of an index whose labels are printed; more go to a file."""


def classify(
    images: Annotated[
        list[Path] | None, typer.Argument(help="Images (PNG, JPEG, DICOM), or one manifest."), FILE
    ] = None,
    model: NotedModel = None,
    index: Annotated[
        Path | None,
        typer.Option(help="Label a whole index, from what it keeps: nothing is decoded."),
        INDEX,
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the labels in the index, for filters and cohorts.")
    ] = False,
    prompts: PromptsFile = None,
    out: Annotated[
        Path | None, typer.Option(help="Write the probabilities as CSV, too."), NEW_TABLE
    ] = None,
    device: Device = "auto",
    allow_outside: AllowOutside = False,
    as_json: AsJson = False,
) -> None:
    """Zero-shot probabilities of findings in images, a manifest's images or a whole index."""
    from cxrtext.evaluation import CHEX5_PROMPTS, read_prompts

    if index is not None:
        if images:
            raise InputError("give either images or --index DIR")
        wanted = read_prompts(prompts) if prompts else CHEX5_PROMPTS
        _classify_index(index, model, wanted, pick_device(device), out, keep, as_json)
        return
    if not images or model is None:
        raise InputError("give images and --model DIR, or --index DIR")
    if keep:
        raise InputError("--keep wants --index DIR: labels are kept in an index")
    sources = _sources(images, allow_outside)

    from cxrtext.service import load_service
    from cxrtext.service.limits import UNLIKE_IMAGE

    service = load_service(
        model, prompts=read_prompts(prompts) if prompts else None, device=pick_device(device)
    )
    rows: list[dict[str, Any]] = []
    failed: list[str] = []
    sure: list[str] = []
    far: dict[str, Unlike | None] = {}
    many = len(sources) > 1
    with ExitStack() as stack:
        update = stack.enter_context(progress("classifying", "images")) if many else None
        for number, (name, path) in enumerate(sources, 1):
            try:
                embedded = service.embed_file(path)
                findings = service.classify(embedded)
                rows.append({"image": name, **{f.finding: f.probability for f in findings}})
                far[name] = embedded.unlike
                sure = sure or [f.finding for f in findings if f.calibrated]
            except ImageError as error:
                if not many:
                    raise
                failed.append(str(error))
            if update:
                update(number, len(sources))
    shown = [{**row, "unlike": _in_a_word(far[row["image"]])} for row in rows]
    if out is not None and rows:
        write_rows(out, shown)
    if as_json:
        print_json([{**row, "unlike": far_fields(far[row["image"]])} for row in rows])
    elif rows:
        print_rows(shown)
    if rows:
        _say_calibrated(sure)
    for name, one in far.items():
        say_unlike(name, one, UNLIKE_IMAGE)
    for line in failed:
        say(f"rejected: {line}")
    if failed and not rows:
        raise ImageError(f"none of {len(failed)} images can be read")


def _in_a_word(far: "Unlike | None") -> str:
    if far is None:
        return "not known"
    return "yes" if far.flagged else "no"


def _classify_index(
    folder: Path,
    checkpoint: Path | None,
    prompts: "Mapping[str, Prompts]",
    device: str,
    out: Path | None,
    keep: bool,
    as_json: bool,
) -> None:
    from cxrtext.evaluation.calibration import calibrations_of
    from cxrtext.index import keep_labels, label_archive, open_index
    from cxrtext.models import load_model
    from cxrtext.records import write_table
    from cxrtext.service.tables import plain

    model = load_model(checkpoint, device) if checkpoint else None
    with open_index(folder, model) as archive:
        archive.model.to(device)
        if archive.images > MAX_PRINTED and out is None and not keep:
            raise InputError(
                f"{archive.images} images are many to print; give --out FILE or --keep"
            )
        if keep:
            keep_labels(archive, prompts)
        rows = (
            {
                "image": plain(labeled.image.image),
                "study_id": plain(labeled.image.study_id),
                "patient_id": plain(labeled.image.patient_id),
                **labeled.probabilities,
            }
            for labeled in label_archive(archive, prompts)
        )
        if out is not None:
            write_table(out, ["image", "study_id", "patient_id", *prompts], rows)
            say(f"{out}: labels of {archive.images} images")
        elif archive.images <= MAX_PRINTED:
            given = list(rows)
            if as_json:
                print_json(given)
            else:
                print_rows(given)
        _say_calibrated(list(calibrations_of(archive.model, prompts)))


def _say_calibrated(findings: list[str]) -> None:
    say(f"calibrated: {', '.join(findings)}" if findings else "probabilities are not calibrated")


def _sources(images: list[Path], allow_outside: bool) -> list[tuple[str, Path]]:
    """Name and path of every image; a table stands for the images that it names."""
    tables = [path for path in images if path.suffix.lower() in (".csv", ".parquet")]
    if not tables:
        return [(str(path), path) for path in images]
    if len(images) > 1:
        raise InputError("give images, or one manifest alone")
    from cxrtext.records import read_manifest

    records = read_manifest(tables[0], allow_outside=allow_outside)
    return [(record.name, record.path) for record in records]
