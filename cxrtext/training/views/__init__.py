"""Training of an encoder on views of images: SimCLR with any objective that needs no text.

A batch of B images is seen in V = M + 1 views, M ``positives``; all views go through the encoder
together, and every view is scored against every other, γ² times the cosine.  Nothing scores
against itself.  Losses are those of :mod:`cxrtext.objectives`, averaged over anchors.

=================================== =============== ====================== =====================
objective                           anchors         candidates of each     positives of each
=================================== =============== ====================== =====================
info-nce, dcl-eta, dcl-eta-true,    all VB views    its M positives in     M: each in turn, the
hard-negative                                       turn, and all views of losses averaged
                                                    other images: N =      (``aggregate="loss"``)
                                                    V (B − 1)
dcl-eta, dcl-eta-true, M > 1,       as above        as above               each in turn; the
``aggregate="group"``                                                      estimate g holds the
                                                                           mean of all M
positive-debiased                   all VB views    N = V (B − 1), itself  M: POS eq. 16 ("loss")
                                                    with γ², its positives or all in P ("group")
supervised                          2B views        the other 2B − 1       views of its class
alignment-uniformity                2B views        views of its own turn  its fellow
weaksup-info-nce, weaksup-cclk,     B first views,  B views of the other   its fellow; the Gram
fair-info-nce, fair-cclk            then B second   turn                   matrix is of B images
hardneg-cclk                        as above        as above               its fellow; z is the
                                                                           anchors' embedding
y-aware,                            as above        as above: N = B, the   all, by the kernel;
conditional-alignment-uniformity                    diagonal included      its own included
=================================== =============== ====================== =====================

Where POS takes "all possible pairs" of the views of an image as anchor and positive, so do we.
At M = 1 and batch 128, N is 254 (METHOD section 7).  With ``without_same_class`` the negatives of
the anchor's class are no candidates.  ``conditional-alignment-uniformity`` adds its one uniformity
to the alignment of each anchor.
"""

from cxrtext.training.views.encoder import ViewEncoder, encode, load_encoder
from cxrtext.training.views.job import ViewJob, build_view_job
from cxrtext.training.views.run import train_views
from cxrtext.training.views.settings import ViewSet, ViewSettings

__all__ = [
    "ViewEncoder",
    "ViewJob",
    "ViewSet",
    "ViewSettings",
    "build_view_job",
    "encode",
    "load_encoder",
    "train_views",
]
