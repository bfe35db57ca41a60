import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cxrtext.objectives import kmeans
from cxrtext.objectives.clustering import _fill_empty


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_clusters_far_apart_are_found() -> None:
    truth = torch.arange(4).repeat_interleave(25)
    noise = torch.randn(100, 2, generator=seeded())
    z = 100 * torch.stack([truth, truth**2], dim=1) + noise
    found = kmeans(z, 4, seeded(1))
    assert found.labels.dtype == torch.long
    same = found.labels[:, None] == found.labels
    assert torch.equal(same, truth[:, None] == truth)
    for label in range(4):
        torch.testing.assert_close(found.centers[label], z[found.labels == label].mean(dim=0))


def test_a_vector_of_ages() -> None:
    found = kmeans(torch.tensor([1.0, 2.0, 50.0, 51.0, 90.0]), 3, seeded())
    assert found.centers.flatten().sort().values.tolist() == [1.5, 50.5, 90.0]
    assert found.labels.shape == (5,)


def test_as_many_clusters_as_rows() -> None:
    found = kmeans(torch.arange(6.0), 6, seeded())
    assert sorted(found.labels.tolist()) == list(range(6))


def test_fewer_distinct_rows_than_clusters() -> None:
    z = torch.tensor([1.0, 1.0, 1.0, 5.0, 5.0])
    found = kmeans(z, 4, seeded())
    assert len(set(found.labels.tolist())) == 2
    assert torch.equal(found.labels[:, None] == found.labels, z[:, None] == z)
    assert kmeans(torch.ones(3), 2, seeded()).labels.unique().numel() == 1


@given(seed=st.integers(0, 10_000), rows=st.integers(1, 40), clusters=st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_lloyd_ends_with_every_row_at_its_nearest_centre(
    seed: int, rows: int, clusters: int
) -> None:
    clusters = min(clusters, rows)
    z = torch.randn(rows, 2, generator=seeded(seed), dtype=torch.float64)
    labels, centers = kmeans(z, clusters, seeded(seed))
    assert labels.unique().numel() == clusters
    distances = torch.cdist(z, centers)
    own = distances.gather(1, labels[:, None]).squeeze(1)
    assert (own <= distances.amin(dim=1) + 1e-9).all()


def test_an_empty_cluster_takes_the_farthest_row_that_is_not_alone() -> None:
    distances = torch.tensor([9.0, 1.0, 3.0, 2.0])
    labels = torch.tensor([0, 1, 1, 1])
    # row 0 is alone in its cluster; rows 2 and 3 are the farthest of the others
    assert _fill_empty(distances, labels, 4).tolist() == [0, 1, 2, 3]
    assert _fill_empty(torch.zeros(4), labels, 4).tolist() == labels.tolist()


def test_the_same_generator_gives_the_same_clusters() -> None:
    z = torch.randn(50, 3, generator=seeded())
    assert torch.equal(kmeans(z, 5, seeded(2)).labels, kmeans(z, 5, seeded(2)).labels)


@pytest.mark.parametrize(
    ("z", "clusters", "says"),
    [
        (torch.zeros(3), 4, "clusters"),
        (torch.zeros(3), 0, "clusters"),
        (torch.zeros(3, 2, 2), 1, "z must be"),
        (torch.tensor([1.0, math.nan]), 1, "missing"),
    ],
)
def test_wrong_arguments_of_kmeans(z: torch.Tensor, clusters: int, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        kmeans(z, clusters, seeded())
