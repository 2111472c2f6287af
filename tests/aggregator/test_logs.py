import json
import logging
from pathlib import Path
from typing import Literal

import pytest
import structlog
from sqlalchemy import text

from sfumato.aggregator.base.store import Store
from sfumato.aggregator.logs import configure_logging
from tests.aggregator.databases import open_kind
from tests.aggregator.serving import open_server

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("logging_of_the_test_run")]


async def fail_at_audits(store: Store) -> None:
    """Let the server fail at every request that writes into the audit log."""
    async with store.engine.begin() as connection:
        await connection.execute(
            text(
                "CREATE TRIGGER full BEFORE INSERT ON audit_entries "
                "BEGIN SELECT RAISE(ABORT, 'no'); END"
            )
        )


@pytest.mark.parametrize("log_format", ["console", "json"])
async def test_logs_hold_no_secret_even_when_the_server_fails(
    log_format: Literal["console", "json"], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_kind("sqlite", tmp_path) as store, open_server(store) as server:
        configure_logging(log_format)
        await fail_at_audits(store)
        answer = await server.desk.operate(
            "POST", "/v1/keys", {"name": "a name in the request", "scope": "enrol"}
        )
        assert answer.status_code == 500
    logged = capsys.readouterr().err
    assert "unforeseen error" in logged
    assert "IntegrityError" in logged
    for secret in ("sfk_", server.desk.operator_key[-40:], "a name in the request"):
        assert secret not in logged


def test_a_console_shows_control_characters_and_does_not_obey_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logging("console")
    structlog.get_logger().info("request", path="/v1/\x1b[2J\r\n\u202eé")
    try:
        raise ValueError("\x1b[2J")
    except ValueError as error:
        structlog.get_logger().error("unforeseen error", exc_info=error)
    logging.getLogger("uvicorn.error").warning("odd: %s", "\x07")
    logged = capsys.readouterr().err
    assert r"path=/v1/\x1b[2J\r\n\u202eé" in logged
    assert r"ValueError: \x1b[2J" in logged
    assert r"odd: \x07" in logged
    assert all(c.isprintable() or c == "\n" for c in logged)


async def test_every_line_of_a_request_has_the_id_that_its_answer_states(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_kind("sqlite", tmp_path) as store, open_server(store) as server:
        configure_logging("json")
        await fail_at_audits(store)
        key = {"name": "ana", "scope": "enrol"}
        answers = [
            await server.desk.operate("POST", "/v1/keys", key),
            await server.desk.http.get("/nowhere"),
        ]
    ids = [answer.headers["X-Request-Id"] for answer in answers]
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["event"], line["request_id"]) for line in lines] == [
        ("unforeseen error", ids[0]),
        ("request", ids[0]),
        ("request", ids[1]),
    ]
    assert ids[0] != ids[1]
