"""Reports and batches of a helper."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.shared.errors import (
    BatchCommittedError,
    BatchDiffersError,
    BatchTooSmallError,
    MalformedMessageError,
    NotFoundError,
    PlanNotAcceptedError,
    SignatureError,
)
from sfumato.shared.sharing.batches import open_total
from sfumato.shared.wire.message import encode_header
from sfumato.shared.wire.sum_messages import ReportsRequest, SumAnswer
from tests.helper.conftest import HOUR, ORIGIN, Report, World
from tests.shared.sharing.samples import make_draft


def read(world: World, data: bytes) -> SumAnswer:
    return SumAnswer.decode(data, world.identity)


def open_sum(world: World, reports: list[Report], answer: SumAnswer) -> np.ndarray:
    """Add the leader's half, without a noise of the leader's."""
    plan = world.plan
    half = plan.ring.decode(answer.body, n_words=plan.n_coordinates)
    masked = plan.ring.add(*(each.words for each in reports))
    zeros = np.zeros(plan.n_coordinates, dtype=np.int64)
    return open_total(masked, half, zeros, ring=plan.ring)


def test_an_answer_opens_to_the_exact_sum_and_one_noise(world: World) -> None:
    """The noise is bounded with probability 1 - 2^-60; the sum without it is none of its words."""
    reports = world.reports(7)
    assert world.check(reports) == ["accepted"] * 7

    answer = read(world, world.commit(reports))

    noise = open_sum(world, reports, answer) - sum(each.sums for each in reports)
    assert np.abs(noise).max() <= world.plan.mechanism.noise_bound
    assert np.count_nonzero(noise) > noise.size / 2
    assert (answer.count, answer.n_records, answer.state) == (7, 14, "answered")


def test_the_same_commit_gets_the_same_bytes_and_no_second_noise(world: World) -> None:
    reports = world.reports(3)
    world.check(reports)
    first = world.commit(reports)

    world.restart()

    assert world.commit(reports) == first


def test_reports_may_be_sent_again_and_in_any_order_and_in_parts(world: World) -> None:
    reports = world.reports(6)
    assert world.check(reports[:4]) == ["accepted"] * 4
    assert world.check(reports[:1:-1]) == ["accepted"] * 4
    assert world.check([reports[0], reports[0]]) == ["accepted"] * 2

    assert read(world, world.commit(reports)).count == 6


def test_a_committed_batch_takes_no_more_reports(world: World) -> None:
    first, late = world.reports(3), world.reports(1, first=100)
    world.check(first)
    world.commit(first)

    assert world.check(late) == ["closed"]
    assert world.check(first) == ["accepted"] * 3
    with pytest.raises(BatchCommittedError, match="was answered for other members"):
        world.commit([*first, *late])


def test_a_report_joins_one_batch_for_ever(world: World) -> None:
    reports = world.reports(3)
    world.check(reports)
    following = world.key(number=1)
    assert world.check(reports, following) == ["used"] * 3

    world.commit(reports)

    assert world.check(reports, following) == ["used"] * 3


def test_a_second_header_of_the_same_sketch_is_refused(world: World) -> None:
    first = world.report(0)
    second = world.report(0, report_id=bytes(16))
    assert first.header.sketch_id == second.header.sketch_id

    assert world.check([first]) == ["accepted"]
    assert world.check([second]) == ["used"]
    assert world.check([world.report(1), world.report(1, report_id=bytes(16))]) == [
        "accepted",
        "used",
    ]


def test_reports_that_were_left_out_are_not_in_the_sum_nor_in_another(world: World) -> None:
    reports = world.reports(5)
    world.check(reports)

    answer = read(world, world.commit(reports[:4], without=reports[4:]))

    noise = open_sum(world, reports[:4], answer) - sum(each.sums for each in reports[:4])
    assert np.abs(noise).max() <= world.plan.mechanism.noise_bound
    assert world.check(reports[4:], world.key(number=1)) == ["used"]


def test_other_members_than_the_helpers_change_nothing(world: World) -> None:
    reports = world.reports(4)
    world.check(reports)

    with pytest.raises(BatchDiffersError, match="must be the 4 reports"):
        world.commit(reports[:3])
    with pytest.raises(BatchDiffersError):
        world.commit([*reports[:3], world.report(100)], without=reports[3:])

    assert read(world, world.commit(reports)).count == 4


def test_too_small_a_batch_is_not_answered(world: World) -> None:
    reports = world.reports(1)
    world.check(reports)

    with pytest.raises(BatchTooSmallError, match="has 1 reports and must have 2 to 1000"):
        world.commit(reports)
    with pytest.raises(NotFoundError, match="batch: does not exist"):
        world.commit(reports, world.key(slot=5))


def test_the_total_takes_the_place_of_the_answer(world: World) -> None:
    reports = world.reports(3)
    world.check(reports)
    answer = read(world, world.commit(reports))
    total = bytes(len(answer.body))

    world.batches.acknowledge(world.key().batch_id, total)
    world.batches.acknowledge(world.key().batch_id, total)

    again = read(world, world.commit(reports))
    assert (again.state, again.body) == ("acknowledged", total)
    with pytest.raises(BatchCommittedError, match="has another total"):
        world.batches.acknowledge(world.key().batch_id, b"\x01" * len(total))


def test_a_total_that_cannot_be_is_refused(world: World) -> None:
    reports = world.reports(3)
    world.check(reports)
    with pytest.raises(BatchCommittedError, match="has no answer yet"):
        world.batches.acknowledge(world.key().batch_id, b"\x00")
    world.commit(reports)
    with pytest.raises(MalformedMessageError, match=r"total: must have \d+ bytes and has 1"):
        world.batches.acknowledge(world.key().batch_id, b"\x00")


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"slots": (1, 1)}, "header"),
        ({"slots": (0, 1)}, "header"),
        ({"slots": None}, "header"),
        ({"n_records": 6}, "header"),
        ({"n_records": 0}, "header"),
        ({"n_records": None, "n_public": False}, "header"),
        ({"plan_digest": b"o" * 32}, "header"),
        ({"payload_length": 5}, "header"),
    ],
)
def test_a_header_that_is_not_of_the_batch_is_refused(
    sqlite_world: World, changes: dict[str, Any], verdict: str
) -> None:
    assert sqlite_world.check([sqlite_world.report(0, **changes)]) == [verdict]


def test_a_header_of_another_kind_and_bytes_that_are_none_are_refused(sqlite_world: World) -> None:
    report = sqlite_world.report(0)
    broken = [report.data[:-1], b"", b"\xa0", report.data + b"\x00"]

    made = [
        Report(header=report.header, data=data, words=report.words, sums=report.sums)
        for data in broken
    ]

    assert sqlite_world.check(made) == ["header"] * 4


def test_a_seal_that_was_moved_to_another_header_does_not_open(sqlite_world: World) -> None:
    first, second = sqlite_world.report(0), sqlite_world.report(1)
    moved = replace(second.header, sealed=first.header.sealed)
    forged = Report(header=moved, data=encode_header(moved), words=second.words, sums=second.sums)

    assert sqlite_world.check([forged]) == ["box"]
    assert sqlite_world.check([first, second]) == ["accepted", "accepted"]


def test_a_slot_has_begun_and_is_not_over_for_long(sqlite_world: World) -> None:
    world = sqlite_world
    release = world.plan.sum_release
    assert release is not None
    report = world.report(0)

    world.time = ORIGIN - 301
    assert world.check([report]) == ["early"]
    world.time = ORIGIN + HOUR + release.late_s + 1
    assert world.check([report]) == ["late"]
    world.time = ORIGIN - 299
    assert world.check([report]) == ["accepted"]


def test_rows_of_a_slot_go_when_its_reports_are_late(sqlite_world: World) -> None:
    world = sqlite_world
    release = world.plan.sum_release
    assert release is not None
    reports = world.reports(3)
    world.check(reports)
    assert world.batches.forget_late() == 0

    world.time = ORIGIN + HOUR + release.late_s + 301

    assert world.batches.forget_late() == 3
    assert world.check(reports) == ["late"] * 3


def test_forgotten_reports_stay_late_when_the_clock_goes_back(sqlite_world: World) -> None:
    """Else a clock that was ahead once would give the same reports a second noise."""
    world = sqlite_world
    release = world.plan.sum_release
    assert release is not None
    reports = world.reports(3)
    world.check(reports)
    world.commit(reports)
    today, ahead = world.time, ORIGIN + HOUR + release.late_s + 301

    world.time = ahead
    assert world.batches.forget_late() == 3
    world.time = today

    assert world.check(reports, world.key(number=1)) == ["late"] * 3
    following = world.report(10, slots=(1, 1))
    assert world.check([following], world.key(slot=1)) == ["accepted"]


def test_a_batch_that_is_not_the_one_of_its_address_is_refused(sqlite_world: World) -> None:
    world = sqlite_world
    request = ReportsRequest(batch=world.key(), headers=())
    for key in (world.key(slot=1), world.key(number=1)):
        with pytest.raises(MalformedMessageError, match="batch: must be the batch of its address"):
            world.batches.check(key.batch_id, request)
    for key in (world.key(part=1), world.key(labels={"ward": "north"})):
        with pytest.raises(MalformedMessageError, match="with a slot, labels and a part"):
            world.check([], key)


def test_a_plan_that_was_not_accepted_does_not_exist(sqlite_world: World) -> None:
    with pytest.raises(PlanNotAcceptedError, match="has not been accepted by this helper"):
        sqlite_world.check([], sqlite_world.key(plan_digest=b"o" * 32))


def test_a_retired_plan_takes_no_report_and_opens_no_batch(world: World) -> None:
    reports = world.reports(3)
    world.check(reports)

    assert world.batches.plans.retire(world.digest, now=world.time) == 3

    with pytest.raises(PlanNotAcceptedError, match="is retired"):
        world.check(reports)
    with pytest.raises(NotFoundError):
        world.commit(reports)
    assert not [each for each in world.keys.path.iterdir() if each.name != "identity.key"]


def test_a_plan_that_is_retired_while_its_reports_are_judged_leaves_no_seed_and_no_key(
    sqlite_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, reports = sqlite_world, sqlite_world.reports(3)
    judge = world.batches._judge

    def judge_and_retire(*about: Any) -> Any:
        judged = judge(*about)
        world.batches.plans.retire(world.digest, now=world.time)
        return judged

    monkeypatch.setattr(world.batches, "_judge", judge_and_retire)

    with pytest.raises(PlanNotAcceptedError, match="is retired"):
        world.check(reports[:1])

    with world.batches.database.connect() as connection:
        held = connection.exec_driver_sql("SELECT count(*) FROM reports WHERE seed IS NOT NULL")
        assert held.scalar_one() == 0
    world.batches.forget_late()
    assert world.batches._private == {}


def test_an_answer_that_somebody_else_signed_or_altered_is_refused(sqlite_world: World) -> None:
    world = sqlite_world
    reports = world.reports(3)
    world.check(reports)
    data = world.commit(reports)

    with pytest.raises(SignatureError, match="is not the helper's"):
        SumAnswer.decode(data, b"\x01" * 32)
    with pytest.raises(SignatureError, match="body: is not the helper's"):
        SumAnswer.decode(data[:-1] + bytes([data[-1] ^ 1]), world.identity)


def test_parts_divide_the_reports_of_a_slot(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    world = World(folder=folder, address=str(folder / "helper.db"), draft=make_draft(parts=2))
    reports = [world.report(i) for i in range(20)]

    first = world.check(reports, world.key(part=0))
    second = world.check(reports, world.key(part=1))

    assert set(first) == set(second) == {"accepted", "header"}
    assert all(a != b for a, b in zip(first, second, strict=True))
    world.close()


def test_seeds_are_in_no_file_after_the_answer(sqlite_world: World) -> None:
    world = sqlite_world
    reports = [world.report(i, seed=bytes([200 + i]) * 32) for i in range(5)]
    world.check(reports)

    def count_seeds() -> int:
        held = b"".join(path.read_bytes() for path in world.folder.glob("helper.db*"))
        return sum(bytes([200 + i]) * 32 in held for i in range(5))

    assert count_seeds() == 5
    world.commit(reports)
    assert count_seeds() == 0


def test_every_batch_has_a_noise_of_its_own_with_the_variance_of_the_mechanism(
    sqlite_world: World,
) -> None:
    """100 batches of 40 coordinates; the noise of a batch shares a radius, so that the mean square
    has a standard deviation of 1.53 sqrt(2 / 4000) = 3.4 %. False alarms beyond 5 sd: 6e-7. Two
    thirds or three halves of the scale change the variance by more than 50 %."""
    world, noises = sqlite_world, []
    for number in range(100):
        reports = [world.report(2 * number + i) for i in range(2)]
        key = world.key(number=number)
        world.check(reports, key)
        answer = read(world, world.commit(reports, key))
        noises.append(open_sum(world, reports, answer) - sum(each.sums for each in reports))
    drawn = np.array(noises, dtype=np.float64)

    ratio = float(np.mean(drawn**2)) / world.plan.mechanism.variance

    assert abs(ratio - 1) < 5 * 0.034
    assert len({tuple(row) for row in drawn}) == 100
    correlation = np.corrcoef(drawn[:-1].ravel(), drawn[1:].ravel())[0, 1]
    assert abs(correlation) < 5 / np.sqrt(drawn[:-1].size)
