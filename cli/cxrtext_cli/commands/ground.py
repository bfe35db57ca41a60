"""``cxrtext ground``."""

from pathlib import Path
from typing import Annotated

import typer

from cxrtext.errors import InputError
from cxrtext_cli.given import FILE, NEW_FILE, SENTENCE
from cxrtext_cli.options import (
    AsJson,
    Device,
    Model,
    far_fields,
    pick_device,
    print_json,
    say_unlike,
)


def ground(
    image: Annotated[Path, typer.Argument(help="An image: PNG, JPEG or DICOM."), FILE],
    sentence: Annotated[
        str, typer.Argument(help="A sentence, such as 'Left pleural effusion.'"), SENTENCE
    ],
    model: Model,
    out: Annotated[
        Path | None, typer.Option(help="PNG file of the overlay; IMAGE.ground.png here."), NEW_FILE
    ] = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Show where an image supports a sentence: overlay, peak and boxes."""
    target = out or Path(f"{image.stem}.ground.png")
    if target.suffix.lower() != ".png":
        raise InputError(f"{target}: the overlay is a PNG file; give a name that ends in .png")

    from cxrtext.files import replacing
    from cxrtext.images import encode_png, render_overlay
    from cxrtext.images.dicom.orientation import placement_of
    from cxrtext.service import load_service
    from cxrtext.service.limits import UNLIKE_IMAGE, UNLIKE_SENTENCE

    service = load_service(model, device=pick_device(device))
    pixels = service.read_file(image)
    embedded = service.embed(pixels)
    found, (far,) = service.ground(embedded, sentence), service.unlike_sentences([sentence])
    boxes = [box.bbox for box in found.boxes]
    placement = placement_of(image)
    moved = placement if placement is not None and not placement.plain else None
    overlay = render_overlay(pixels, found.map(), limits=found.limits, boxes=boxes, peak=found.peak)
    with replacing(target) as temporary:
        temporary.write_bytes(encode_png(overlay))
    if as_json:
        print_json(
            {
                "score": found.score,
                "peak": found.peak,
                "threshold": found.threshold,
                "boxes": [{"bbox": box.bbox, "score": box.score} for box in found.boxes],
                "grid": found.grid.tolist(),
                "limits": found.scale,
                "stands_out": found.stands_out,
                "stored": moved
                and {
                    "width": moved.stored_width,
                    "height": moved.stored_height,
                    "movement": moved.movement,
                    "peak": moved.points_to_stored(found.peak).tolist(),
                    "boxes": [moved.boxes_to_stored(box).tolist() for box in boxes],
                },
                "unlike": far_fields(embedded.unlike),
                "unlike_sentence": far_fields(far),
                "overlay": str(target),
            }
        )
        return
    say_unlike(str(image), embedded.unlike, UNLIKE_IMAGE)
    say_unlike("the sentence", far, UNLIKE_SENTENCE)
    if found.stands_out is False:
        typer.echo(
            "nothing stands out: its best region fits no better than that of most reference images"
        )
    x, y = found.peak
    typer.echo(f"score {found.score:.4f}, peak at x {x:.0f}, y {y:.0f} of the original")
    if moved is not None:
        how = f"stored {moved.movement} and shown upright" if moved.movement else "made square"
        x, y = moved.points_to_stored(found.peak).tolist()
        typer.echo(
            f"its pixels are {how}, as its header says: coordinates are of the picture shown; in "
            f"the file's own pixels the peak is at x {x:.0f}, y {y:.0f}"
        )
    for box in found.boxes:
        left, top, width, height = box.bbox
        typer.echo(
            f"box x {left:.0f}, y {top:.0f}, w {width:.0f}, h {height:.0f}: score {box.score:.4f}"
        )
    typer.echo(f"overlay: {target}")
