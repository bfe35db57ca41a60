"""Models from elsewhere, loaded from the folders of their authors' libraries.

``network``: a network of transformers with checked configuration and tensors.  ``processor``: its
preprocessing of images.  ``backbone``: a frozen vision model.  ``layouts``: the possible folders of
a finished pair of towers.  ``pair``: such a pair as a model.  ``text``: text encoders.
"""

from typing import TYPE_CHECKING

from cxrtext.surface import import_on_use

if TYPE_CHECKING:
    from cxrtext.models.foreign.backbone import (
        Backbone,
        BackboneEncoder,
        find_backbone,
        load_backbone,
    )
    from cxrtext.models.foreign.golden import check_golden, make_golden
    from cxrtext.models.foreign.pair import load_pair, save_pair
    from cxrtext.models.foreign.text import PretrainedText, load_text_encoder

__all__ = [
    "Backbone",
    "BackboneEncoder",
    "PretrainedText",
    "check_golden",
    "find_backbone",
    "load_backbone",
    "load_pair",
    "load_text_encoder",
    "make_golden",
    "save_pair",
]

import_on_use(__name__)
