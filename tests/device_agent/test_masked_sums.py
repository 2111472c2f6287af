"""Masked sums: what a device sends under a secure sum, and what owners must allow before."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sfumato.device_agent.agent.reading.release import make_message
from sfumato.shared.core import SketchAccumulator
from sfumato.shared.plan import SketchPlan, compute_plan_digest
from sfumato.shared.privacy.testing import SeededSource
from sfumato.shared.sharing.batches import add_noise_to_masks, open_total
from sfumato.shared.sharing.masks import expand_mask, read_masked
from sfumato.shared.sharing.seals import open_seal
from sfumato.shared.system import SystemSource
from sfumato.shared.wire import PayloadForm, decode_message
from tests.device_agent.conftest import Agent
from tests.device_agent.serving import TOKEN, running
from tests.shared.sharing.samples import HELPER, KEY, make_plan
from tests.shared.wire.samples import KEY as DEVICE_KEY

N_DEVICES = 12


def make_report(plan: SketchPlan, ordinal: int, records: np.ndarray) -> tuple[bytes, np.ndarray]:
    accumulator = SketchAccumulator(plan.statistic_of(bytes([ordinal])))
    accumulator.add(records)
    exact = plan.finish_sum(accumulator.sums, accumulator.n_records)
    _, message = make_message(
        plan,
        accumulator,
        study=b"t" * 32,
        plan_digest=compute_plan_digest(plan),
        device=bytes([ordinal]) * 32,
        stream="main",
        sequence=0,
        slots=(0, 0),
        block=0,
        sign=DEVICE_KEY.sign,
        source=SystemSource(),
    )
    return message, exact


@pytest.mark.parametrize("neighbouring", ["replace-one", "add-remove-one"])
def test_a_batch_opens_to_the_sum_of_its_devices_and_two_noises(neighbouring: str) -> None:
    plan = make_plan(neighbouring=neighbouring)
    ring, n_words = plan.ring, plan.n_coordinates
    rng = np.random.default_rng(0)
    masked, masks, sums = [], [], []
    for ordinal in range(N_DEVICES):
        message, exact = make_report(plan, ordinal, rng.uniform(size=(1 + ordinal % 5, 2)))
        read = decode_message(message)
        read.verify(DEVICE_KEY.public_key().public_bytes_raw())
        header = read.header
        assert header.sealed is not None
        assert len(read.payload) == PayloadForm.of(plan).length
        seed = open_seal(header.sealed, KEY, header.seal_context)
        masks.append(expand_mask(seed, header.mask_context, ring=ring, n_words=n_words))
        masked.append(read_masked(read.payload, ring=ring, n_words=n_words))
        sums.append(exact)
    zeros = np.zeros(n_words, dtype=np.int64)
    helpers, leaders = (plan.mechanism.add_noise(zeros, SeededSource(n)) for n in (1, 2))

    half = add_noise_to_masks(ring.add(*masks), helpers, ring=ring)
    total = open_total(ring.add(*masked), half, leaders, ring=ring)

    assert total.tolist() == (np.sum(sums, axis=0) + helpers + leaders).tolist()


def test_a_seal_opens_with_no_field_of_its_header_changed() -> None:
    plan = make_plan()
    message, _ = make_report(plan, 0, np.full((2, 2), 0.5))
    header = decode_message(message).header
    assert header.sealed is not None
    assert open_seal(header.sealed, KEY, header.seal_context)

    for change in (
        {"study": b"u" * 32},
        {"plan_digest": b"u" * 32},
        {"device": b"u" * 32},
        {"stream": "other"},
        {"sequence": 1},
        {"slots": (1, 1)},
        {"n_records": 3},
        {"report_id": bytes(16)},
        {"payload_length": 1},
        {"payload_digest": bytes(32)},
    ):
        moved = replace(header, **change)
        with pytest.raises(Exception, match="sealed: does not open"):
            open_seal(header.sealed, KEY, moved.seal_context)


def test_two_reports_of_the_same_records_share_nothing() -> None:
    plan, records = make_plan(), np.full((2, 2), 0.5)

    first, second = (decode_message(make_report(plan, 0, records)[0]) for _ in range(2))

    assert first.header.report_id != second.header.report_id
    assert first.header.sealed != second.header.sealed
    same = sum(a == b for a, b in zip(first.payload, second.payload, strict=True))
    assert same < len(first.payload) / 8


def test_a_busy_device_saturates_instead_of_wrapping_its_batch() -> None:
    """Under add-remove-one no device may compare its records with the most."""
    plan = make_plan(neighbouring="add-remove-one")
    accumulator = SketchAccumulator(plan.statistic_of(b"x"))
    accumulator.add(np.full((1000, 2), 0.5))
    finished = plan.finish_sum(accumulator.sums, accumulator.n_records)

    saturated = plan.saturate_sum(finished)

    most = plan.most_records
    assert np.abs(saturated[:-1]).max() <= most * plan.amplitude
    assert saturated[-1] == most * plan.count_scale
    assert finished[-1] == 1000 * plan.count_scale


def add_policy(agent: Agent, policy: str) -> None:
    agent.config.write_text(f"{agent.config.read_text()}\n[policy]\n{policy}\n")


@pytest.mark.parametrize(
    ("policy", "complaint"),
    [
        ("", "policy.releases: do not allow sum.v1"),
        ('releases = ["local.v1"]', "policy.releases: do not allow sum.v1"),
        ('releases = ["sum.v1"]', "policy.helpers: do not name Patients' association"),
        (
            f'releases = ["sum.v1"]\nhelpers = ["{"ab" * 32}"]',
            "policy.helpers: do not name Patients' association",
        ),
    ],
)
def test_an_owner_must_name_secure_sums_and_the_helper(
    policy: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(make_plan()) as server:
        agent = Agent(tmp_path, server, capsys)
        add_policy(agent, policy)

        assert agent.run("init", "--token", TOKEN) == 3

        assert complaint in agent.err
        assert "nothing is enrolled or released" in agent.err
        assert not server.devices


def test_a_device_whose_owner_named_both_sends_masked_sums_that_only_the_helper_opens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = make_plan()
    with running(plan) as server:
        agent = Agent(tmp_path, server, capsys)
        add_policy(agent, f'releases = ["sum.v1"]\nhelpers = ["{HELPER.fingerprint.hex()}"]')
        agent.init()
        assert "helper: Patients' association, with the identity" in agent.out
        assert agent.run("check") == 0
        assert "if they do, they can read your sums exactly" in " ".join(agent.out.split())
        agent.append(0, lines=3)
        agent.append(1, lines=3)

        assert agent.once()["sent"] >= 1

        read = decode_message(server.received[0][1])
        assert read.header.kind == "sum.v1"
        assert read.header.sealed is not None
        assert len(open_seal(read.header.sealed, KEY, read.header.seal_context)) == 32

        assert agent.run("budget", "--json") == 0
        budget = json.loads(agent.out)
        assert {event["helper"] for event in budget["events"]} == {"Patients' association"}
        assert {event["release"] for event in budget["events"]} == {"sum.v1"}
        assert budget["secure_sums"][0]["identity"] == HELPER.fingerprint.hex()
        assert agent.run("budget") == 0
        assert "the server and Patients' association" in agent.out
