"""What reports say has become of findings, and the head that learns it from pairs of films."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from cxrtext.models import ImageTextModel
from cxrtext.models.changes import ChangeHead, head_for
from cxrtext.text.comparing import comparison
from cxrtext.text.labelling import sentence_labels

KINDS = ("improved", "unchanged", "worse")
KIND: Mapping[str, str] = {
    **{"improved": "improved", "unchanged": "unchanged", "worse": "worse"},
    **{"resolved": "improved", "new": "worse"},
}
"""What a change that sentences say is among :data:`KINDS`."""
STEPS, BATCH, RATE, DECAY = 200, 64, 2e-3, 0.1


def said_changes(sentences: Iterable[str]) -> dict[str, str]:
    """What the sentences of a report say has become of findings, by :data:`KINDS`.

    A finding of which they say two things is left out, and one that is neither there nor resolved.
    """
    said: dict[str, set[str]] = {}
    for sentence in sentences:
        if change := comparison(sentence):
            for finding, label in sentence_labels(sentence).items():
                if label.value or change == "resolved":
                    said.setdefault(finding, set()).add(KIND[change])
    return {finding: kinds.pop() for finding, kinds in said.items() if len(kinds) == 1}


@dataclass(frozen=True, slots=True)
class ChangesSaid:
    """What reports say of n findings of pairs: two films, a finding, and a place in KINDS; [n]."""

    prior: NDArray[np.int64]
    present: NDArray[np.int64]
    finding: NDArray[np.int64]
    kind: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.kind)


def fit_changes(
    model: ImageTextModel,
    said: ChangesSaid,
    regions: Callable[[NDArray[np.int64]], Tensor],
    vectors: Tensor,
    *,
    seed: int = 0,
    steps: int = STEPS,
) -> ChangeHead:
    """Train a head on what reports say of pairs, each pair in both orders.

    Args:
        model: Whose regions they are; it stays as it is.
        said: Its films are places that ``regions`` gives as [b, N, D], findings rows of vectors.
        vectors: [F, D], of :func:`~cxrtext.models.changes.finding_vectors`.
    """
    with torch.random.fork_rng(devices=[]):  # the head's weights and what is dropped
        torch.manual_seed(seed)
        head = head_for(model).train()
        draws = np.random.default_rng(seed)
        optimizer = torch.optim.AdamW(head.parameters(), lr=RATE, weight_decay=DECAY)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=steps)
        for _ in range(steps):
            rows = draws.choice(len(said), min(BATCH, len(said)), replace=False)
            finding, each = torch.from_numpy(said.finding[rows]), torch.arange(len(rows))
            now, then = (
                head.scores(regions(films[rows]), vectors)[finding, each]
                for films in (said.present, said.prior)
            )
            held = head.probabilities(torch.cat([now - then, then - now]))
            kind = torch.from_numpy(said.kind[rows])
            true = torch.cat([kind, len(KINDS) - 1 - kind])  # films exchanged: the other way round
            loss = F.nll_loss(held.clamp_min(1e-6).log().T, true)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return head.eval()
