"""Commands for people who publish studies, sketch files and read results.

``sfumato plan | study | device | decode | sketch``, reached through the entry points of
``sfumato``; the connection is named by ``SFUMATO_URL`` and ``SFUMATO_KEY``, or by ``--url`` and
``--key``.
"""

from __future__ import annotations

from analyst.cli import decodes, devices, sketches, studies
from analyst.cli.options import run_app
from analyst.planning.cli import app as plan_app
from analyst.sketching.cli import choose_app


def plan(argv: list[str]) -> int:
    """Make a plan from a short specification, or explain one."""
    return run_app(plan_app, "sfumato plan", argv)


def study(argv: list[str]) -> int:
    """Publish, list, open, close and delete studies; make, list and revoke enrolment tokens."""
    return run_app(studies.app, "sfumato study", argv)


def device(argv: list[str]) -> int:
    """List devices, and exclude or revoke one."""
    return run_app(devices.app, "sfumato device", argv)


def decode(argv: list[str]) -> int:
    """Recover the centroids of a study, at once, or start, watch and cancel a decode."""
    if argv and argv[0] in decodes.COMMANDS:
        return run_app(decodes.commands, "sfumato decode", argv)
    return run_app(decodes.app, "sfumato decode", argv)


def sketch(argv: list[str]) -> int:
    """Sketch a file of records into one private file; take in and list devices' sketches."""
    if argv and argv[0] in sketches.COMMANDS:
        return run_app(sketches.app, "sfumato sketch", argv)
    app, arguments = choose_app(argv)
    return run_app(app, f"sfumato sketch{' show' if arguments is not argv else ''}", arguments)
