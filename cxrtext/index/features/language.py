"""What the sentences of an archive look like: directions they span, inducing points among them.

LSE+NL is not a dot product, but it is smooth as a function of the sentence: an image's scores at a
few dozen inducing sentences nearly determine its score at any other sentence of the language.  With
P [n] the scores of an image at the inducing points A [n, D] and w(t) = (K(A, A) + ε I)⁻¹ K(A, t),
the weights of kernel ridge regression, ``s(x, t) ≈ ⟨P(x), w(t)⟩``.  This is a dot product with one
short vector per image, which FAISS can search.  It gives candidates; their scores are computed
exactly.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.index.features.bounds import sentence_basis

if TYPE_CHECKING:
    from cxrtext.models import ImageTextModel

STUDIES = 60  # phantom studies whose reports stand in for an archive without reports

INDUCING_POINTS = 64
MAX_SENTENCES = 20_000
ROUNDS = 10

BANDWIDTH = 0.3
RIDGE = 1e-2


@dataclass(frozen=True)
class Language:
    """What an index derives its sketches and profiles from."""

    basis: Tensor  # [D, m], orthonormal directions that the sentences span
    inducing: Tensor  # [n, D], unit vectors among the sentences

    @classmethod
    def of_sentences(cls, sentences: Tensor) -> "Language":
        """The language of S ≥ 1 sentences, unit vectors [S, D]."""
        step = -(-len(sentences) // MAX_SENTENCES)
        some = sentences[::step].float()
        return cls(sentence_basis(some), choose_inducing_points(some))

    @classmethod
    def of_meta(cls, meta: Mapping[str, str]) -> "Language":
        D = int(meta["dimension"])
        basis, inducing = decoded(meta["basis"]), decoded(meta["landmark_vectors"])
        return cls(torch.from_numpy(basis).view(D, -1), torch.from_numpy(inducing).view(-1, D))

    def as_meta(self) -> dict[str, str]:
        return {
            "sketch": str(self.basis.shape[1]),
            "basis": encoded(self.basis.float().numpy()),
            "landmarks": str(len(self.inducing)),
            "landmark_vectors": encoded(self.inducing.float().numpy()),
        }

    def weights(self, texts: Tensor) -> Tensor:
        """Weights [S, n] that turn scores at the inducing points into those of sentences [S, D]."""
        return (_kernel(texts.cpu(), self.inducing) @ self._inverse).float()

    @cached_property
    def _inverse(self) -> Tensor:
        ridge = RIDGE * torch.eye(len(self.inducing), dtype=torch.float64)
        inverse: Tensor = torch.linalg.inv(_kernel(self.inducing, self.inducing) + ridge)
        return inverse


def language_for(model: "ImageTextModel", sentences: Tensor, phrases: list[str]) -> Language:
    """The language of S ≥ 0 sentences [S, D] and of prompts; typical ones are added to a few."""
    if len(sentences) < INDUCING_POINTS:
        phrases = [*phrases, *typical_sentences()]
    return Language.of_sentences(torch.cat([sentences, model.embed_sentences(phrases).cpu()]))


def choose_inducing_points(sentences: Tensor) -> Tensor:
    """Centers of a spherical k-means over sentences [S, D], at most ``INDUCING_POINTS``.

    The first center is the first sentence, each next one the sentence least similar to those before
    it, so that the sentences alone determine the result.
    """
    chosen = [0]
    nearest = sentences @ sentences[0]
    while len(chosen) < INDUCING_POINTS and float(nearest.min()) < 1 - 1e-5:
        chosen.append(int(nearest.argmin()))
        nearest = torch.maximum(nearest, sentences @ sentences[chosen[-1]])
    centers = sentences[chosen]
    for _ in range(ROUNDS):
        owner = (sentences @ centers.T).argmax(dim=1)
        sums = torch.zeros_like(centers).index_add_(0, owner, sentences)
        some = torch.bincount(owner, minlength=len(centers))[:, None] > 0
        centers = torch.where(some, F.normalize(sums, dim=-1), centers)
    return centers


def _kernel(first: Tensor, second: Tensor) -> Tensor:
    """Gaussian kernel [A, B] of unit vectors, in float64."""
    cosine = first.double() @ second.double().T
    kernel: Tensor = ((cosine - 1) / BANDWIDTH**2).exp()
    return kernel


def encoded(values: NDArray[np.float32]) -> str:
    return base64.b64encode(values.astype("<f4").tobytes()).decode()


def decoded(text: str) -> NDArray[np.float32]:
    """The numbers of :func:`encoded`, in one dimension."""
    return np.frombuffer(base64.b64decode(text), dtype="<f4").copy()


@cache
def typical_sentences() -> tuple[str, ...]:
    """A few hundred distinct sentences from the phantom data set's reports."""
    from cxrtext.phantom.studies import draw_studies
    from cxrtext.text.sentences import split_sentences

    reports = [study.report for study in draw_studies(STUDIES, seed=0)]
    parts = (said.text for report in reports for said in (*report.findings, *report.impression))
    return tuple(dict.fromkeys(sentence for part in parts for sentence in split_sentences(part)))
