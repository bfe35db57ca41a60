"""Ask questions of a loaded model and index."""

from typing import TYPE_CHECKING

from cxrtext.surface import import_on_use

if TYPE_CHECKING:
    from cxrtext.index import Column
    from cxrtext.service.answers import EmbeddedImage, FindingScore, GroundedBox, Grounding
    from cxrtext.service.service import Service, load_service, successor

__all__ = [
    "Column",
    "EmbeddedImage",
    "FindingScore",
    "GroundedBox",
    "Grounding",
    "Service",
    "load_service",
    "successor",
]

import_on_use(__name__)
