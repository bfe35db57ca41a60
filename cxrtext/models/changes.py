"""What has become of a finding between two films: a head on the regions of each, trained on pairs.

Regions r of a film and the vector v of a finding, both of the locked model, are mapped and scored
by the model's own similarity; the difference of two films' scores goes through an ordered logit::

    f_n = normalize( B gelu(A r_n) ),  t = normalize( W v ),  s = γ² · similarity(f, t)
    d = s(present) − s(prior),  P(worse) = σ(d − θ),  P(improved) = σ(−d − θ),  θ ≥ 0

What is left is unchanged, also where the finding is on neither film.  Films that are exchanged
exchange improved and worse.

Sources: Bannur et al. 2023 (BioViL-T), for reading prior and present together, of which this has
less (docs/reference/training.md); McCullagh 1980, for the ordered logit.
"""

import math
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cxrtext.errors import CheckpointError
from cxrtext.models.image_text import ImageTextModel
from cxrtext.models.similarity import build_query, similarity
from cxrtext.models.weight_files import check_finite, load_bound, misfit, save_sealed

FILE = "changes.safetensors"
"""In a checkpoint's folder."""
FORMAT, VERSION = "cxrtext changes", 1
AGAIN = "make it again with 'cxrtext learn-changes PROJECT'"
WIDTH = 64  # of the hidden layer of the map of regions
_DROPPED = 0.3  # of the hidden layer, in training
_FIRST_GAMMA_SQ, _FIRST_CUT = 14.0, 1.5


class ChangeHead(nn.Module):
    """Scores regions of one film for findings, to be compared with those of another film."""

    def __init__(self, aggregator: str, lam: float, dimension: int) -> None:
        super().__init__()
        self.aggregator, self.lam = aggregator, lam
        self.first = nn.Linear(dimension, WIDTH)
        self.second = nn.Linear(WIDTH, dimension)
        self.finding = nn.Linear(dimension, dimension, bias=False)
        nn.init.eye_(self.finding.weight)
        self.query = build_query("linear", dimension)
        self.log_gamma_sq = nn.Parameter(torch.tensor(math.log(_FIRST_GAMMA_SQ)))
        self.cut = nn.Parameter(torch.tensor(_FIRST_CUT))

    def scores(self, regions: Tensor, vectors: Tensor) -> Tensor:
        """Scores [F, B] of regions [B, N, D] for findings with vectors [F, D], unit vectors all."""
        hidden = F.gelu(self.first(regions * math.sqrt(regions.shape[-1])))
        mapped = F.normalize(self.second(F.dropout(hidden, _DROPPED, self.training)), dim=-1)
        texts = F.normalize(self.finding(vectors), dim=-1)
        found = similarity(self.aggregator, mapped, texts, self.lam, self.query)
        return self.log_gamma_sq.exp() * found

    def probabilities(self, difference: Tensor) -> Tensor:
        """P(improved), P(unchanged) and P(worse) [3, …] of differences d of any shape."""
        cut = self.cut.abs()
        improved, worse = torch.sigmoid(-difference - cut), torch.sigmoid(difference - cut)
        return torch.stack([improved, (1 - improved - worse).clamp_min(0.0), worse])


def finding_vectors(prompts: Tensor) -> Tensor:
    """What findings are asked by, [F, D], of prompts [F, 2, D], positive first."""
    return F.normalize(prompts[:, 0] - prompts[:, 1], dim=-1)


def head_for(model: ImageTextModel) -> ChangeHead:
    """A new head for a model's regions."""
    return ChangeHead(model.spec.aggregator, model.spec.lam, model.spec.dimension)


def save_changes(folder: Path, head: ChangeHead, model: ImageTextModel) -> Path:
    """Put a head into the checkpoint of its model."""
    notes = {"format": FORMAT, "version": VERSION, "fingerprint": model.fingerprint}
    save_sealed(folder / FILE, head.state_dict(), notes)
    return folder / FILE


def changes_beside(model: ImageTextModel) -> ChangeHead | None:
    """The head that a model's checkpoint keeps; None where it keeps none (CheckpointError)."""
    if model.folder is None:
        return None
    path = model.folder / FILE
    kept = load_bound(path, (FORMAT, VERSION), "the changes", model.fingerprint, AGAIN)
    if kept is None:
        return None
    head = head_for(model)
    if wrong := misfit(kept[1], head.state_dict()):
        raise CheckpointError(f"{path}: does not fit the model ({wrong}); {AGAIN}")
    check_finite(path, kept[1])
    head.load_state_dict(kept[1])
    return head.eval().to(model.device)
