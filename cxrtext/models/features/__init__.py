"""Precomputed region features of a backbone: how they are reduced, and their folder."""

from typing import TYPE_CHECKING

from cxrtext.surface import import_on_use

if TYPE_CHECKING:
    from cxrtext.models.features.feature_map import FeatureMap, fit_feature_map
    from cxrtext.models.features.folder import FeatureFolder, open_features

__all__ = ["FeatureFolder", "FeatureMap", "fit_feature_map", "open_features"]

import_on_use(__name__)
