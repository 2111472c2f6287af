"""Commands inside this process: a process for each would load every library again, for a second."""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

Main = Callable[[Sequence[str]], int]


def run_inside(
    main: Main, arguments: Sequence[str], environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Call the entry point of a command, and return what its process would have.

    Parameters
    ----------
    environment
        Variables beside those of this process; none that is set here outlives the command.
    """
    output, complaints = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, environment or {}),
        redirect_stdout(output),
        redirect_stderr(complaints),
    ):
        status = main(list(arguments))
    return subprocess.CompletedProcess(
        list(arguments), status, output.getvalue(), complaints.getvalue()
    )
