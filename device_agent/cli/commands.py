"""The commands: each calls one use case and shows its report."""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from device_agent.cli import EXIT_WAITING, exit_status
from device_agent.settings import Settings, load_settings
from shared.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from shared.wire import EnrolmentCode


def run(options: SimpleNamespace) -> int:
    """Run the command that was asked for and return the exit status."""
    if options.command == "init":
        return _print_config(options) if options.print_config else _init(options)
    if options.command == "run":
        return _run(options)
    settings = load_settings(options.config)
    match options.command:
        case "check":
            return _check(settings)
        case "once":
            return _once(settings, options)
        case "status":
            return _status(settings, options)
        case "export":
            return _export(settings, options)
        case "resume":
            return _resume(settings, options)
        case "rotate-key":
            return _rotate_key(settings, options)
        case "forget":
            return _forget(settings, options)
        case _:
            return _budget(settings, options)


def _print_config(options: SimpleNamespace) -> int:
    from device_agent.cli.sample import fill_sample

    code = None if options.code is None else _read_code(_read_secret(options.code))
    texts = {
        "server": code and code.server,
        "study": code and code.study.hex(),
        "path": options.csv,
        "timestamp": options.timestamp,
    }
    print(fill_sample(texts, labels=dict(options.label), columns=dict(options.column)), end="")
    return 0


def _init(options: SimpleNamespace) -> int:
    from device_agent.agent.code import load_settings_with_code
    from device_agent.agent.enrol import enrol_device
    from shared.wire import is_enrolment_code

    token = _read_secret(options.code or options.token)
    if options.code is None and not is_enrolment_code(token):
        settings = load_settings(options.config)
    else:
        code = _read_code(token)
        settings, token = load_settings_with_code(options.config, code), code.token
    report = enrol_device(settings, token=token, clock=time.time)
    if warning := settings.describe_server():
        print(f"sfumato-agent: warning: {warning}", file=sys.stderr)
    done = "was enrolled already" if report.was_enrolled else "is enrolled"
    print(f"device {report.device.hex()} {done} in study {report.study.hex()}")
    print(report.plan.mechanism.guarantee.describe())
    return 0


def _read_secret(text: str) -> str:
    """Return an argument; - is a line of standard input, which no list of processes shows."""
    return sys.stdin.readline().strip() if text == "-" else text


def _read_code(text: str) -> EnrolmentCode:
    from shared.wire import decode_enrolment_code

    return decode_enrolment_code(text)


def _check(settings: Settings) -> int:
    from device_agent.agent.check import check_device

    status = 0
    for finding in check_device(settings, clock=time.time):
        if finding.error is not None:
            print(f"FAIL  {finding.error}")
            print(f"sfumato-agent: error: {finding.error}", file=sys.stderr)
            status = status or exit_status(finding.error)
            continue
        print(f"ok    {finding.text}")
        # Values are for whoever sits here; a file or pipe may be kept or sent on.
        if sys.stdout.isatty():
            for i, record in enumerate(finding.values, start=1):
                print(f"      record {i}: {record}")
    return status


def _once(settings: Settings, options: SimpleNamespace) -> int:
    from device_agent.agent.once import run_once
    from device_agent.cli.tables import show_once

    report = run_once(
        settings, send=not options.no_send, send_for_s=options.send_for, clock=time.time
    )
    if options.json:
        _print_json(report.to_json())
    else:
        print(show_once(report, settings.budget))
    for error in report.errors:
        print(f"sfumato-agent: error: {error}", file=sys.stderr)
    if report.errors:
        # A forbidden release matters more than an unreadable file beside it.
        return max(exit_status(error) for error in report.errors)
    return EXIT_WAITING if report.unsent else 0


def _run(options: SimpleNamespace) -> int:
    from device_agent.agent.run import run_daemon

    try:
        run_daemon(lambda: load_settings(options.config), clock=time.time)
    except StoreError as error:
        if not isinstance(error.__cause__, (sqlite3.OperationalError, OSError)):
            raise
        # As on a full disk: that may pass, and whoever has started us should do so again.
        print(f"sfumato-agent: error: {error}", file=sys.stderr)
        return EXIT_WAITING
    return 0


def _export(settings: Settings, options: SimpleNamespace) -> int:
    from device_agent.agent.maintenance import export_sketch

    n_bytes = export_sketch(
        settings, stream=options.stream, sequence=options.sequence, path=options.to
    )
    print(f"wrote {n_bytes} bytes to {options.to}; the sketch is still in the outbox")
    return 0


def _resume(settings: Settings, options: SimpleNamespace) -> int:
    from device_agent.agent.maintenance import lift_suspension
    from device_agent.cli.arguments import RESUME_WARNING

    if not options.i_understand:
        raise ConfigError(RESUME_WARNING, field="--i-understand", fix="add it if you agree")
    reason = lift_suspension(settings, stream=options.stream)
    print(f"stream {options.stream} goes on; it was suspended: {reason}")
    return 0


def _rotate_key(settings: Settings, options: SimpleNamespace) -> int:
    from device_agent.agent.rotation import rotate_key
    from device_agent.cli.tables import show_rotation

    report = rotate_key(settings, clock=time.time)
    if options.json:
        _print_json(report.to_json())
    else:
        print(show_rotation(report))
    return 0


def _forget(settings: Settings, options: SimpleNamespace) -> int:
    from device_agent.agent.maintenance import forget_device
    from device_agent.cli.arguments import FORGET_WARNING

    confirmed = options.records_may_be_released_again or not options.also_the_ledger
    if not options.yes or not confirmed:
        missing = "--yes" if confirmed else "--yes --records-may-be-released-again"
        raise ConfigError(FORGET_WARNING, field=missing, fix="add it if you agree")
    report = forget_device(settings, also_the_ledger=options.also_the_ledger)
    kept = "erased" if options.also_the_ledger else "kept"
    print(
        f"forgotten; {report.n_unsent} sketch(es) were never sent; "
        f"{report.n_entries} entry(ies) of the ledger {kept}"
    )
    return 0


def _status(settings: Settings, options: SimpleNamespace) -> int:
    from device_agent.agent.report import report_status
    from device_agent.cli.tables import show_status

    report = report_status(settings)
    if options.json:
        _print_json(report.to_json())
    else:
        print(show_status(report))
    return 0


def _budget(settings: Settings, options: SimpleNamespace) -> int:
    from device_agent.agent.report import report_budget
    from device_agent.cli.tables import show_budget

    report = report_budget(settings)
    if options.json:
        _print_json(report.to_json())
    else:
        print(show_budget(report))
    return 0


def _print_json(document: dict[str, Any]) -> None:
    print(json.dumps(document))
