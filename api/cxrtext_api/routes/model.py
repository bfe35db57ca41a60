"""The loaded model, and what the caller may do."""

from collections.abc import Mapping
from contextlib import suppress
from math import isfinite
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from pydantic import ValidationError

import cxrtext
from cxrtext.client import models
from cxrtext.client.answers import measured_of
from cxrtext.index.features.candidates import is_large
from cxrtext.index.store.catalogue import cells_of
from cxrtext.models.folders import read_training
from cxrtext.service import limits
from cxrtext_api.gate.access import CallerDep, Guarded
from cxrtext_api.gate.keys import ANYONE, Caller
from cxrtext_api.routes.dependencies import GUARDED, SessionDep
from cxrtext_api.settings import Settings

if TYPE_CHECKING:
    from cxrtext.service import Service

_OF_MODEL = (
    *("image_encoder", "text_encoder_layers", "similarity", "dimension", "gamma_sq"),
    *("resize", "crop"),
)

router = APIRouter(route_class=Guarded, prefix="/v1", tags=["model"], dependencies=GUARDED)


@router.get("/model", summary="What is loaded", operation_id="get_model")
async def get_model(session: SessionDep, caller: CallerDep) -> models.ModelInfo:
    """The model, what it was trained on, the index, the limits, and what the caller may do."""
    await session.see_index()
    return await session.read(_model_info, session.service, session.settings, caller)


def _model_info(service: "Service", settings: Settings, caller: Caller) -> models.ModelInfo:
    key_id = None if caller.key_id == ANYONE.key_id else caller.key_id
    about = service.describe()
    folder = service.model.folder
    noted = {} if folder is None else read_training(folder)
    return models.ModelInfo(
        version=cxrtext.__version__,
        model=about["fingerprint"],
        prompts={
            name: models.Prompts(positive=list(prompts.positive), negative=list(prompts.negative))
            for name, prompts in service.prompts.items()
        },
        calibrated=service.calibration is not None,
        knows_images=service.familiar.images is not None,
        knows_sentences=service.familiar.words is not None,
        says_where=service.model.has_regions,
        has_index=service.has_index,
        takes_images=service.has_index and settings.uploads is not None and not settings.read_only,
        has_held=settings.inbox is not None,
        columns=len(cells_of(service.archive.catalogue.columns())) if service.has_index else 0,
        exact=_is_exact(service),
        images=about["images"],
        sentences=about["sentences"],
        access=models.Access(key_id=key_id, scopes=sorted(caller.scopes)),
        trained=_trained(noted),
        measured=_measured(noted),
        evaluated=_evaluated(service),
        how_good=models.HowGood.model_validate(service.how_good),
        limits=models.LimitInfo(
            max_body_bytes=settings.max_body_bytes,
            max_results=limits.MAX_RESULTS,
            max_prompts=limits.MAX_PROMPTS,
            max_sentence_characters=limits.MAX_QUERY_CHARACTERS,
            max_report_characters=limits.MAX_REPORT_CHARACTERS,
        ),
        **{name: about[name] for name in _OF_MODEL},
    )


def _is_exact(service: "Service") -> bool:
    if not service.has_index:
        return True
    snapshot = service.archive.snapshot
    sketches = snapshot.arrays["sketch"]
    return snapshot.structure is None or not is_large(len(sketches), sketches[:1].nbytes)


def _trained(noted: Mapping[str, Any]) -> models.TrainingInfo | None:
    if not noted:
        return None
    objective = None
    with suppress(KeyError, TypeError):
        objective = noted["configuration"]["objective"]["name"]
    read = {"data": "data_fingerprint", "studies": "studies", "steps": "step", "date": "date"}
    values = {name: noted.get(key) for name, key in read.items()}
    try:
        return models.TrainingInfo(objective=objective, **values)
    except ValidationError:  # notes of somebody else's
        return None


def _evaluated(service: "Service") -> models.EvaluationInfo | None:
    kept = service.calibration
    if kept is None:
        return None
    split, images = kept.measured
    found = {name: measured_of(one) for name, one in kept.findings.items()}
    measured = {name: one for name, one in found.items() if one is not None}
    return (
        models.EvaluationInfo(split=split, images=images, findings=measured) if measured else None
    )


def _measured(noted: Mapping[str, Any]) -> dict[str, float] | None:
    values = noted.get("validation")
    if not isinstance(values, dict):
        return None
    figures = {
        str(name): round(float(value), 6)
        for name, value in values.items()
        if isinstance(value, int | float) and isfinite(value)
    }
    return figures or None
