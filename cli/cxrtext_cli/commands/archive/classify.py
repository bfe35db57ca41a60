"""``cxrtext classify``."""

from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cxrtext.errors import ImageError, InputError
from cxrtext_cli.given import FILE, NEW_PREDICTIONS
from cxrtext_cli.options import (
    AsJson,
    Device,
    PlaceFolder,
    PromptsFile,
    open_place,
    print_json,
    print_rows,
    progress,
    say,
    say_unlike,
    show_rows,
    write_rows,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cxrtext.models.familiar import Unlike
    from cxrtext.service import FindingScore, Service

MAX_PRINTED = 1000
"""The most images of an index whose labels are printed; for more, give a file."""

RAW = "not calibrated"
"""Column that lists findings whose probability is only a logistic of the score."""
_Source = tuple[str, Path, Mapping[str, str] | None]


@dataclass(frozen=True, slots=True)
class _Classified:
    name: str
    findings: "Sequence[FindingScore]"
    unlike: "Unlike | None"

    @property
    def probabilities(self) -> dict[str, Any]:
        return {"image": self.name, **{one.finding: one.probability for one in self.findings}}


def classify(
    place: PlaceFolder,
    images: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Images (PNG, JPEG, DICOM), or one manifest. Without it, the whole index is "
            "labeled; nothing is decoded."
        ),
        FILE,
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the labels in the index, for filters and cohorts.")
    ] = False,
    prompts: PromptsFile = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Also write the probabilities to this new CSV file."),
        NEW_PREDICTIONS,
    ] = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Zero-shot probabilities of findings in images, a manifest's images or a whole index."""
    from cxrtext.project import find_place

    home = find_place(place)
    if not images:
        home.require_index()
        with closing(open_place(home, device, prompts)) as service:
            _classify_index(service, out, keep, as_json)
        return
    if keep:
        raise InputError("--keep takes no images: it keeps the labels of a whole index")
    sources = _sources(images)
    service = open_place(replace(home, checkpoint=home.model, index=None), device, prompts)
    classified, failed = _classify_files(service, sources)
    if classified and (warning := service.how_good.warning):
        say(warning)
    if classified or as_json:
        _show(classified, out, as_json)
    for line in failed:
        say(f"rejected: {line}")
    if failed and not classified:
        raise ImageError(f"none of {len(failed)} images can be read")


def _classify_files(
    service: "Service", sources: "Sequence[_Source]"
) -> "tuple[list[_Classified], list[str]]":
    """The findings of each readable image, and why others cannot be read."""
    classified, failed = [], []
    many = len(sources) > 1
    with ExitStack() as stack:
        update = stack.enter_context(progress("classifying", "images")) if many else None
        for number, (name, path, metadata) in enumerate(sources, 1):
            try:
                embedded = service.embed_file(path, metadata)
                classified.append(_Classified(name, service.classify(embedded), embedded.unlike))
            except ImageError as error:
                if not many:
                    raise
                failed.append(str(error))
            if update:
                update(number, len(sources))
    return classified, failed


def _show(classified: "Sequence[_Classified]", out: Path | None, as_json: bool) -> None:
    from cxrtext.service.limits import UNLIKE_IMAGE

    rows = [
        one.probabilities
        | {RAW: "; ".join(f.finding for f in one.findings if not f.calibrated)}
        | {"unlike": _in_a_word(one.unlike)}
        for one in classified
    ]
    if out is not None and rows:
        write_rows(out, rows)
    if as_json:
        from cxrtext.client.models import Unlike

        far = [one.unlike and Unlike.model_validate(one.unlike).model_dump() for one in classified]
        known = [[f for f in one.findings if f.calibrated] for one in classified]
        more = [
            {
                "flagged": {f.finding: f.flagged for f in own},
                "threshold of": {f.finding: f.group for f in own},
                "unlike": unlike,
            }
            for own, unlike in zip(known, far, strict=True)
        ]
        print_json([one.probabilities | also for one, also in zip(classified, more, strict=True)])
    else:
        print_rows(rows)
    if classified:
        first = classified[0].findings
        _say_calibrated(
            [one.finding for one in first if one.calibrated],
            [one.finding for one in first if one.by_head],
        )
    for one in classified:
        say_unlike(one.name, one.unlike, UNLIKE_IMAGE)


def _in_a_word(far: "Unlike | None") -> str:
    if far is None:
        return "not known"
    return "yes" if far.flagged else "no"


def _classify_index(service: "Service", out: Path | None, keep: bool, as_json: bool) -> None:
    from cxrtext.evaluation.classification.calibration import calibrations_of
    from cxrtext.evaluation.classification.heads import BetterHeads
    from cxrtext.index import keep_labels, label_archive
    from cxrtext.records import write_table

    archive, prompts = service.archive, service.prompts
    if warning := service.how_good.warning:
        say(warning)
    if archive.images > MAX_PRINTED and out is None and not keep:
        raise InputError(f"{archive.images} images are many to print; give --out FILE or --keep")
    if keep:
        keep_labels(archive, prompts)
    known = calibrations_of(archive.model, prompts)
    raw = "; ".join(name for name in prompts if name not in known)
    rows = (
        {
            "image": labeled.image.image,
            "study_id": labeled.image.study_id,
            "patient_id": labeled.image.patient_id,
            **labeled.probabilities,
            RAW: raw,
        }
        for labeled in label_archive(archive, prompts)
    )
    if out is not None:
        write_table(out, ["image", "study_id", "patient_id", *prompts, RAW], rows)
        say(f"{out}: labels of {archive.images} images")
    elif archive.images <= MAX_PRINTED:
        show_rows(list(rows), as_json)
    _say_calibrated(list(known), BetterHeads(archive.model.heads, prompts).findings)


def _say_calibrated(findings: list[str], by_head: list[str]) -> None:
    say(f"calibrated: {', '.join(findings)}" if findings else "probabilities are not calibrated")
    if by_head:
        say(f"by a head that ranks validation images better than prompts: {', '.join(by_head)}")


def _sources(images: list[Path]) -> "list[_Source]":
    """Name, path and metadata of every image; a table stands for its images."""
    from cxrtext.records.report_sources import is_table

    tables = [path for path in images if is_table(path)]
    if not tables:
        return [(str(path), path, None) for path in images]
    if len(images) > 1:
        raise InputError("give images, or one manifest alone")
    from cxrtext.records import read_manifest

    return [(one.name, one.path, one.metadata) for one in read_manifest(tables[0])]
