"""The operator's and analyst's commands, against a real server."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sfumato.analyst import Client, DecodeResult
from sfumato.shared import command
from sfumato.shared.plan import plan_from_spec
from sfumato.shared.wire import decode_enrolment_code
from tests.commands import run_inside
from tests.system.agents import Agent, make_agent
from tests.system.servers import start_server
from tests.system.test_daemon import SLOT_S, SPEC


@dataclass(frozen=True)
class Desk:
    """Where an operator sits, with a study and an enrolled device."""

    url: str
    key: str
    study: str
    agent: Agent
    folder: Path

    def run(self, *arguments: str, status: int = 0, key: bool = True) -> str:
        done = self._start(*arguments, key=key)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout + done.stderr

    def ask(self, *arguments: str, status: int = 0) -> Any:
        done = self._start(*arguments, "--json", key=True)
        assert done.returncode == status, done.stdout + done.stderr
        return json.loads(done.stdout)

    def _start(self, *arguments: str, key: bool) -> subprocess.CompletedProcess[str]:
        environment = {"SFUMATO_URL": self.url, "COLUMNS": "200"}
        if key:
            environment["SFUMATO_KEY"] = self.key
        return run_inside(command.main, arguments, environment)

    @property
    def device(self) -> str:
        (found,) = self.ask("device", "list", self.study)
        return str(found["device_id"])


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    folder = tmp_path_factory.mktemp("desk")
    server = start_server(folder, worker=True)
    try:
        data = folder / "records.csv"
        lines = [f"{i},{i % 9 - 4},{i % 7 - 3}\n" for i in range(4 * SLOT_S)]
        data.write_text("time,x,y\n" + "".join(lines), encoding="utf-8")
        with Client(server.url, key=server.key) as client:
            study = client.create_study("desk", plan_from_spec(SPEC)).study_id
            agent = make_agent(folder / "agent", client, study, data=data)
        assert agent.run("once", "--no-send").returncode in (0, 75)
        yield Desk(server.url, server.key, study, agent, folder)
    finally:
        server.stop()


def export(desk: Desk, sequence: int) -> Path:
    path = desk.folder / f"{sequence}.sketch"
    if not path.exists():
        done = desk.agent.run("export", "points", str(sequence), "--to", str(path))
        assert done.returncode == 0, done.stderr
    return path


def test_an_exported_sketch_is_imported_once_without_a_key(desk: Desk) -> None:
    path = str(export(desk, 0))
    assert "stored as" in desk.run("sketch", "import", path, key=False)
    assert "the server has it already" in desk.run("sketch", "import", path, key=False)
    (item,) = desk.ask("sketch", "import", path)
    assert (item["result"], item["study_id"]) == ("known", desk.study)
    assert len(desk.ask("sketch", "list", desk.study)) == 1
    assert "points" in desk.run("sketch", "list", desk.study)
    # The agent sends it too, which changes nothing.
    assert desk.agent.once()["sent"] == 4
    assert len(desk.ask("sketch", "list", desk.study)) == 4


def test_what_cannot_be_imported_is_refused_by_name_and_the_rest_is_taken(desk: Desk) -> None:
    good, broken, forged = export(desk, 1), desk.folder / "broken", desk.folder / "forged"
    broken.write_bytes(b"no sketch")
    data = bytearray(export(desk, 2).read_bytes())
    data[-1] ^= 1
    forged.write_bytes(data)
    paths = [str(path) for path in (broken, forged, desk.folder / "absent", good)]
    found = desk.ask("sketch", "import", *paths, status=2)
    assert [item["result"] for item in found[:3]] == ["refused"] * 3
    # Known where another test has sent it before.
    assert found[3]["result"] in ("stored", "known")
    assert found[0]["problem"] == "malformed-message"
    assert "absent: cannot be read" in found[2]["detail"]
    assert all(item["detail"] for item in found[:3])


def test_an_import_says_that_no_server_answers(desk: Desk) -> None:
    path = str(export(desk, 0))
    said = desk.run("sketch", "import", path, "--url", "http://127.0.0.1:9", status=1)
    assert "does not answer" in said


def test_a_decode_is_started_watched_shown_and_cancelled(desk: Desk) -> None:
    desk.agent.once()
    assert "error: -k: must be " in desk.run("decode", desk.study, "-k", "500", status=2)
    started = desk.ask("decode", "start", desk.study, "-k", "2")
    assert len(desk.ask("decode", "watch", started["decode_id"])["weights"]) == 2
    assert "SNR" in desk.run("decode", "show", started["decode_id"])
    assert ": succeeded" in desk.run("decode", "cancel", started["decode_id"])


def test_decodes_are_listed_found_by_first_digits_and_exported(desk: Desk) -> None:
    desk.agent.once()
    period = ("--from", "1970-01-01", "--to", "1970-01-01T00:25Z")
    found = desk.ask("decode", desk.study, "-k", "2", "--seed", "9", *period, "--allow-unusable")
    decode_id = found["decode_id"]
    newest, *_ = desk.ask("decode", "list", "desk")
    assert (newest["decode_id"], newest["seed"]) == (decode_id, 9)
    assert decode_id in desk.run("decode", "list", "desk")
    shown = desk.run("decode", "show", decode_id[:8], "--allow-unusable")
    assert "selected from 1970-01-01 00:00 to 1970-01-01 00:25 UTC (slots 0 to 2)" in shown
    for name in ("r.json", "r.csv", "r.parquet"):
        path = desk.folder / name
        desk.run("decode", "export", decode_id[:8], "-o", str(path), "--allow-unusable")
        assert path.stat().st_size > 100
    result = DecodeResult.load(desk.folder / "r.json")
    assert result.weights.tolist() == found["weights"]
    assert result.snapshot is not None
    assert len(result.snapshot.digest) == 64
    header, *rows = (desk.folder / "r.csv").read_text(encoding="utf-8").splitlines()
    assert header.startswith("cluster,weight,")
    assert len(rows) == 2
    with Client(desk.url, key=desk.key) as client:
        again = client.read_result(client.decode_state(decode_id))
        assert again == result
        assert client.device(desk.device[:6]).device_id == desk.device
    page = desk.folder / "r.html"
    desk.run("report", decode_id[:8], "-o", str(page))
    assert result.snapshot.digest in page.read_text(encoding="utf-8")
    refused = desk.run("decode", desk.study, "-k", "2", "--from", "1970-01-01T06:00", status=2)
    assert "must have a time zone" in refused
    assert "no decode has an id" in desk.run("decode", "show", "abcdef", status=2)


def test_a_dossier_states_promise_keys_and_log_and_leaves_blanks_for_what_nobody_said(
    desk: Desk,
) -> None:
    desk.agent.once()
    page = desk.folder / "dossier.html"
    said = desk.run("study", "dossier", "desk", "-o", str(page), "--controller", "City <Graz>")
    assert "6 blanks are left" in said
    text = page.read_text(encoding="utf-8")
    assert "City &lt;Graz&gt;" in text
    assert "In plain words: suppose that somebody" in text
    assert "study.create" in text
    assert "<script" not in text
    assert text.count("to be filled in</span>") == 6
    found = desk.ask("study", "dossier", "desk", "--controller", "City")
    with Client(desk.url, key=desk.key) as client:
        assert found["privacy"] == asdict(client.privacy("desk"))
        assert [key["scope"] for key in found["keys"]] == [
            each.scope for each in list(client.keys())
        ]
    assert found["plan"]["dimensions"][0]["name"] == "x"
    assert found["privacy"]["version"]
    assert "controller" not in found["open_questions"]
    assert found["readers"]["totals of the server's work"].endswith("operators")


def test_a_search_box_is_stored_with_the_study_and_told_with_the_result(desk: Desk) -> None:
    desk.agent.once()
    assert "x -3.5 to 3.5" in desk.run("study", "search-box", desk.study, "--within", "x=-3.5:3.5")
    assert "x -3.5 to 3.5" in desk.run("study", "show", desk.study)
    found = desk.ask("decode", desk.study, "-k", "1")
    assert found["search_box"] == {"x": [-3.5, 3.5]}
    assert "searched within x -3.5 to 3.5" in desk.run("decode", "show", found["decode_id"])
    refused = desk.run("decode", desk.study, "-k", "2", "--within", "y=-3000:3", status=2)
    assert "search_box.y: must lie inside the plan's bounds" in refused
    assert "the plan's bounds" in desk.run("study", "search-box", desk.study, "--within", "plan")


def test_a_device_is_listed_shown_by_its_name_and_excluded(desk: Desk) -> None:
    config = desk.agent.config
    config.write_text('name = "Flur 2"\n' + config.read_text("utf-8"), encoding="utf-8")
    desk.agent.once()
    device = desk.device
    listed = desk.run("device", "list")
    assert all(words in listed for words in ("enrolled", "Flur 2", "site=north"))
    shown = desk.run("device", "show", "Flur 2")
    assert desk.ask("device", "show", "Flur 2")["device_id"] == device
    assert "site = north" in shown
    assert "points; last sequence number 3" in shown
    assert "version 0.1.0" in shown
    done = desk.ask("device", "exclude", device, "--reason", "tampered with")
    assert done["n_subtracted"] == 4
    assert "tampered with" in desk.run("device", "show", device)
    # It was stored before, so that a second copy changes nothing still.
    assert "the server has it already" in desk.run("sketch", "import", str(export(desk, 0)))


def test_a_device_is_revoked(desk: Desk) -> None:
    desk.run("device", "revoke", desk.device, "--reason", "stolen")
    assert desk.ask("device", "show", desk.device)["state"] in ("revoked", "excluded")


def test_the_tokens_of_a_study_are_listed_and_revoked(desk: Desk) -> None:
    secret = desk.run("study", "token", desk.study, "--uses", "3").strip()
    token_id = hashlib.sha256(secret.encode()).hexdigest()
    first, made = desk.ask("study", "tokens", desk.study)
    assert (first["state"], first["uses_left"]) == ("used-up", 0)
    assert (made["state"], made["max_uses"], made["uses_left"]) == ("usable", 3, 3)
    shown = desk.run("study", "tokens", desk.study)
    assert token_id in shown
    assert secret not in shown
    said = desk.run("study", "revoke-token", token_id)
    assert f"token {token_id} is revoked; it enrolled 0 device(s)" in said
    assert desk.ask("study", "revoke-token", token_id)["state"] == "revoked"
    assert desk.ask("study", "tokens", desk.study)[1]["state"] == "revoked"


Say = Callable[..., str]


@pytest.fixture
def say(desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """Run a command inside this process, which takes a tenth of the time of one of its own."""
    monkeypatch.setenv("SFUMATO_URL", desk.url)
    monkeypatch.setenv("SFUMATO_KEY", desk.key)

    def run(*arguments: str, status: int = 0) -> str:
        assert command.main(arguments) == status
        captured = capsys.readouterr()
        return captured.err if status else captured.out

    return run


def test_every_command_takes_the_name_of_a_study_or_its_first_digits(desk: Desk, say: Say) -> None:
    for study in ("desk", desk.study[:6], desk.study):
        assert json.loads(say("study", "show", study, "--json"))["study_id"] == desk.study
        assert json.loads(say("study", "open", study, "--json"))["state"] == "open"
        code = decode_enrolment_code(say("study", "token", study, "--code"))
        assert code.study.hex() == desk.study
        for listing in (("device", "list"), ("sketch", "list"), ("study", "tokens")):
            assert json.loads(say(*listing, study, "--json")) == desk.ask(*listing, desk.study)
        assert "items" in json.loads(say("sketch", "refusals", study, "--json"))


def test_what_is_not_there_or_cannot_be_is_refused_in_words_of_its_own(
    desk: Desk, say: Say
) -> None:
    of_study = [
        *(("study", verb) for verb in ("show", "open", "close", "tokens", "token")),
        ("study", "delete", "--confirm", "x"),
        *(("sketch", verb) for verb in ("list", "refusals")),
        ("device", "list"),
        ("decode", "-k", "2"),
        ("decode", "start", "-k", "2"),
    ]
    of_device = [
        *(("device", "show"), ("device", "exclude", "--reason", "r")),
        ("device", "revoke", "--reason", "r"),
    ]
    of_identity = [
        *(("decode", verb) for verb in ("show", "watch", "cancel")),
        ("study", "revoke-token"),
    ]
    those_there = f"{desk.study[:12]} (desk)"
    walk: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
        *(
            ((*words, study), ("is neither a study's name nor", those_there))
            for words in of_study
            for study in ("desks", "", "5f3")
        ),
        *(
            ((*words, "short"), ("must be an id, 64 lower-case hexadecimal digits",))
            for words in of_identity
        ),
        *(((*words, "short"), ("no device has a name or id that",)) for words in of_device),
        *(
            ((*words, "desk", "-k", k), ("sfumato: error: -k: must be ",))
            for words in (("decode",), ("decode", "start"))
            for k in ("0", "-3")
        ),
    ]
    wrong = [
        (words, said)
        for words, expected in walk
        if "^" in (said := say(*words, status=2)) or not all(each in said for each in expected)
    ]
    assert wrong == []


def test_a_plan_is_published_twice_only_when_that_is_asked_for(desk: Desk, say: Say) -> None:
    plan = str(write_plan(desk.folder))
    create = ("study", "create")
    first = json.loads(say(*create, "once", plan, "--json"))["study_id"]
    assert "nothing has changed" in say(*create, "once", plan)
    said = say(*create, "twice", plan, status=2)
    assert f"plan: is that of study {first}, 'once'. Use that study, or add --again" in said
    assert "twice" not in say("study", "list")
    second = json.loads(say(*create, "twice", plan, "--again", "--json"))["study_id"]
    assert second != first
    # The same name with another plan is another study: from now on the name fits two.
    other = desk.folder / "other.toml"
    spec = (Path(__file__).parents[2] / "deploy/demo/plan.toml").read_text(encoding="utf-8")
    other.write_text(spec.replace("sfumato weather demo", "another seed"), encoding="utf-8")
    assert "another study is called once too" in desk.run(*create, "once", str(other))
    assert "'once' is the name of 2 studies" in say("study", "show", "once", status=2)
    for study in json.loads(say("study", "list", "--json")):
        if study["name"] in ("once", "twice"):
            say("study", "delete", study["study_id"], "--confirm", study["name"])


def test_a_plan_whose_answers_could_not_be_trusted_is_published_only_when_that_is_asked_for(
    desk: Desk, say: Say
) -> None:
    spec = (Path(__file__).parents[2] / "deploy/demo/plan.toml").read_text(encoding="utf-8")
    plan, weak = desk.folder / "hope.toml", desk.folder / "weak.toml"
    plan.write_text(spec.replace("sfumato weather demo", "hope"), encoding="utf-8")
    weak.write_text(spec.replace('epsilon = "1"', 'epsilon = "1e-4"'), encoding="utf-8")
    create = ("study", "create", "hope")
    # Without expected records, the most that the plan accepts counts.
    assert "Do not run this: at epsilon 0.0001, with 4,000,000 records" in say(
        *create, str(weak), status=2
    )
    few = (*create, str(plan), "--records", "300")
    assert "Do not run this: at epsilon 1, with 300 records in 1 sketch, " in say(*few, status=2)
    assert "--windows: needs --records" in say(*create, str(plan), "--windows", "4", status=2)
    assert "hope" not in say("study", "list")
    study = json.loads(say(*few, "--anyway", "--json"))["study_id"]
    assert json.loads(say(*create, str(plan), "--json"))["study_id"] == study
    say("study", "delete", study, "--confirm", "hope")


def test_keys_are_made_listed_and_revoked_and_the_audit_log_names_who_did(
    desk: Desk, say: Say
) -> None:
    secret = say("key", "create", "--scope", "enrol", "--name", "factory").strip()
    assert secret.startswith("sfk_")
    made = json.loads(say("key", "create", "--scope", "analyst", "--name", "ana", "--json"))
    assert (made["scope"], made["name"]) == ("analyst", "ana")
    shown, listed = say("key", "list"), say("key", "list", "--json")
    assert made["key_id"] in shown
    assert secret not in shown + listed
    assert made["key"] not in shown + listed
    by_name = {record["name"]: record for record in json.loads(listed)}
    assert by_name["demo"]["last_used"] is not None
    assert f"key {made['key_id']} is revoked" in say("key", "revoke", made["key_id"])
    assert "not a key in use" in say("key", "revoke", made["key_id"], status=2)
    assert "must be an id, 16" in say("key", "revoke", "../audit", status=2)
    entries = json.loads(say("audit", "--json"))
    assert entries[0]["actor"] == "local"
    own = [entry for entry in entries if entry["actor"] == by_name["demo"]["key_id"]]
    assert [entry["target"] for entry in own if entry["action"] == "key.revoke"] == [made["key_id"]]
    assert "key.revoke" in say("audit")


def test_a_key_of_one_study_that_expires_is_made_listed_and_shown(desk: Desk, say: Say) -> None:
    study = desk.ask("study", "create", "guests", str(write_plan(desk.folder)))["study_id"]
    create = ("key", "create", "--scope", "viewer", "--name", "guest", "--json")
    made = json.loads(say(*create, "--study", "guests", "--expires", "90d"))
    assert made["study_id"] == study
    left = datetime.fromisoformat(made["expires"]) - datetime.now(UTC)
    assert timedelta(days=89) < left <= timedelta(days=90)
    (line,) = (each for each in say("key", "list").split("\n") if "guest" in each)
    assert study[:12] in line
    assert made["expires"][:10] in line
    own = json.loads(say("key", "show", "--key", made["key"], "--json"))
    assert (own["scope"], own["study_id"]) == ("viewer", study)
    assert "guest" in say("key", "show", "--key", made["key"])
    listed = json.loads(say("study", "list", "--key", made["key"], "--json"))
    assert [each["name"] for each in listed] == ["guests"]
    year = datetime.now(UTC).year
    day = json.loads(say(*create, "--expires", f"{year + 1}-01-31"))
    assert day["expires"] == f"{year + 1}-01-31T00:00:00.000000Z"
    for late in ("0d", "soon"):
        assert "--expires" in say(*create, "--expires", late, status=2)
    for late in ("2020-01-31", f"{year + 11}-01-01", "999999w"):
        said = say(*create, "--expires", late, status=2)
        assert "must be in the future, and at most 10 years" in said
    say("study", "delete", study, "--confirm", "guests")


def test_a_key_that_may_not_publish_is_told_so_whatever_the_plan(desk: Desk, say: Say) -> None:
    made = json.loads(say("key", "create", "--scope", "analyst", "--name", "bob", "--json"))
    plan = str(write_plan(desk.folder))
    study = json.loads(say("study", "create", "first", plan, "--json"))["study_id"]
    said = say("study", "create", "second", plan, "--key", made["key"], status=2)
    assert "must carry a key of scope operator, and this one has analyst" in said
    say("study", "delete", study, "--confirm", "first")


@pytest.fixture
def other(desk: Desk) -> str:
    created = desk.ask("study", "create", "other", str(write_plan(desk.folder)))
    return str(created["study_id"])


def write_plan(folder: Path) -> Path:
    path = folder / "plan.json"
    spec = Path(__file__).parents[2] / "deploy/demo/plan.toml"
    done = run_inside(command.main, ["plan", "new", str(spec)])
    assert done.returncode == 0, done.stderr
    path.write_text(done.stdout, encoding="utf-8")
    return path


def test_a_study_is_closed_opened_shown_and_deleted(desk: Desk, other: str) -> None:
    assert "is closed; accepts sketches" in desk.run("study", "close", other, "--accept-for", "2")
    assert "closed; accepts sketches" in desk.run("study", "show", other)
    assert desk.ask("study", "open", other)["state"] == "open"
    assert "nothing was refused" in desk.run("sketch", "refusals", other)
    desk.run("study", "delete", other, "--confirm", "wrong", status=2)
    assert "is withdrawn" in desk.run("study", "delete", other, "--confirm", "other")
    desk.run("study", "show", other, status=2)


def test_the_help_of_every_command_has_an_example_and_json(say: Say) -> None:
    commands = [
        *(("study", verb) for verb in ("create", "list", "show", "open", "close", "delete")),
        *(("study", verb) for verb in ("tokens", "revoke-token")),
        *(("device", verb) for verb in ("list", "show", "revoke", "exclude")),
        *(("sketch", verb) for verb in ("import", "list", "refusals")),
        *(("decode", verb) for verb in ("start", "show", "watch", "cancel")),
        *(("key", verb) for verb in ("create", "list", "revoke")),
        ("decode", "STUDY"),
        ("audit",),
    ]
    lacking = []
    for words in commands:
        text = " ".join(say(*words, "--help").split())
        expected = ("Example", f"sfumato {' '.join(words)}", "--json")
        lacking += [(words, each) for each in expected if each not in text]
    assert lacking == []
