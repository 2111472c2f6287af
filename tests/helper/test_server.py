"""The helper as a process: its interface, its refusals, and kills at any time."""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest

from sfumato.helper.keys import KeyFolder
from sfumato.helper.tables import open_database
from sfumato.shared.cbor import decode_deterministic
from sfumato.shared.command import main
from sfumato.shared.plan import compute_plan_digest, plan_from_json, plan_to_json
from sfumato.shared.sharing.batches import compute_members, compute_report
from sfumato.shared.wire.sum_messages import (
    SUM_MEDIA_TYPE,
    CommitRequest,
    ReportsRequest,
    SumAnswer,
)
from tests.device_agent.test_full_disk import fill, small_disk  # noqa: F401 - a fixture
from tests.forking import Forked, run_forked
from tests.helper.conftest import World
from tests.shared.sharing.samples import SPEC, make_draft

PROGRAM = (
    "import sys; from sfumato.shared.command import main; sys.exit(main(['helper', *sys.argv[1:]]))"
)
CBOR = {"Content-Type": SUM_MEDIA_TYPE}


@dataclass(frozen=True, kw_only=True)
class Done:
    """The output of a command."""

    stdout: str
    stderr: str


def run(folder: Path, *arguments: str, status: int = 0) -> Done:
    """Run a command in this process, which takes a tenth of the time of one of its own."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), redirect_stdout(out), redirect_stderr(err):
        done = main(["helper", *arguments])
    assert done == status, err.getvalue()
    return Done(stdout=out.getvalue(), stderr=err.getvalue())


@contextmanager
def serving(
    folder: Path, process_type: type[subprocess.Popen[str]] = Forked, *options: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-c", PROGRAM, "serve", "--port", "0", *options]
    with process_type(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("The helper is listening on "), line
        try:
            yield process, line.split(" ")[-1].strip()
        finally:
            process.kill()


class Operated(World):
    """A helper that commands have set up, and whose reports are of the present."""

    def __post_init__(self) -> None:
        run(self.folder, "identity")
        self.secret = run(self.folder, "key", "--name", "A server").stdout.strip()
        draft = self.folder / "draft.json"
        draft.write_text(json.dumps(plan_to_json(self.draft)))
        run(self.folder, "accept", str(draft), "--name", "Us", "--out", "plan.json", "--yes")
        self.plan = plan_from_json(json.loads((self.folder / "plan.json").read_text()))
        self.digest = compute_plan_digest(self.plan)
        self.keys = KeyFolder(self.folder / "helper-keys")
        self.headers = {"Authorization": f"Bearer {self.secret}", **CBOR}


@pytest.fixture
def operated(tmp_path: Path) -> Operated:
    # The current slot is number 0.
    window = replace(SPEC.window, origin=int(time.time()) - 60)
    return Operated(folder=tmp_path, address="", draft=make_draft(window=window))


def test_a_key_and_a_known_media_type_are_needed(operated: Operated) -> None:
    path = f"/v1/batches/{operated.key().batch_id.hex()}/commit"
    own: type[subprocess.Popen[str]] = subprocess.Popen  # as an operator starts it
    with serving(operated.folder, own) as (_, url), httpx.Client(base_url=url) as client:
        helper = client.get("/v1/helper").json()
        none = client.post(path, content=b"x", headers=CBOR)
        wrong = client.post(path, content=b"x", headers={**CBOR, "Authorization": "Bearer sfh_x"})
        typed = client.post(
            path, content=b"x", headers={"Authorization": f"Bearer {operated.secret}"}
        )
        broken = client.post(path, content=b"x", headers=operated.headers)
        empty = client.post(path, content=b"", headers=operated.headers)
        unknown = client.post(
            path,
            content=CommitRequest(members=bytes(32), count=0).encode(),
            headers=operated.headers,
        )
        large = client.post(path, content=bytes(9 << 20), headers=operated.headers)

    assert helper["identity"] == operated.identity.hex()
    assert helper["plans"] == [operated.digest.hex()]
    assert (none.status_code, wrong.status_code) == (401, 401)
    assert "sfumato helper key" in none.json()["fix"]
    assert (typed.status_code, broken.status_code, empty.status_code) == (415, 400, 400)
    assert (unknown.status_code, large.status_code) == (404, 413)
    assert unknown.json()["field"] == "batch"


def test_one_answer_ever_leaves_a_helper_that_is_killed_at_any_time(operated: Operated) -> None:
    reports = operated.reports(4)
    key = operated.key()
    path = f"/v1/batches/{key.batch_id.hex()}"
    asked = CommitRequest(
        members=compute_members(compute_report(each.data) for each in reports), count=4
    ).encode()
    seen: list[bytes] = []

    def ask(url: str) -> None:
        try:
            sent = ReportsRequest(batch=key, headers=tuple(each.data for each in reports))
            checked = httpx.put(
                f"{url}{path}/reports", content=sent.encode(), headers=operated.headers, timeout=60
            )
            assert set(decode_deterministic(checked.content, what="verdicts")) <= {
                "accepted",
                "closed",
            }
            answer = httpx.post(
                f"{url}{path}/commit", content=asked, headers=operated.headers, timeout=60
            )
        except httpx.TransportError:
            return
        assert answer.status_code == 200
        seen.append(answer.content)

    for delay in (0.0, 0.05, 0.1, 0.2, 0.6):
        with serving(operated.folder) as (process, url):
            asking = threading.Thread(target=ask, args=(url,))
            asking.start()
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
            process.wait()
            asking.join()
    with serving(operated.folder) as (_, url):
        ask(url)
        ask(url)

    assert len(seen) >= 2
    assert len(set(seen)) == 1
    assert SumAnswer.decode(seen[0], operated.identity).count == 4
    journal = (operated.folder / "helper.journal").read_text()
    assert journal.count(key.batch_id.hex()) == 1


def test_a_restored_helper_does_not_start(operated: Operated) -> None:
    folder = operated.folder
    (folder / "helper.db").rename(folder / "lost.db")
    run(folder, "restored")
    (folder / "helper.db").unlink()
    (folder / "lost.db").rename(folder / "helper.db")

    refused = run(folder, "serve", "--port", "0", status=2)

    assert "a backup was restored" in refused.stderr
    assert "sfumato helper restored" in refused.stderr


def test_an_address_that_others_reach_needs_a_certificate(operated: Operated) -> None:
    refused = run(operated.folder, "serve", "--host", "0.0.0.0", "--port", "0", status=2)

    assert "host: 0.0.0.0 can be reached from other machines" in refused.stderr


def test_a_draft_that_cannot_be_read_and_a_file_that_exists_are_refused(
    operated: Operated,
) -> None:
    folder = operated.folder
    (folder / "broken.json").write_text("{")

    broken = run(folder, "accept", "broken.json", "--name", "A", "--out", "b.json", status=2)
    again = run(folder, "accept", "draft.json", "--name", "A", "--out", "plan.json", status=2)
    accepted = run(
        folder, "accept", "plan.json", "--name", "A", "--out", "c.json", "--yes", status=2
    )

    assert "cannot be read as JSON" in broken.stderr
    assert "out: exists already" in again.stderr
    assert "must be a draft of a secure sum" in accepted.stderr
    assert not (folder / "c.json").exists()


def test_commands_list_and_retire_plans(operated: Operated) -> None:
    digest = operated.digest.hex()

    before = json.loads(run(operated.folder, "plans", "--json").stdout)
    run(operated.folder, "retire", digest, "--keys", "helper-keys")
    after = json.loads(run(operated.folder, "plans", "--json").stdout)

    assert [each["digest"] for each in before] == [digest]
    assert before[0]["retired"] is None
    assert after[0]["retired"] is not None
    assert not (operated.folder / "helper-keys" / f"{digest}.key").exists()


def test_the_database_of_a_helper_is_closed_to_others_and_an_open_one_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, before = tmp_path / "helper.db", os.umask(0)
    try:
        for mode in (0o600, 0o644):
            engine = open_database(str(path))
            with engine.connect():
                modes = {each.stat().st_mode & 0o777 for each in tmp_path.glob("helper.db*")}
            engine.dispose()
            assert modes <= {mode, 0o600}
            path.chmod(0o644)
    finally:
        os.umask(before)
    (warned,) = caplog.messages
    assert f"chmod 600 {path}*" in warned


def prepare(operated: Operated) -> tuple[str, list[tuple[str, str, bytes]]]:
    """Return a batch, and the two requests that bring its reports and ask for its sum."""
    reports, key = operated.reports(4), operated.key()
    path = f"/v1/batches/{key.batch_id.hex()}"
    sent = ReportsRequest(batch=key, headers=tuple(each.data for each in reports))
    members = compute_members(compute_report(each.data) for each in reports)
    asked = CommitRequest(members=members, count=4)
    return key.batch_id.hex(), [
        ("PUT", f"{path}/reports", sent.encode()),
        ("POST", f"{path}/commit", asked.encode()),
    ]


def test_a_full_disk_is_named_and_once_there_is_room_the_same_question_gets_its_one_answer(
    operated: Operated,
) -> None:
    batch, steps = prepare(operated)
    with serving(operated.folder) as (process, url):
        http = httpx.Client(base_url=url, headers=operated.headers, timeout=60)
        journal = operated.folder / "helper.journal"
        answers = []
        for method, where, content in steps:
            _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
            whole = journal.read_bytes() if journal.exists() else b""
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (4096, hard))
            for _ in range(2):
                full = http.request(method, where, content=content)
                assert (full.status_code, full.headers["retry-after"]) == (503, "10"), full.text
                assert "cannot be written" in full.json()["detail"]
                assert "free space" in full.json()["fix"]
            assert (journal.read_bytes() if journal.exists() else b"") == whole
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (hard, hard))
            answers.append(http.request(method, where, content=content))
        answers.append(http.request(*steps[1][:2], content=steps[1][2]))
        http.close()
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert answers[1].content == answers[2].content
    assert SumAnswer.decode(answers[1].content, operated.identity).count == 4
    assert journal.read_text().count(batch) == 1


def test_a_key_that_does_not_fit_the_disk_is_named_and_no_file_is_left_of_it(
    operated: Operated,
) -> None:
    window = replace(SPEC.window, origin=int(time.time()) - 120)
    (operated.folder / "other.json").write_text(json.dumps(plan_to_json(make_draft(window=window))))
    keys = sorted(operated.folder.glob("helper-keys/*"))
    accept = ["accept", "other.json", "--name", "Us", "--out", "other-plan.json", "--yes"]
    for n_bytes in (0, 1):
        # A system writes what fits, and calls that no error.
        limit = f"resource.setrlimit(resource.RLIMIT_FSIZE, ({n_bytes}, {n_bytes}))"
        command = [sys.executable, "-c", f"import resource; {limit}\n{PROGRAM}", *accept]
        done = run_forked(command, folder=operated.folder)
        assert done.returncode == 1, done.stderr
        assert "cannot be written" in done.stderr
        assert "Traceback" not in done.stderr
        assert sorted(operated.folder.glob("helper-keys/*")) == keys
    run(operated.folder, *accept)


def test_a_line_that_does_not_fit_the_journals_disk_is_asked_for_again(
    operated: Operated,
    small_disk: Path,  # noqa: F811
) -> None:
    batch, ((_, reports, sent), (_, commit, asked)) = prepare(operated)
    journal = small_disk / "helper.journal"
    with serving(operated.folder, Forked, "--journal", str(journal)) as (_, url):
        http = httpx.Client(base_url=url, headers=operated.headers, timeout=60)
        assert http.put(reports, content=sent).status_code == 200
        ballast = fill(small_disk)
        full = http.post(commit, content=asked)
        assert (full.status_code, full.headers["retry-after"]) == (503, "10"), full.text
        assert "free space" in full.json()["fix"]
        ballast.unlink()
        answers = [http.post(commit, content=asked) for _ in range(2)]
        http.close()
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].content == answers[1].content
    assert journal.read_text().count(batch) == 1
