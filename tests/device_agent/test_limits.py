"""An owner who wrote no limit obeys a stated one, and is shown it with how to write another."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction

import pytest

from sfumato.shared.plan import SketchPlan
from sfumato.shared.privacy.limits import DEFAULT_DELTA, DEFAULT_EPSILON
from tests.device_agent.conftest import Agent, AgentFor, make_plan
from tests.device_agent.serving import TOKEN, Server, running


def write_limits(agent: Agent, *tables: str) -> None:
    """Put other limits in place of the configuration's."""
    agent.write_config(state_dir=f"state-{sum(1 for _ in agent.folder.iterdir())}")
    before, after = agent.config.read_text().split("[budget]\n")
    streams = after[after.index("[[streams]]") :]
    agent.config.write_text("\n".join([before, *tables, streams]))


def try_to_enrol(
    make_agent: Callable[[Server], Agent], plan: SketchPlan, *tables: str
) -> tuple[int, Agent, Server]:
    with running(plan) as server:
        agent = make_agent(server)
        write_limits(agent, *tables)
        return agent.run("init", "--token", TOKEN), agent, server


@pytest.mark.parametrize("tables", [(), ("[budget]",), ('[policy]\nservers = ["SERVER"]',)])
@pytest.mark.parametrize("epsilon", ["1001/1000", "2", "10", "1000000000"])
def test_without_a_limit_a_plan_above_the_default_is_refused_and_nothing_is_sent(
    agent_for: AgentFor, epsilon: str, tables: tuple[str, ...]
) -> None:
    plan = make_plan(epsilon=Fraction(epsilon), mechanism="discrete-laplace")
    agent = agent_for(plan)
    server = agent.server
    write_limits(agent, *(table.replace("SERVER", server.url) for table in tables))
    assert agent.run("init", "--token", TOKEN) != 0
    assert "budget.per_record: releasing sketch 0" in agent.err
    assert "above the default limit 1. Write [budget] per_record = " in agent.err
    assert not server.devices


def test_a_plan_at_the_default_is_obeyed_and_the_default_shown(
    make_agent: Callable[[Server], Agent],
) -> None:
    status, agent, _ = try_to_enrol(make_agent, make_plan(epsilon=DEFAULT_EPSILON))
    assert status == 0
    assert "epsilon at most 1 (by default, for none is written) for each record" in agent.out
    assert "no limit for someone in every window" in agent.out


@pytest.mark.parametrize(
    "table", ['[budget]\nper_record = "7/2"', '[policy]\nepsilon_per_window = "7/2"']
)
def test_one_limit_that_the_owner_wrote_stands_for_the_other(
    make_agent: Callable[[Server], Agent], table: str
) -> None:
    assert try_to_enrol(make_agent, make_plan(epsilon=Fraction(7, 2)), table)[0] == 0
    status, agent, _ = try_to_enrol(make_agent, make_plan(epsilon=Fraction(4)), table)
    assert status != 0
    assert "7/2" in agent.err


@pytest.mark.parametrize(("delta", "is_obeyed"), [("1e-6", True), ("1e-9", True), ("1e-3", False)])
def test_a_plan_with_a_delta_is_judged_at_the_default_one(
    make_agent: Callable[[Server], Agent], delta: str, is_obeyed: bool
) -> None:
    status, agent, server = try_to_enrol(make_agent, make_plan(delta=Fraction(delta)))
    assert (status == 0) == is_obeyed
    assert bool(server.devices) == is_obeyed
    if not is_obeyed:
        # epsilon 1 at delta 1e-3 is more at 1e-6, and that is what counts.
        assert "at delta 1e-06, above the default limit 1" in agent.err
        assert "Write [budget] per_record" in agent.err
        assert (
            try_to_enrol(
                make_agent, make_plan(delta=Fraction(delta)), "[budget]\ndelta = '1/1000'"
            )[0]
            == 0
        )


def test_what_the_refusal_says_to_write_is_enough(make_agent: Callable[[Server], Agent]) -> None:
    plan = make_plan(delta=Fraction(1, 1000))
    _, agent, _ = try_to_enrol(make_agent, plan)
    advice = agent.err.split("Write [budget] ")[1].split(" if the owner")[0]
    assert try_to_enrol(make_agent, plan, f"[budget]\n{advice}")[0] == 0


@pytest.mark.parametrize("value", ['"1"', '"2"'])
def test_a_delta_of_one_or_more_is_refused_by_name(agent: Agent, value: str) -> None:
    write_limits(agent, f"[budget]\ndelta = {value}")
    assert agent.run("check") != 0
    assert "budget.delta: must be below 1" in agent.err


def test_check_shows_limits_defaults_and_what_is_odd_about_a_plan(
    agent_for: AgentFor,
) -> None:
    plan = make_plan(epsilon=Fraction(20))
    agent = agent_for(plan)
    write_limits(agent, '[budget]\nper_record = "20"\nlifetime = "90"')
    agent.run("check")
    assert "policy: none is set, so every plan within the budget is obeyed" in agent.out
    assert "budget: epsilon at most 20 for each record, epsilon at most 90 for someone" in agent.out
    assert "plan: epsilon is 20: above 10" in agent.out
    assert f"{DEFAULT_DELTA} (by default" in agent.out


def test_the_budget_shows_limits_and_what_holds_for_people(
    agent_for: AgentFor,
) -> None:
    agent = agent_for(make_plan(delta=Fraction(1, 10**6)))
    write_limits(agent)
    agent.init()
    agent.append(0, 1, 2, 3)
    agent.once()
    assert agent.run("budget", "--json") == 0
    report = json.loads(agent.out)
    assert report["limits"]["defaults"] == ["delta", "per_record"]
    n_releases = report["streams"][0]["n_releases"]
    assert n_releases == 4
    people = {p["n_records"]: p for p in report["streams"][0]["people"]}
    # Gaussian: twenty records at more than twenty, four windows at less than four.
    assert people[20]["window_epsilon"] == "33.1"
    assert people[1]["lifetime_epsilon"] == "2.13"
    assert agent.run("budget") == 0
    assert "33.1" in agent.out
    assert "by default" in agent.out
