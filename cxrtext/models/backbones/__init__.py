"""Vision models of elsewhere as frozen backbones, from folders as transformers saves them.

``table``: the kinds.  ``processor``: a model's own preprocessing.  ``weights``: its tensors,
checked key by key.  ``backbone``: the network from squares to regions.  ``golden``: an image with
expected vectors.  ``find``: a checkpoint's backbone, known by its digest.
"""

from typing import TYPE_CHECKING

from cxrtext.surface import import_on_use

if TYPE_CHECKING:
    from cxrtext.models.backbones.backbone import Backbone, load_backbone
    from cxrtext.models.backbones.find import find_backbone
    from cxrtext.models.backbones.golden import check_golden, make_golden

__all__ = ["Backbone", "check_golden", "find_backbone", "load_backbone", "make_golden"]

import_on_use(__name__)
