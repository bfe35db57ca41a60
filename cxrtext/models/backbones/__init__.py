"""Vision models of elsewhere as frozen backbones, from folders as transformers saves them.

``table``: the kinds.  ``processor``: a model's own preprocessing.  ``weights``: its tensors,
checked key by key.  ``backbone``: the network from squares to regions, found by its digest.
``golden``: an image with expected vectors.
"""

from typing import TYPE_CHECKING

from cxrtext.surface import import_on_use

if TYPE_CHECKING:
    from cxrtext.models.backbones.backbone import Backbone, find_backbone, load_backbone
    from cxrtext.models.backbones.golden import check_golden, make_golden

__all__ = ["Backbone", "check_golden", "find_backbone", "load_backbone", "make_golden"]

import_on_use(__name__)
