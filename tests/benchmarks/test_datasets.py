from pathlib import Path

import numpy as np
import pytest

from benchmarks.datasets import RealData, draw_mixture
from benchmarks.packages import PackageUnavailableError


def test_a_mixture_has_unit_clusters_around_its_means() -> None:
    means, records = draw_mixture(4, 3, 30_000, 1)
    distances = ((records[:, None, :] - means) ** 2).sum(axis=2)
    own = distances.argmin(axis=1)
    # Well apart at this seed, so the nearest mean is the record's own: a chi-square over d = 4,
    # whose average over 30,000 records has standard error 0.004.
    assert np.mean(distances.min(axis=1)) / 4 == pytest.approx(1.0, abs=0.03)
    assert np.bincount(own, minlength=3) / 30_000 == pytest.approx(1 / 3, abs=0.02)


@pytest.mark.parametrize(
    ("name", "shape", "box", "k"),
    [("weather", (26_110, 4), (-4.0, 4.0), 5), ("digits", (1_797, 64), (0.0, 16.0), 10)],
)
def test_real_data_lie_in_their_public_box(
    name: str, shape: tuple[int, int], box: tuple[float, float], k: int
) -> None:
    dataset = RealData(name=name).load(0)
    assert dataset.records.shape == shape
    assert (dataset.lower, dataset.upper, dataset.n_clusters) == (*box, k)
    assert dataset.records.min() >= box[0]
    assert dataset.records.max() <= box[1]
    assert dataset.true_means is None


def test_shuttle_without_a_network_is_an_error_that_says_so(cache: Path) -> None:
    from benchmarks import datasets

    with pytest.raises(PackageUnavailableError, match="could not be fetched"):
        datasets._load_shuttle()
