"""What can be asked of a loaded model and index."""

from cxrtext.service.grounding import GroundedBox, Grounding
from cxrtext.service.service import (
    EmbeddedImage,
    FindingScore,
    Service,
    load_service,
)

__all__ = [
    "EmbeddedImage",
    "FindingScore",
    "GroundedBox",
    "Grounding",
    "Service",
    "load_service",
]
