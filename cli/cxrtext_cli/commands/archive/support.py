"""``cxrtext ground`` and ``cxrtext verify``: what an image supports of a text."""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cxrtext.errors import InputError
from cxrtext_cli.given import FILE, NEW_FILE, REPORT, SENTENCE
from cxrtext_cli.options import (
    AsJson,
    AsWritten,
    PlaceFolder,
    as_option,
    open_place,
    print_json,
    print_rows,
    say,
    say_unlike,
    write_rows,
)

if TYPE_CHECKING:
    from cxrtext.service.verify.verify import SupportedSentence, Verification


def ground(
    place: PlaceFolder,
    image: Annotated[Path, typer.Argument(help="An image: PNG, JPEG or DICOM."), FILE],
    sentence: Annotated[
        str, typer.Argument(help="A sentence, such as 'Left pleural effusion.'"), SENTENCE
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="PNG file of the overlay; by default IMAGE.ground.png here."),
        NEW_FILE,
    ] = None,
    as_written: AsWritten = False,
    as_json: AsJson = False,
) -> None:
    """Show where an image supports a sentence: overlay, peak and boxes."""
    target = out or Path(f"{image.stem}.ground.png")
    if target.suffix.lower() != ".png":
        raise InputError(f"{target}: the overlay is a PNG file; give a name that ends in .png")

    from cxrtext.service.questions import Ground, ask

    ask(Ground, {"image": image, "sentence": sentence, "as_written": as_written}, as_option)

    from cxrtext.client.answers import grounded_of
    from cxrtext.files import replacing
    from cxrtext.images import encode_png, to_uint8
    from cxrtext.images.dicom.orientation import placement_of
    from cxrtext.project import find_place
    from cxrtext.service.limits import UNLIKE_IMAGE, UNLIKE_SENTENCE
    from cxrtext.text.sides import side_of

    service = open_place(find_place(place))
    pixels = service.read_file(image)
    embedded = service.embed(pixels)
    grounding = service.ground(embedded, sentence, as_written=as_written)
    if grounding.read_as is not None:
        say(f"read as: {grounding.read_as}")
    far = service.familiar.of_sentence(grounding.read_as or sentence)
    placement = placement_of(image)
    moved = placement if placement is not None and not placement.plain else None
    with replacing(target) as temporary:
        temporary.write_bytes(encode_png(grounding.drawn_on(to_uint8(pixels))))
    if as_json:
        answer = grounded_of(service, replace(embedded, placement=placement), sentence, grounding)
        print_json(answer.model_dump(mode="json") | {"overlay": str(target)})
        return
    say_unlike(str(image), embedded.unlike, UNLIKE_IMAGE)
    say_unlike("the sentence", far, UNLIKE_SENTENCE)
    if grounding.stands_out is False:
        typer.echo(
            "nothing stands out: its best region fits no better than in most reference images"
        )
    if grounding.side and grounding.side != side_of(grounding.read_as or sentence):
        typer.echo(f"the image speaks for the {grounding.side} side")
    x, y = grounding.peak
    typer.echo(f"score {grounding.score:.4f}, peak at x {x:.0f}, y {y:.0f} of the original")
    if moved is not None:
        how = f"stored {moved.movement} and shown upright" if moved.movement else "made square"
        x, y = moved.points_to_stored(grounding.peak).tolist()
        typer.echo(
            f"its pixels are {how}, as its header says; coordinates refer to the displayed "
            f"picture; in the file's own pixels the peak is at x {x:.0f}, y {y:.0f}"
        )
    for box in grounding.boxes:
        left, top, width, height = box.bbox
        typer.echo(
            f"box x {left:.0f}, y {top:.0f}, w {width:.0f}, h {height:.0f}: score {box.score:.4f}"
        )
    typer.echo(f"overlay: {target}")


STDIN = Path("-")


