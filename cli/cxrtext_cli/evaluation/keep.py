"""What an evaluation keeps with the checkpoint, and for other tools."""

from pathlib import Path
from typing import TYPE_CHECKING

from cxrtext_cli.options import pick_device, progress, say

if TYPE_CHECKING:
    from cxrtext.evaluation import Evaluation
    from cxrtext.images.cache import DecodedCache


def export_regions(path: Path, result: "Evaluation") -> Path:
    """Write the mean region of each image, in the space of the sentences."""
    from cxrtext.evaluation.probes.feature_probe import export_vectors
    from cxrtext.evaluation.probes.linear_probe import features_of

    assert result.details is not None  # noqa: S101 - of an evaluation that was just made
    cohort = result.details.cohort
    about = {"model": result.fingerprint}
    export_vectors(path, cohort.records, features_of(cohort).vectors, about)
    return path


def keep_calibration(
    checkpoint: Path, result: "Evaluation", cache: "DecodedCache | None"
) -> list[Path]:
    """Keep calibrated probabilities and verdicts, or one of them where the data lack the other."""
    from cxrtext.errors import DataError
    from cxrtext.evaluation.classification.calibration import save_calibration
    from cxrtext.evaluation.evaluate import calibration_of
    from cxrtext.evaluation.verdicts.keep import verdicts_of
    from cxrtext.evaluation.verdicts.kept import save_verdicts

    written, lacking = [], []
    try:
        kept, left_out = calibration_of(result)
        result.left_out.extend(left_out)
        written.append(save_calibration(checkpoint, kept))
    except DataError as error:
        lacking.append(error)
    try:
        with progress("embedding validation images", "images") as update:
            verdicts = verdicts_of(result, cache=cache, progress=update)
        written.append(save_verdicts(checkpoint, verdicts))
        say(f"{written[-1]}: {verdicts.summary()}")
    except DataError as error:
        lacking.append(error)
    if not written:
        raise lacking[0]
    result.left_out.extend(str(error) for error in lacking)
    return written


def keep_references(
    checkpoint: Path, data: Path, device: str, allow_outside: bool, cache: "DecodedCache | None"
) -> Path:
    """Keep validation images' embeddings, which reports are verified against."""
    from cxrtext.evaluation.cohort import keep_reference

    with progress("embedding reference images", "images") as update:
        path, images = keep_reference(
            checkpoint,
            data,
            device=pick_device(device),
            allow_outside=allow_outside,
            cache=cache,
            progress=update,
        )
    say(f"{path}: {images} validation images")
    return path


def keep_familiar(
    checkpoint: Path, data: Path, allow_outside: bool, cache: "DecodedCache | None"
) -> Path:
    """Keep what the training images and sentences are like."""
    from cxrtext.evaluation.familiar import keep_familiar

    with progress("describing images", "images") as update:
        path, found = keep_familiar(
            checkpoint, data, allow_outside=allow_outside, cache=cache, progress=update
        )
    for known, what in ((found.images, "images"), (found.words, "sentences")):
        if known is None:
            say(f"{path}: too few {what} to say which others are unlike them")
    return path
