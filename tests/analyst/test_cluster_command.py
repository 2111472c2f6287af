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
    assert "--read decimal=," in words
    assert not Path("found.cbor").exists()
    given = ["-k", "1", "--epsilon", "8", "--method", "grid", "--read", "decimal=,", *BOUNDS]
    found = cluster_json("decimal.csv", *given)
    assert np.allclose(found["centroids"], [[52.39, 9.4]], atol=4)


def test_a_file_is_read_as_its_program_writes_it() -> None:
    rows = "kitchen;1.052,4 °C;-99\n" * 20 + "hall;7;7\n" + "kitchen;1.052,4;9,5\n" * 30
    Path("logger.csv").write_text(f"logger 7\nsensor;temp;wind\n{rows}")
    stated = ("delimiter=;", "decimal=,", "thousands=.", "strip=°C", "skip_lines=1")
    chosen = (*stated, "missing_values=-99", "where.sensor=kitchen")
    given = ["-k", "1", "--epsilon", "20", "--method", "grid", "--json"]
    given += ["--bounds", "temp=900:1200", "--bounds", "wind=0:20", "--max-unreadable", "0.5"]
    options = [each for option in chosen for each in ("--read", option)]
    found = cluster_json("logger.csv", *given, *options)
    assert found["n_records"] == 50
    assert np.allclose(found["centroids"], [[1052.4, 9.5]], atol=6)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("delimiter", "--read: must be KEY=VALUE, and a key once, and is 'delimiter'"),
        ("delimitr=;", "--read.delimitr: is not a known key. Did you mean delimiter?"),
        ("skip_lines=two", "--read.skip_lines: must be a whole number"),
        ("thousands=.", "--read.thousands: must not be the decimal mark"),
        ("encoding=utf-7", '--read.encoding: must be "utf-16", or an encoding that keeps ASCII'),
        ("packed=zip", "--read.packed: must be"),
    ],
)
def test_how_a_file_is_written_is_refused_by_key_rule_and_fix(option: str, words: str) -> None:
    given = ("-k", "2", "--epsilon", "1", *BOUNDS, "--read", option)
    assert words in refuse("records.csv", *given)


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


def test_the_laboratory_clusters_as_a_paper_does_and_shows_what_was_released() -> None:
    given = ["-k", "2", "--epsilon", "50", "--method", "local-search", *BOUNDS]
    run = ["lab", "cluster", "records.csv", *given, "-o", "found.cbor", "--json"]
    made = json.loads(run_inside(command.main, run).stdout)
    assert np.allclose(sorted(made["centroids"]), MEANS[::-1], atol=5)
    assert made["rounds"].count("swap") == 10
    shown = json.loads(run_inside(command.main, ["lab", "show", "found.cbor", "--json"]).stdout)
    assert shown["centroids"] == made["centroids"]


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


def test_the_example_of_the_help_finds_its_clusters() -> None:
    means = np.array([[10, 30], [25, 90], [0, 120], [-20, 60], [40, 40]])
    rng = np.random.default_rng(1)
    records = means[rng.integers(5, size=5000)] + rng.normal(size=(5000, 2)) * [2.0, 4.0]
    lines = ["temp,wind", *(f"{a:.3f},{b:.3f}" for a, b in records)]
    Path("records.csv").write_text("\n".join(lines) + "\n")
    given = ["-k", "5", "--epsilon", "1", "--bounds", "temp=-40:60", "--bounds", "wind=0:150"]
    found = np.array(cluster_json("records.csv", *given)["centroids"])
    offsets = np.abs(found[:, None] - means) / [2.0, 4.0]
    assert offsets.max(axis=2).min(axis=0).max() < 2.0


def test_other_bytes_than_a_release_are_refused() -> None:
    Path("number.cbor").write_bytes(b"\x01")
    Path("cut.cbor").write_bytes(b"\xd2\x84\x58")
    for name, owner in (("records.csv", ()), ("number.cbor", ()), ("cut.cbor", ("0" * 64,))):
        words = refuse("show", name, *(f"--owner={each}" for each in owner))
        assert f"{name}: is damaged, or is no release of this version. Name a file" in words
    assert "nothing.cbor" in refuse("show", "nothing.cbor")


def test_options_are_named_that_the_command_has() -> None:
    given = ["records.csv", "-k", "2", "--epsilon", "1", "--bounds"]
    words = refuse(*given, "rain=0:1")
    assert "rain: the column is not in the header of records.csv (temp, wind). Name a col" in words
    assert "--column" not in words
    stored = ["--epsilon", "4", *SCALED, "--method", "compressive", "-o", "found.cbor"]
    cluster("records.csv", "-k", "2", *stored)
    words = refuse("show", "found.cbor", "-k", "900")
    assert "-k: must be at most" in words
    assert "too few numbers to tell more apart" in words


def test_a_key_that_is_missing_is_named_before_anything_is_spent() -> None:
    given = ("-k", "2", "--epsilon", "4", *BOUNDS, "--ledger", "owner.ledger")
    signed = ("records.csv", *given, "--sign", "owner.key")
    assert "Make a key with" in refuse(*signed, "-o", "found.cbor")
    assert "--sign: needs -o" in refuse(*signed)
    assert not Path("owner.ledger").exists()
    assert not Path("found.cbor").exists()


NO_NUMBERS = [
    (["day=2026-01-01:2026-02-01"], "of 'day' must be numbers, and are '2026-01-01:2026-02-01'"),
    (["at=2026-01-01T00:00:2026-01-02T00:00"], "of 'at' must be numbers"),
    (["colour=red:blue"], "of 'colour' must be numbers, and are 'red:blue'"),
    (["temp=0:10:wide"], "of 'temp' must be numbers"),
    (["temp=-40:"], "of 'temp' must be numbers"),
    (["at=12:00:18:00"], "must be COLUMN=LOWER:UPPER"),
    (["temp"], "must be COLUMN=LOWER:UPPER"),
    (["temp=4"], "must be COLUMN=LOWER:UPPER"),
    (["=0:1"], "must be COLUMN=LOWER:UPPER"),
    (["temp=60:-40"], "of 'temp' must be finite, the lower one first, and are '60:-40'"),
    (["temp=nan:60"], "of 'temp' must be finite"),
    (["temp=0:inf"], "of 'temp' must be finite"),
    (["temp=0:1:0"], "of 'temp' must have a positive scale"),
    (["temp=0:1:nan"], "of 'temp' must have a positive scale"),
    (["temp=0:1", "temp=0:2"], "of 'temp' cannot be stated 2 times"),
]


def test_bounds_that_are_no_numbers_are_refused_before_anything_is_read_or_spent() -> None:
    options = ["-k", "1", "--epsilon", "1", "--ledger", "ledger.db", "-o", "found.cbor"]
    for bounds, rule in NO_NUMBERS:
        given = [part for each in bounds for part in ("--bounds", each)]
        # There is no such file, so that one that is opened would be named.
        words = refuse("missing.csv", *options, *given)
        assert f"--bounds: {rule}" in words
        assert ". Write what the values can be" in words or "state" in words or ". Give" in words
        if "must be numbers" in rule:
            assert "Convert dates and times to numbers first" in words
    assert [each.name for each in Path().iterdir()] == ["records.csv"]
