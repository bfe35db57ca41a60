"""Scores of the views of images against each other: who is whose, and nothing against itself.

Source: Chen et al. 2020 (SimCLR), eq. 1.
"""

import torch
from torch import Tensor


def score_views(embedded: Tensor, gamma_sq: Tensor) -> Tensor:
    """Scores of all views against all, −inf of each against itself.

    Unit vectors [V, B, D] -> float32 [VB, VB]; the rows of a view follow each other.
    """
    flat = embedded.flatten(0, 1)
    scores = gamma_sq * (flat @ flat.T)
    return scores.masked_fill(_itself(len(flat), flat.device), -torch.inf)


def _itself(count: int, device: torch.device) -> Tensor:
    return torch.eye(count, dtype=torch.bool, device=device)


def view_accuracy(scores: Tensor, views: int) -> Tensor:
    """Share of views whose best candidate is another view of their image."""
    images = len(scores) // views
    best = scores.detach().argmax(dim=1) % images
    own = torch.arange(len(scores), device=scores.device) % images
    return (best == own).float().mean()


def positives_of_views(count: int, views: int, device: torch.device) -> Tensor:
    """[VB, V − 1], the columns of each view's fellows."""
    turns = torch.arange(1, views, device=device) * (count // views)
    return (torch.arange(count, device=device)[:, None] + turns) % count
