"""``cxrtext verify``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from cxrtext.errors import InputError
from cxrtext_cli.given import DATA_FOLDER, FILE, INDEX, NEW_FILE, NEW_FOLDER, REPORT, SPLIT
from cxrtext_cli.options import (
    AllowOutside,
    AsJson,
    Device,
    MaxRejected,
    NotedModel,
    pick_device,
    print_json,
    print_rows,
    progress,
    say,
    write_rows,
)

if TYPE_CHECKING:
    from cxrtext.service.quality import CheckedSentence
    from cxrtext.service.verify.verify import SupportedSentence, Verification

STDIN = Path("-")
PRINTED = 20
"""Sentences of an archive that are printed where no file is asked for."""


def verify(
    image: Annotated[
        Path | None, typer.Argument(help="An image: PNG, JPEG or DICOM.", show_default=False), FILE
    ] = None,
    report: Annotated[
        Path | None,
        typer.Argument(help="A text file with its report; - for standard input."),
        REPORT,
    ] = None,
    model: NotedModel = None,
    index: Annotated[
        Path | None,
        typer.Option(help="Index whose images to compare with, if the checkpoint keeps none."),
        INDEX,
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="A whole data folder instead: its least supported sentences."),
        DATA_FOLDER,
    ] = None,
    split: Annotated[
        str, typer.Option(help="With --data: train, val, test or all."), SPLIT
    ] = "all",
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, help="With --data: most sentences to give.")
    ] = 1000,
    wording: Annotated[
        str | None, typer.Option(help="With --data: affirmed, negated or uncertain ones only.")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Region score from which on a region is in a box.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write a table (.csv) or, of one report, a page (.html)."),
        NEW_FILE,
    ] = None,
    device: Device = "auto",
    allow_outside: AllowOutside = False,
    max_rejected: MaxRejected = 100,
    cache: Annotated[
        Path | None, typer.Option(help="With --data: folder of decoded images, shared."), NEW_FOLDER
    ] = None,
    as_json: AsJson = False,
) -> None:
    """How well an image supports each sentence of its report."""
    if model is None and index is None:
        raise InputError("give --model DIR, or --index DIR, which knows its model")
    endings = (".csv",) if data else (".csv", ".html")
    if out is not None and out.suffix.lower() not in endings:
        raise InputError(f"{out}: give a name that ends in {' or '.join(endings)}")
    if data is not None:
        if image or report:
            raise InputError("give either IMAGE and REPORT, or --data DIR")
        _check_wording(wording)

        from cxrtext.service import load_service

        service = load_service(model, index, device=pick_device(device))
        rejects = _of_folder(
            service, data, split, count, wording, allow_outside, max_rejected, cache, out, as_json
        )
        if rejects:
            say(f"images that cannot be read: {rejects}")
        return
    if image is None or report is None:
        raise InputError("give IMAGE and REPORT (a text file, or - for standard input)")
    text = _read(report)

    from cxrtext.service import load_service

    service = load_service(model, index, device=pick_device(device))

    pixels = service.read_file(image)
    found = service.verify(service.embed(pixels), text, threshold)
    _write(out, found, text, pixels)
    if as_json:
        print_json(_json(found))
        return
    print_rows([_row(one) for one in found.sentences])
    typer.echo(_compared(found))
    if out is not None:
        say(f"written: {out}")


def _read(path: Path) -> str:
    """The text of a report."""
    name = "standard input" if path == STDIN else str(path)
    try:
        data = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{name}: not UTF-8 text; give the report as a text file") from None
    except OSError as error:
        raise InputError(f"{name}: {error.strerror}") from None


def _check_wording(wording: str | None) -> None:
    from cxrtext.service.verify.wording import Wording

    if wording is not None and wording not in get_args(Wording):
        raise InputError(f"--wording: '{wording}' is not one of {', '.join(get_args(Wording))}")


def _compared(found: "Verification") -> str:
    used = found.reference
    if used.source == "none":
        return (
            "no reference images, so no support; keep some with 'cxrtext evaluate CHECKPOINT "
            "--data DIR --keep-reference', or give --index"
        )
    where = "kept with the checkpoint" if used.source == "validation" else "of the index"
    return f"support: percentile among {used.images} images {where}; not calibrated"


def _row(one: "SupportedSentence") -> dict[str, Any]:
    return {
        "support": "-" if one.support is None else f"{one.support:.0f}",
        "verdict": one.verdict or "-",
        "wording": one.wording,
        "score": one.score,
        "section": one.section,
        "sentence": one.sentence,
    }


def _json(found: "Verification") -> dict[str, Any]:
    return {
        "reference": {"source": found.reference.source, "images": found.reference.images},
        "sentences": [
            {
                "section": one.section,
                "sentence": one.sentence,
                "start": one.start,
                "end": one.end,
                "wording": one.wording,
                "score": one.score,
                "support": one.support,
                "verdict": one.verdict,
                "peak": one.grounding.peak,
                "threshold": one.grounding.threshold,
                "boxes": [{"bbox": b.bbox, "score": b.score} for b in one.grounding.boxes],
                "grid": one.grounding.grid.tolist(),
            }
            for one in found.sentences
        ],
    }


def _write(out: Path | None, found: "Verification", report: str, pixels: Any) -> None:
    if out is None:
        return
    if out.suffix.lower() == ".csv":
        columns = ("section", "sentence", "start", "end", "wording", "score", "support", "verdict")
        write_rows(out, [{name: getattr(s, name) for name in columns} for s in found.sentences])
        return
    from cxrtext.files import write_text
    from cxrtext.service.verify.page import verification_page

    write_text(out, verification_page(found, report, pixels))


def _of_folder(
    service: Any,
    data: Path,
    split: str,
    count: int,
    wording: Any,
    allow_outside: bool,
    max_rejected: int,
    cache: Path | None,
    out: Path | None,
    as_json: bool,
) -> int:
    from cxrtext.images.cache import DecodedCache
    from cxrtext.records import Rejects
    from cxrtext.service.quality import least_supported

    rejects = Rejects(max_rejected)
    with progress("verifying", "images") as update:
        found, total = least_supported(
            service,
            data,
            split=split,
            count=count if out is not None or as_json else min(count, PRINTED),
            wordings=None if wording is None else (wording,),
            allow_outside=allow_outside,
            cache=DecodedCache(cache, say) if cache else None,
            rejects=rejects,
            progress=update,
        )
    rows = [_checked_row(one) for one in found]
    if out is not None:
        write_rows(out, rows)
        say(f"{out}: the {len(rows)} least supported of {total} sentences")
    if as_json:
        print_json(rows)
    elif out is None:
        print_rows(rows)
        say(f"the {len(rows)} least supported of {total} sentences; --out FILE writes more")
    return len(rejects.rows)


def _checked_row(one: "CheckedSentence") -> dict[str, Any]:
    found = one.found
    return {
        "image": one.record.name,
        "study_id": one.record.study_id,
        "section": found.section,
        "position": one.position,
        "wording": found.wording,
        "support": found.support,
        "verdict": found.verdict,
        "score": found.score,
        "sentence": found.sentence,
    }
