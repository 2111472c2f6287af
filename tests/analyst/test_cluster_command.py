from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.learning.clustering.methods.release import ClusterRelease
from sfumato.shared import command
from sfumato.shared.spending import OwnersLedger
from tests.analyst.planning.commands import words_of
from tests.commands import run_inside

MEANS = np.array([[20.0, 5.0], [-10.0, 30.0]])
BOUNDS = ("--bounds", "temp=-40:60", "--bounds", "wind=0:100")


@pytest.fixture(autouse=True)
def _records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    records = MEANS[rng.choice(2, size=2000, p=(0.7, 0.3))] + rng.normal(size=(2000, 2))
    lines = ["temp,wind", *(f"{a:.3f},{b:.3f}" for a, b in records), "broken,"]
    Path("records.csv").write_text("\n".join(lines) + "\n")


def cluster(*arguments: str) -> str:
    done = run_inside(command.main, ["cluster", *arguments])
    assert done.returncode == 0, done.stderr
    return words_of(done.stdout)


def cluster_json(*arguments: str) -> Any:
    return json.loads(cluster(*arguments, "--json"))


def refuse(*arguments: str) -> str:
    done = run_inside(command.main, ["cluster", *arguments])
    assert done.returncode == 2
    return words_of(done.stderr)


def test_centroids_are_printed_as_those_of_a_decode_and_the_promise_after_them() -> None:
    given = ("-k", "2", "--epsilon", "2", "--method", "grid")
    words = cluster("records.csv", *given, *BOUNDS)
    assert "weight" in words
    assert "temp" in words
    assert "(1)" not in words
    assert "epsilon = 2 differentially private" in words
    assert "Method grid, 3 rounds." in words


def test_a_file_that_cannot_be_read_is_not_clustered_and_the_cause_is_named() -> None:
    Path("decimal.csv").write_text("temp,wind\n" + '"52,39","9,4"\n' * 50)
    words = refuse("decimal.csv", "-k", "2", "--epsilon", "1", *BOUNDS, "-o", "found.cbor")
    assert "decimal.csv: must mostly be numbers: 100% of the values of 'temp'" in words
    assert "the numbers have commas in them" in words
    assert not Path("found.cbor").exists()


@pytest.mark.parametrize("method", ["grid", "lloyd", "tree"])
def test_json_is_one_object_and_a_stored_release_costs_nothing_more(method: str) -> None:
    given = ["-k", "2", "--epsilon", "4", *BOUNDS, "--method", method, "-o", "found.cbor"]
    made = cluster_json("records.csv", *given)
    assert made["method"] == method
    assert made["n_records"] == 2001
    assert np.array(made["centroids"]).shape == (2, 2)
    assert (
        ClusterRelease.decode(Path("found.cbor").read_bytes()).digest.hex()
        == (made["release_digest"])
    )
    assert cluster_json("show", "found.cbor", "-k", "1")["weights"] == [1.0]
    # A file of a release is never replaced: it may be all that epsilon has bought.
    assert "found.cbor" in refuse("records.csv", *given)


SCALED = ("--bounds", "temp=-40:60:1", "--bounds", "wind=0:100:1")


@pytest.mark.parametrize("relation", ["replace-one", "add-remove-one"])
def test_a_sketch_is_stored_and_clustered_again_for_another_k(relation: str) -> None:
    given = ["-k", "2", "--epsilon", "8", *SCALED, "--method", "compressive", "-o", "found.cbor"]
    given += ["--relation", relation, "--max-records", "2500"]
    made = cluster_json("records.csv", *given)
    assert made["method"] == "compressive"
    assert made["rounds"] == ["sketch"]
    assert made["n_records"] == (2001 if relation == "replace-one" else None)
    offsets = np.linalg.norm(np.array(made["centroids"])[:, None] - MEANS, axis=2)
    assert offsets.min(axis=0).max() < 3.0
    again = cluster_json("show", "found.cbor")
    assert again["release_digest"] == made["release_digest"]
    assert np.array(again["centroids"]) == pytest.approx(np.array(made["centroids"]), abs=0.2)
    assert "differentially private" in cluster("show", "found.cbor", "-k", "1")


def test_a_stored_sketch_says_what_it_cost_with_its_pilot() -> None:
    given = ["-k", "2", "--epsilon", "8", *BOUNDS, "--method", "compressive", "-o", "found.cbor"]
    made = cluster_json("records.csv", *given)
    assert (made["epsilon"], made["rounds"]) == ("8", ["pilot", "sketch"])
    shown = cluster_json("show", "found.cbor")
    for name in ("epsilon", "delta", "relation", "rounds", "statement", "centroids"):
        assert shown[name] == made[name]
    assert "epsilon = 8 differentially private" in shown["statement"]