def verify(
    place: PlaceFolder,
    image: Annotated[Path, typer.Argument(help="An image: PNG, JPEG or DICOM."), FILE],
    report: Annotated[
        Path, typer.Argument(help="A text file with its report; - for standard input."), REPORT
    ],
    out: Annotated[
        Path | None, typer.Option(help="Write a table (.csv) or a page (.html)."), NEW_FILE
    ] = None,
    as_json: AsJson = False,
) -> None:
    """How well an image supports each sentence of its report."""
    if out is not None and out.suffix.lower() not in (".csv", ".html"):
        raise InputError(f"{out}: give a name that ends in .csv or .html")
    from cxrtext.service.questions import Verify, ask

    text = ask(Verify, {"image": image, "report": _read(report)}, as_option).report

    from cxrtext.client.answers import verified_of
    from cxrtext.project import find_place
    from cxrtext.service.limits import UNLIKE_IMAGE, UNLIKE_SENTENCE

    service = open_place(find_place(place))
    pixels = service.read_file(image)
    embedded = service.embed(pixels)
    verification = service.verify(embedded, text)
    far = [service.familiar.of_sentence(one.sentence) for one in verification.sentences]
    _write(out, verification, text, pixels, embedded.is_unlike)
    if as_json:
        print_json(verified_of(service, embedded, verification).model_dump(mode="json"))
        return
    print_rows([_row(one) for one in verification.sentences])
    typer.echo(_compared(verification))
    for line in _judged(verification):
        typer.echo(line)
    say_unlike(str(image), embedded.unlike, UNLIKE_IMAGE)
    for number, unlike in enumerate(far, 1):
        say_unlike(f"sentence {number}", unlike, UNLIKE_SENTENCE)
    if out is not None:
        say(f"written: {out}")


def _read(path: Path) -> str:
    name = "standard input" if path == STDIN else str(path)
    try:
        data = sys.stdin.buffer.read() if path == STDIN else path.read_bytes()
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{name}: not UTF-8 text; give the report as a text file") from None


def _compared(verification: "Verification") -> str:
    used = verification.reference
    if used.source == "none":
        return (
            "no reference images, so no support; keep some with 'cxrtext calibrate CHECKPOINT "
            "--data DIR --keep-reference', or give an index"
        )
    where = "kept with the checkpoint" if used.source == "validation" else "of the index"
    return f"support: percentile among {used.images} images {where}"


def _judged(verification: "Verification") -> list[str]:
    """The reasons for verdicts, in lines: first why sentences are not judged, then unsupported."""
    reasons = Counter(one.judgment.reason for one in verification.sentences if one.judgment.reason)
    lines = [f"not judged ({count}): {reason}" for reason, count in reasons.items()]
    for one in verification.sentences:
        basis = one.judgment.basis
        if one.verdict == "unsupported" and basis is not None:
            lines.append(f"unsupported: {basis}")
    return lines


FIELDS = ("section", "sentence", "start", "end", "wording", "score", "support", "verdict")


def _fields(one: "SupportedSentence", names: Sequence[str] = FIELDS) -> dict[str, Any]:
    return {name: getattr(one, name) for name in names}


def _flat(one: "SupportedSentence") -> dict[str, Any]:
    """Why a sentence is not judged, and the basis of its verdict, as columns of a table."""
    from cxrtext.verdicts.judge import Basis

    basis = one.judgment.basis
    values = asdict(Basis("")) if basis is None else asdict(basis)
    return {"reason": one.judgment.reason, **values}


def _row(one: "SupportedSentence") -> dict[str, Any]:
    support = "-" if one.support is None else f"{one.support:.0f}"
    shown = {"support": support, "verdict": one.verdict}
    return shown | _fields(one, ("wording", "score", "section", "sentence"))


def _write(
    out: Path | None, verification: "Verification", report: str, pixels: Any, unlike: bool
) -> None:
    if out is None:
        return
    if out.suffix.lower() == ".csv":
        write_rows(out, [_fields(one) | _flat(one) for one in verification.sentences])
        return
    from cxrtext.files import write_text
    from cxrtext.service.verify.page import verification_page

    write_text(out, verification_page(verification, report, pixels, unlike))
