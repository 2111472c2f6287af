"""Commands: each calls one use case and shows its report."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from sfumato.device_agent.cli import EXIT_WAITING, worst_status
from sfumato.device_agent.settings.agent_settings import Settings, load_settings
from sfumato.shared.errors import ConfigError, SketchError

if TYPE_CHECKING:
    from sfumato.device_agent.agent.check import Finding
    from sfumato.device_agent.agent.dry_run import DryRun
    from sfumato.device_agent.agent.once import OnceReport
    from sfumato.shared.plan import SketchPlan


_WHOLE = ("once", "forget")
"""Commands about all phases of a campaign; the others are about the present one."""


def run(options: SimpleNamespace) -> int:
    """Run the command that was asked for and return the exit status."""
    if options.command == "init":
        if options.guess is not None:
            return _guess(options)
        return _print_config(options) if options.print_config else _init(options)
    if options.command == "run":
        return _run(options)
    if options.command == "relay":
        return _relay(options)
    commands = {
        "check": _check,
        "once": _once,
        "pull": _pull,
        "cluster": _cluster,
        "status": _status,
        "budget": _budget,
        "export": _export,
        "resume": _resume,
        "rotate-key": _rotate_key,
        "forget": _forget,
    }
    settings = load_settings(options.config)
    if options.command not in _WHOLE:
        from sfumato.device_agent.agent.campaign import find_present

        settings = find_present(settings)
    return commands[options.command](settings, options)


def _print_config(options: SimpleNamespace) -> int:
    from sfumato.device_agent.cli.sample import fill_sample
    from sfumato.shared.wire import decode_enrolment_code

    code = None if options.code is None else decode_enrolment_code(_read_secret(options.code))
    texts = {
        "server": code and code.server,
        "study": code and code.study.hex(),
        "path": options.csv,
        "timestamp": options.timestamp,
    }
    print(fill_sample(texts, labels=dict(options.label), columns=dict(options.column)), end="")
    return 0


def _guess(options: SimpleNamespace) -> int:
    from sfumato.device_agent.agent.guess import (
        LISTEN_S,
        guess_address,
        guess_file,
        guess_topic,
    )
    from sfumato.device_agent.cli.sample import show_guess
    from sfumato.shared.wire import decode_enrolment_code

    code = None if options.code is None else decode_enrolment_code(_read_secret(options.code))
    given = {"server": code.server, "study": code.study.hex()} if code else {}
    if options.guess.startswith(("mqtt://", "mqtts://")):
        sys.stderr.write(f"listening for {LISTEN_S:g} s; Ctrl-C looks at what came until then\n")
        found = guess_topic(options.guess)
    elif options.guess.startswith(("https://", "http://")):
        found = guess_address(options.guess)
    else:
        found = guess_file(Path(options.guess))
    print(show_guess(found, given), end="")
    return 0


def _init(options: SimpleNamespace) -> int:
    from sfumato.device_agent.agent.campaign import find_present
    from sfumato.device_agent.agent.enrol import enrol_device, load_settings_with_code
    from sfumato.device_agent.agent.policy import describe_budget, describe_policy
    from sfumato.device_agent.settings.agent_settings import find_absent
    from sfumato.shared.plan import describe_helper, make_statement
    from sfumato.shared.wire import decode_enrolment_code, is_enrolment_code

    secret = options.code or options.token
    token = None if secret is None else _read_secret(secret)
    if token is None or (options.code is None and not is_enrolment_code(token)):
        settings, written = load_settings(options.config), []
    else:
        code = decode_enrolment_code(token)
        written = find_absent(options.config, ("server", "study"))
        settings, token = load_settings_with_code(options.config, code), code.token
    try:
        report = enrol_device(
            find_present(settings),
            token=token,
            clock=time.time,
            show=_show_joining,
            replaces=options.replaces,
        )
    except SketchError:
        if written:
            print(
                f"sfumato-agent: note: {' and '.join(written)} of the code stand in "
                f"{options.config} now",
                file=sys.stderr,
            )
        raise
    if warning := settings.describe_server():
        print(f"sfumato-agent: warning: {warning}", file=sys.stderr)
    done = "was enrolled already" if report.was_enrolled else "is enrolled"
    print(f"device {report.device.hex()} {done} in study {report.study.hex()}")
    if settings.name is None and not report.was_enrolled:
        print(f'to show it by a name instead, write at the top of {options.config}: name = "hall"')
    print(make_statement(report.plan).describe())
    if report.plan.sum_release is not None:
        print(f"helper: {describe_helper(report.plan.sum_release)}")
    print(describe_policy(settings))
    print(describe_budget(settings.limits))
    return 0


def _show_joining(run: DryRun, plan: SketchPlan) -> None:
    """Show the owner the records of a stream that would join."""
    from sfumato.device_agent.agent.dry_run_limits import find_questions
    from sfumato.device_agent.agent.membership import describe_unseen
    from sfumato.device_agent.cli.dry_run import show_dry_run

    if run.unseen:
        print(f"stream {run.stream}: {describe_unseen(run, plan)}")
    elif sys.stdout.isatty():
        print(f"stream {run.stream}: looked at its records")
        print(show_dry_run(run))
    else:
        print(f"stream {run.stream}: looked at its records; `sfumato-agent check` shows them")
    for question in find_questions(run, field=f"stream {run.stream}"):
        print(f"sfumato-agent: warning: {question}", file=sys.stderr)


def _read_secret(text: str) -> str:
    """Return an argument; - is a line of standard input, which no list of processes shows."""
    return sys.stdin.readline().strip() if text == "-" else text


def _check(settings: Settings, options: SimpleNamespace) -> int:
    from sfumato.device_agent.agent.check import check_device

    found = check_device(settings, clock=time.time)
    if options.json:
        return _check_as_json(found, values=options.values)
    from sfumato.device_agent.cli.dry_run import show_dry_run

    errors = []
    for finding in found:
        if finding.error is not None:
            print(f"FAIL  {finding.error}")
            print(f"sfumato-agent: error: {finding.error}", file=sys.stderr)
            errors.append(finding.error)
        # Values are for whoever sits here; a file or pipe may be kept or sent on.
        elif finding.is_for(is_terminal=sys.stdout.isatty(), is_asked=options.values):
            print(f"{'note' if finding.warns else 'ok':<4}  {finding.text}")
            if finding.run is not None:
                print(show_dry_run(finding.run))
    return worst_status(errors)


def _check_as_json(found: Iterable[Finding], *, values: bool) -> int:
    findings = [f for f in found if f.is_for(is_terminal=False, is_asked=values)]
    errors = [f.error for f in findings if f.error is not None]
    document = {
        "ok": not errors,
        "findings": [
            {"state": "note" if f.warns else "ok", "text": f.text}
            for f in findings
            if f.error is None
        ],
        "errors": [
            {"field": error.field, "rule": error.rule, "fix": error.fix} for error in errors
        ],
        "streams": [f.run.to_json() for f in findings if f.run is not None],
    }
    print(json.dumps(document))
    for error in errors:
        print(f"sfumato-agent: error: {error}", file=sys.stderr)
    return worst_status(errors)


def _once(settings: Settings, options: SimpleNamespace) -> int:
    from sfumato.device_agent.agent.once import run_phases

    reports = run_phases(
        settings,
        send=not options.no_send,
        send_for_s=options.send_for,
        clock=time.time,
        show=partial(print, "sfumato-agent: note:", file=sys.stderr, flush=True),
    )
    return max(_show_once(report, settings, options) for report in reports)


def _show_once(report: OnceReport, settings: Settings, options: SimpleNamespace) -> int:
    from sfumato.device_agent.cli.tables import show_once

    # A terminal shows values to whoever sits here; a file or pipe may be kept or sent on.
    shown = options.value_counts or (sys.stdout.isatty() and not report.hides_counts)
    print(
        json.dumps(report.to_json(value_counts=options.value_counts))
        if options.json
        else show_once(report, settings.limits, value_counts=shown)
    )
    for error in report.errors:
        print(f"sfumato-agent: error: {error}", file=sys.stderr)
    if report.errors:
        return worst_status(report.errors)
    return EXIT_WAITING if report.unsent else 0


def _run(options: SimpleNamespace) -> int:
    from sfumato.device_agent.agent.run import run_daemon

    loads = [partial(load_settings, path) for path in options.config or [Path("agent.toml")]]
    run_daemon(loads, clock=time.time)
    return 0


def _relay(options: SimpleNamespace) -> int:
    from sfumato.device_agent.cli.tables import show_relay
    from sfumato.device_agent.relay.run import relay_once, report_relay, run_relay
    from sfumato.device_agent.settings.relay_settings import load_relay_settings

    settings = load_relay_settings(options.config)
    if not (options.once or options.status):
        run_relay(settings, clock=time.time)
        return 0
    report = relay_once(settings, clock=time.time) if options.once else report_relay(settings)
    print(json.dumps(report.to_json()) if options.json else show_relay(report))
    return EXIT_WAITING if options.once and report.counts.waiting else 0


def _export(settings: Settings, options: SimpleNamespace) -> int:
    from sfumato.device_agent.agent.maintenance import export_sketch
    from sfumato.device_agent.cli.tables import describe_export

    report = export_sketch(
        settings,
        stream=options.stream,
        sequence=options.sequence,
        path=options.to,
        clock=time.time,
    )
    print(describe_export(report, options.to))
    return 0


def _resume(settings: Settings, options: SimpleNamespace) -> int:
    from sfumato.device_agent.agent.maintenance import lift_suspension
    from sfumato.device_agent.cli.arguments import RESUME_WARNING

    if not options.i_understand:
        raise ConfigError(RESUME_WARNING, field="--i-understand", fix="add it if you agree")
    reason = lift_suspension(settings, stream=options.stream)
    print(f"stream {options.stream} goes on; it was suspended: {reason}")
    return 0


def _rotate_key(settings: Settings, options: SimpleNamespace) -> int:
    from sfumato.device_agent.agent.exchange.rotation import rotate_key
    from sfumato.device_agent.cli.tables import show_rotation

    report = rotate_key(settings, clock=time.time)
    print(json.dumps(report.to_json()) if options.json else show_rotation(report))
    return 0


def _forget(settings: Settings, options: SimpleNamespace) -> int:
    from sfumato.device_agent.agent.campaign import list_phases
    from sfumato.device_agent.agent.maintenance import forget_device
    from sfumato.device_agent.cli.arguments import FORGET_WARNING
    from sfumato.device_agent.cli.tables import describe_forgetting

    confirmed = options.records_may_be_released_again or not options.also_the_ledger
    if not options.yes or not confirmed:
        missing = "--yes" if confirmed else "--yes --records-may-be-released-again"
        raise ConfigError(FORGET_WARNING, field=missing, fix="add it if you agree")
    phases = [settings]
    with suppress(SketchError):  # of a damaged state: what cannot be read is said below
        phases = list_phases(settings)
    for each in reversed(phases):
        # The first last: where one cannot be forgotten, the others are still found from it.
        whole = options.also_the_ledger and each is phases[0]
        report = forget_device(each, also_the_ledger=whole)
    print(describe_forgetting(report, is_ledger_kept=not options.also_the_ledger))
    return 0


def _pull(settings: Settings, options: SimpleNamespace) -> int:
    from sfumato.device_agent.cli.labels import pull

    return pull(settings, options)


def _cluster(settings: Settings, options: SimpleNamespace) -> int:
    from sfumato.device_agent.cli.labels import cluster

    return cluster(settings, options)


def _status(settings: Settings, options: SimpleNamespace) -> int:
    from sfumato.device_agent.agent.report import report_status
    from sfumato.device_agent.cli.tables import show_status

    report = report_status(settings)
    document = report.to_json(value_counts=options.value_counts)
    print(json.dumps(document) if options.json else show_status(report))
    return 0


def _budget(settings: Settings, options: SimpleNamespace) -> int:
    from sfumato.device_agent.agent.report import report_budget
    from sfumato.device_agent.cli.tables import show_budget

    report = report_budget(settings)
    print(json.dumps(report.to_json()) if options.json else show_budget(report))
    return 0