def test_a_release_names_its_published_form_and_claims_no_delta_that_it_did_not_spend() -> None:
    given = ["-k", "2", "--epsilon", "2", "--delta", "1e-6", "--method", "grid", "--published"]
    made = cluster_json("records.csv", *given, *BOUNDS, "-o", "found.cbor")
    for answer in (made, cluster_json("show", "found.cbor")):
        assert answer["delta"] == "0"
        assert "delta" not in answer["statement"]
        assert answer["published"]
        assert "Method grid, as published" in answer["statement"]


REFUSED = [
    ([], "--bounds"),
    (["--bounds", "temp"], "--bounds"),
    (["--bounds", "temp=1:2", "--plan", "plan.toml"], "--bounds"),
    (["--bounds", "temp=2:1"], "bound"),
    (["--bounds", "rain=0:1"], "rain"),
    ([*BOUNDS, "--budget", "1/2"], "--budget"),
    ([*BOUNDS, "--method", "tree", "--published"], "--published"),
    ([*BOUNDS, "--relation", "add-remove-one"], "--max-records"),
    ([*BOUNDS, "--epsilon", "0"], "--epsilon"),
    ([*BOUNDS, "--method", "cover"], "--delta"),
    ([*BOUNDS, "--method", "grid", "--epsilon", "1e-6"], "fewer clusters"),
]


def test_what_is_refused_names_the_option_and_nothing_is_written() -> None:
    given = ["records.csv", "-k", "2", "-o", "found.cbor"]
    for arguments, words in REFUSED:
        epsilon = [] if "--epsilon" in arguments else ["--epsilon", "1"]
        assert words in refuse(*given, *epsilon, *arguments), arguments
    assert not Path("found.cbor").exists()


def test_a_release_that_its_owner_signed_is_shown_for_that_owner_alone() -> None:
    made_key = run_inside(command.main, ["cluster", "key", "owner.key"])
    public = made_key.stdout.strip()
    assert "keep owner.key secret" in made_key.stderr
    given = ("-k", "2", "--epsilon", "4", *BOUNDS, "--method", "grid")
    made = cluster_json("records.csv", *given, "-o", "found.cbor", "--sign", "owner.key")
    shown = cluster_json("show", "found.cbor", "--owner", public)
    assert shown["release_digest"] == made["release_digest"]
    assert "found.cbor: is signed, and --owner is missing" in refuse("show", "found.cbor")
    other = cluster("key", "other.key")
    assert "is not signed by this owner" in refuse("show", "found.cbor", "--owner", other)
    # The command that the first answer ends with works as it stands.
    said = cluster("records.csv", *given, "-o", "again.cbor", "--sign", "owner.key")
    hint = f"sfumato cluster show again.cbor -k K --owner {public}"
    assert f"`{hint}` costs nothing" in said
    cluster(*hint.replace("K", "2").split()[2:])
    assert "`sfumato cluster show plain.cbor -k K` costs" in cluster(
        "records.csv", *given, "-o", "plain.cbor"
    )
    words = refuse("show", "plain.cbor", "--owner", public)
    assert "plain.cbor: has no signature, and --owner asks for one" in words
    assert "written with --sign" in words


def test_a_delta_beyond_that_of_the_ledger_says_what_can_be_done() -> None:
    Path("ledger.db").touch(mode=0o600)
    given = ["-k", "2", "--epsilon", "1", *BOUNDS, "--method", "cover", "--ledger", "ledger.db"]
    for delta, budget in (("1e-5", "1"), ("1e-6", "1"), ("1e-6", "9")):
        arguments = ("records.csv", *given, "--delta", delta, "--budget", budget)
        if (delta, budget) == ("1e-6", "1"):
            cluster(*arguments)
            continue
        words = refuse(*arguments)
        assert "--delta: must be at most 1e-06 in all releases of these records together" in words
        assert "use a smaller delta, or noise without one" in words.lower()
        assert "raise it" not in words.lower()
    assert len(OwnersLedger(Path("ledger.db")).load()[0]) == 1
    # A limit of epsilon can be raised.
    words = refuse("records.csv", *given[:-4], "--method", "grid", "--ledger", "ledger.db")
    assert "--budget: releasing" in words
    assert "Raise it if the owner agrees" in words
