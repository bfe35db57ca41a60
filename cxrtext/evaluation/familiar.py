"""What is familiar to a checkpoint that does not say so, from the data that it was trained on."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

from cxrtext.errors import CheckpointError, DataError, ImageError
from cxrtext.evaluation.data import manifest_of, sentences_beside
from cxrtext.images.cache import DecodedCache
from cxrtext.models import load_model
from cxrtext.models.familiar import FAMILIAR, Familiar, load_familiar, save_familiar
from cxrtext.models.reference import Split, choose_images, describe_data, looks_of
from cxrtext.models.regions import Square, read_squares
from cxrtext.records import ImageRecord, Rejects, read_manifest


def keep_familiar(
    checkpoint: Path,
    data: Path,
    *,
    allow_outside: bool = False,
    cache: DecodedCache | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Path, Familiar]:
    """Describe a checkpoint's training and validation data, and keep that with it.

    Training does so by itself, and what it noted stays as it is; this is for checkpoints made
    before it did.  ``data`` is to be the folder that the model was trained on: of another one
    nothing can be said about what the model knows.
    """
    model = load_model(checkpoint)
    known = None
    with suppress(CheckpointError):  # a damaged one is made anew
        known = load_familiar(checkpoint, model.fingerprint)
    if known is not None:
        return checkpoint / FAMILIAR, known
    preprocessing = model.spec.preprocessing
    manifest = manifest_of(data)
    records = read_manifest(manifest, allow_outside=allow_outside)
    chosen = {}
    for name in ("train", "val"):
        own = [record for record in records if record.split == name]
        chosen[name] = [own[place] for place in choose_images(own)]
    rejects, total, done = Rejects(), sum(map(len, chosen.values())), count(1)

    def squares(some: Sequence[ImageRecord]) -> Iterator[Square]:
        read = read_squares(preprocessing, [record.path for record in some], cache=cache)
        for record, image in zip(some, read, strict=True):
            if isinstance(image, ImageError):
                rejects.add(record.name, str(image))
            else:
                yield image.pixels
            if progress:
                progress(next(done), total)

    rows = {name: looks_of(squares(some), preprocessing) for name, some in chosen.items()}
    if not any(map(len, rows.values())):
        why = f": {rejects.rows[-1][1]}" if rejects.rows else "; name some in column 'split'"
        raise DataError(f"{manifest}: no image of split 'train' or 'val' can be read{why}")
    split_of = {record.study_id: record.split for record in records}
    said: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for one in sentences_beside(manifest) or ():
        if one.study_id in split_of:
            said[split_of[one.study_id]].append((one.study_id, one.sentence))
    train, validation = (Split(rows[name], said[name]) for name in ("train", "val"))
    familiar = describe_data(train, validation)
    return save_familiar(checkpoint, familiar, model.fingerprint), familiar
