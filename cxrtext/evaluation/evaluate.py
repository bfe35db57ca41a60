"""``cxrtext evaluate``: what a checkpoint is worth on a data folder."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from cxrtext.evaluation.classification.prompts import Prompts
from cxrtext.evaluation.measure import measure
from cxrtext.evaluation.predict import predict
from cxrtext.evaluation.result import Evaluation
from cxrtext.evaluation.settings import Settings
from cxrtext.images.cache import DecodedCache
from cxrtext.models.features.folder import FeatureFolder
from cxrtext.records import Rejects


def evaluate(
    checkpoint: Path,
    data: Path,
    *,
    split: str = "test",
    prompts: Mapping[str, Prompts] | None = None,
    device: str = "cpu",
    allow_outside: bool = False,
    cache: DecodedCache | None = None,
    features: FeatureFolder | None = None,
    rejects: Rejects | None = None,
    progress: Callable[[int, int], None] | None = None,
    settings: Settings | None = None,
    labels: Path | None = None,
) -> Evaluation:
    """Measure a checkpoint: zero-shot classification, grounding and retrieval.

    What needs a file that ``data`` lacks is left out, and said.  ``prompts`` are by finding, the
    checkpoint's own by default; ``features`` of the model's backbone stand in place of images
    (``cxrtext encode``); ``rejects`` takes images that cannot be read; ``progress`` is called with
    (done, total) images; ``labels`` stand in place of the data's.
    """
    predictions, details = predict(
        checkpoint,
        data,
        split=split,
        prompts=prompts,
        settings=settings or Settings(),
        device=device,
        allow_outside=allow_outside,
        cache=cache,
        features=features,
        rejects=rejects,
        progress=progress,
        labels=labels,
    )
    return replace(measure(predictions), details=details)
