from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from sfumato.learning.decoding.mixture.decoder import MixtureDecoder

from .conftest import MakeProblem


def count_threads() -> set[int]:
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def test_a_decode_uses_one_thread_and_leaves_the_setting_of_the_process_as_it_was(
    make_problem: MakeProblem,
) -> None:
    used: set[int] = set()

    def progress(share: float) -> None:
        if share > 0.0:
            used.update(count_threads())

    records = np.repeat([[0.0, 0.0], [6.0, 6.0]], 200, axis=0)
    problem = make_problem(records, n_clusters=2, n_frequencies=20, half_width=10.0)
    with threadpool_limits(limits=2, user_api="blas"):
        MixtureDecoder().solve(problem, rng=np.random.default_rng(0), progress=progress)
        assert count_threads() == {2}
    assert used == {1}
