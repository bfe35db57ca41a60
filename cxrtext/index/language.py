"""What the sentences of an archive look like: the directions they span, and landmarks among them.

LSE+NL is no dot product, but as a function of the sentence it is smooth: an image's scores at a few
dozen landmark sentences say nearly what its score at any other sentence of the language is.  With
P [n] the scores of an image at the landmarks A [n, D] and w(t) = (K(A, A) + ε I)⁻¹ K(A, t), the
weights of kernel ridge regression, ``s(x, t) ≈ ⟨P(x), w(t)⟩``: that is a dot product of one short
vector an image, which FAISS can search.  It names candidates; what they score is computed exactly.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from cxrtext.index.sketch import sentence_basis

LANDMARKS = 64
MOST_SENTENCES = 20_000
ROUNDS = 10

BANDWIDTH = 0.3
RIDGE = 1e-2


@dataclass(frozen=True)
class Language:
    """What an index derives its sketches and profiles by.

    Args:
        basis: [D, m], orthonormal directions that the sentences span.
        landmarks: [n, D], unit vectors among the sentences.
    """

    basis: Tensor
    landmarks: Tensor

    @classmethod
    def of_sentences(cls, sentences: Tensor) -> "Language":
        """The language of sentences [S, D], unit vectors, S at least 1."""
        step = -(-len(sentences) // MOST_SENTENCES)
        some = sentences[::step].float()
        return cls(sentence_basis(some), choose_landmarks(some))

    @classmethod
    def of_meta(cls, meta: Mapping[str, str]) -> "Language":
        """The language that a catalogue notes."""
        D = int(meta["dimension"])
        return cls(
            _decoded(meta["basis"]).view(D, -1), _decoded(meta["landmark_vectors"]).view(-1, D)
        )

    def as_meta(self) -> dict[str, str]:
        """As a catalogue notes it."""
        return {
            "sketch": str(self.basis.shape[1]),
            "basis": _encoded(self.basis),
            "landmarks": str(len(self.landmarks)),
            "landmark_vectors": _encoded(self.landmarks),
        }

    def weights(self, texts: Tensor) -> Tensor:
        """Weights [S, n] of the landmarks' scores that give those of sentences [S, D]."""
        return (_kernel(texts.cpu(), self.landmarks) @ self._inverse).float()

    def novelty(self, texts: Tensor) -> Tensor:
        """How little the landmarks say of sentences [S, D]: 0 for one of them, 1 for nothing.

        The variance of the Gaussian process whose mean the weights give.
        """
        near = _kernel(texts.cpu(), self.landmarks)
        return (1 - ((near @ self._inverse) * near).sum(dim=-1)).float()

    @cached_property
    def _inverse(self) -> Tensor:
        n = len(self.landmarks)
        ridge = RIDGE * torch.eye(n, dtype=torch.float64)
        inverse: Tensor = torch.linalg.inv(_kernel(self.landmarks, self.landmarks) + ridge)
        return inverse


def choose_landmarks(sentences: Tensor, most: int = LANDMARKS) -> Tensor:
    """Centres of a spherical k-means over sentences [S, D], at most ``most``; unit vectors.

    The first centre is the first sentence, each further one the sentence least like those before
    it, so that the result is determined by the sentences.
    """
    chosen = [0]
    nearest = sentences @ sentences[0]
    while len(chosen) < most and float(nearest.min()) < 1 - 1e-5:
        chosen.append(int(nearest.argmin()))
        nearest = torch.maximum(nearest, sentences @ sentences[chosen[-1]])
    centres = sentences[chosen]
    for _ in range(ROUNDS):
        owner = (sentences @ centres.T).argmax(dim=1)
        sums = torch.zeros_like(centres).index_add_(0, owner, sentences)
        some = torch.bincount(owner, minlength=len(centres))[:, None] > 0
        centres = torch.where(some, F.normalize(sums, dim=-1), centres)
    return centres


def _kernel(first: Tensor, second: Tensor) -> Tensor:
    """Gaussian kernel [A, B] of unit vectors, in float64."""
    cosine = first.double() @ second.double().T
    kernel: Tensor = ((cosine - 1) / BANDWIDTH**2).exp()
    return kernel


def _encoded(values: Tensor) -> str:
    return base64.b64encode(values.float().contiguous().numpy().astype("<f4").tobytes()).decode()


def _decoded(text: str) -> Tensor:
    return torch.from_numpy(np.frombuffer(base64.b64decode(text), dtype="<f4").copy())
