"""Vision models of elsewhere as frozen backbones, from folders as transformers saves them."""

from typing import TYPE_CHECKING

from cxrtext.surface import import_on_use

if TYPE_CHECKING:
    from cxrtext.models.backbones.backbone import Backbone, find_backbone, load_backbone
    from cxrtext.models.backbones.golden import check_golden, make_golden

__all__ = ["Backbone", "check_golden", "find_backbone", "load_backbone", "make_golden"]

import_on_use(__name__)
