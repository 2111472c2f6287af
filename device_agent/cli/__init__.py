"""The `sfumato-agent` command: arguments in, exit status and text out."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.shared.errors import SketchError

EXIT_REFUSED = 2
EXIT_BUDGET = 3
EXIT_DEFECT = 70
EXIT_WAITING = 75
EXIT_INTERRUPTED = 130

# Read by libraries when they are loaded: buffers for threads that have nothing to do, and ciphers
# of the last century.
_SMALL = {"OPENBLAS_NUM_THREADS": "1", "CRYPTOGRAPHY_OPENSSL_NO_LEGACY": "1"}
# httpx loads its own command, with all that colours a terminal, wherever that is installed.
_UNUSED = "httpx._main"


def main(argv: Sequence[str] | None = None) -> int:
    """Run `sfumato-agent` and return its exit status.

    Parameters
    ----------
    argv
        The arguments after the program's name; those of the process when not given.
    """
    options = _parse(list(sys.argv[1:] if argv is None else argv))
    if isinstance(options, int):
        return options
    for name, value in _SMALL.items():
        os.environ.setdefault(name, value)
    sys.modules.setdefault(_UNUSED, None)  # type: ignore[arg-type]  # so an import fails
    # Imported late: help needs none of it, and the report commands no network library.
    from sfumato.device_agent.cli import commands
    from sfumato.shared.errors import SketchError

    try:
        return commands.run(options)
    except SketchError as error:
        return _complain(str(error), exit_status(error))
    except KeyboardInterrupt:
        return _complain("stopped; nothing is lost", EXIT_INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        return EXIT_DEFECT
    except Exception as error:
        from sfumato.device_agent.agent.monitoring import describe_defect

        return _complain(describe_defect(error), EXIT_DEFECT)


def _parse(argv: list[str]) -> SimpleNamespace | int:
    from sfumato.device_agent.cli.arguments import UsageError, parse_arguments

    try:
        return SimpleNamespace(**vars(parse_arguments(argv)))
    except UsageError as error:
        return _complain(str(error), EXIT_REFUSED)
    except SystemExit as request:  # argparse has shown help or version
        return int(request.code or 0)


def exit_status(error: SketchError) -> int:
    """Return the exit status of an error."""
    from sfumato.shared.errors import DiskError, PrivacyError, TransportError

    if isinstance(error, PrivacyError):
        return EXIT_BUDGET
    return EXIT_WAITING if isinstance(error, TransportError | DiskError) else EXIT_REFUSED


def worst_status(errors: Iterable[SketchError]) -> int:
    """Return the exit status of several errors; 0 without any.

    A forbidden release counts more than an unreadable file, and that more than what may pass.
    """
    found = {exit_status(error) for error in errors}
    return next(s for s in (EXIT_BUDGET, EXIT_REFUSED, EXIT_WAITING, 0) if s in found | {0})


def _complain(message: str, status: int) -> int:
    print("sfumato-agent: error:", " ".join(message.split()), file=sys.stderr)
    return status
