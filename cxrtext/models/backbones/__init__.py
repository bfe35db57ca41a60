"""Vision models of elsewhere as frozen backbones, from folders as transformers saves them.

``table``: the kinds.  ``processor``: a model's own preprocessing.  ``weights``: its tensors,
checked key by key.  ``backbone``: the network from squares to regions.
"""

from typing import TYPE_CHECKING

from cxrtext.surface import import_on_use

if TYPE_CHECKING:
    from cxrtext.models.backbones.backbone import Backbone, load_backbone

__all__ = ["Backbone", "load_backbone"]

import_on_use(__name__)
