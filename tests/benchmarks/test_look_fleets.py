"""Looks of fleets: phases, what both methods share, and what is foretold."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from benchmarks.datasets import Mixture
from benchmarks.look_fleets import (
    Campaign,
    Seen,
    fit_once,
    fit_with_look,
    list_cases,
    summarise,
)

FLEET = Campaign(
    source=Mixture(n_dimensions=2, n_clusters=3),
    n_records=4000,
    n_noises=10,
    epsilon=Fraction(4),
    has_own=True,
)


def test_a_look_at_other_records_begins_with_the_whole_sketch_and_comes_nearer() -> None:
    phases = FLEET.load(1)
    assert [each.records.shape for each in phases.records] == [(4000, 2)] * 2
    first, last = (each.records for each in phases.records)
    assert not np.array_equal(first, last)
    once, looked = (method(FLEET, phases, 1) for method in (fit_once, fit_with_look))
    assert looked.first == once.ratio
    assert 1.0 <= looked.ratio < once.ratio < 1.1
    assert looked.pays


def test_a_look_at_the_same_records_has_a_part_of_epsilon() -> None:
    shared = replace(FLEET, has_own=False)
    phases = shared.load(1)
    assert len(phases.records) == 1
    sketched = shared.sketch(phases, shared.epsilon * Fraction(7, 10), 1)
    assert sketched.plan.release.epsilon == Fraction(28, 10)
    planned, _ = shared.look(phases, sketched, Fraction(12, 10), 1)
    assert planned.plan.release.epsilon + sketched.plan.release.epsilon == shared.epsilon


def test_devices_of_two_clusters_hold_the_same_records_in_another_order() -> None:
    differing = replace(FLEET, is_alike=False)
    alike, apart = (each.load(1).records[0].records for each in (FLEET, differing))
    assert sorted(map(tuple, alike)) == sorted(map(tuple, apart))


def test_worse_looks_that_were_promised_to_pay_are_counted() -> None:
    seen = [
        Seen(first=1.1, ratio=1.2, pays=False),
        Seen(first=1.1, ratio=1.4, pays=True),
        Seen(first=1.1, ratio=1.05, pays=True),
        Seen(first=1.1, ratio=1.1005, pays=True),
    ]
    figures = {name: value for name, value, *_ in summarise(seen)}
    assert figures["made_worse"] == 0.5
    assert figures["worse_unforetold"] == 0.25
    assert figures["share_above_1.3"] == 0.25


def test_cases_have_names_of_their_own() -> None:
    names = [case.name for case in list_cases()]
    assert len(set(names)) == len(names) == 7


@pytest.mark.parametrize("has_own", [False, True])
def test_a_secure_sum_has_a_record_a_device_and_two_draws(has_own: bool) -> None:
    cases = [case for case in list_cases() if case.name.startswith("secure sum")]
    assert len(cases) == 4
    own = [case for case in cases if case.name.endswith("own records")]
    assert len(own) == 2
    phases = (own if has_own else cases)[0].load(1)
    assert len(phases.records) == 1 + has_own
    assert len(phases.records[0].records) == 10_000
