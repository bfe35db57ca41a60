"""Image–sentence similarity from region–sentence scores.

``regions`` is [B, N, D], unit vectors; ``texts`` is [S, D], unit vectors; ``lam`` is λ, the
sharpness of the soft maximum; ``query`` is the query map of the bags, whose None is q = r.  Scores
come as [S, B]: sentences in rows, images in columns, in [−1, 1] before γ².  They are computed in
float32 at least, also where half precision comes in or autocast is on: in bfloat16 many regions
tie for the critical one.  Of equal regions the first is critical.  Large matrices are computed in
tiles, with the same result.  A λ that is not above 0 is a ``ValueError``.

Source: Wang et al. 2023, LSE+NL; docs/decisions/05-similarity.md.
"""

from cxrtext.models.similarity.bags import Query, attention_entropy, non_local, non_local_bags
from cxrtext.models.similarity.query import QUERIES, LinearQuery, MlpQuery, build_query
from cxrtext.models.similarity.regions import lse, region_scores
from cxrtext.models.similarity.scores import SIMILARITIES, lse_nl, lse_nl_of_bags, similarity

__all__ = [
    "QUERIES",
    "SIMILARITIES",
    "LinearQuery",
    "MlpQuery",
    "Query",
    "attention_entropy",
    "build_query",
    "lse",
    "lse_nl",
    "lse_nl_of_bags",
    "non_local",
    "non_local_bags",
    "region_scores",
    "similarity",
]
