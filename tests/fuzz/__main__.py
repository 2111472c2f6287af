"""Fuzz a parser, guided by coverage: ``python -m tests.fuzz message 1000000``.

The inputs begin from valid ones. It ends with status 0 after so many executions; at the first
exception that is none of the target's own it prints the input and ends with another. A folder as
third argument keeps what was new, so that a later run goes on from there.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

# Whatever is imported in here tells the fuzzer which lines an input reaches.
with atheris.instrument_imports(
    include=[
        "shared",
        "tests.fuzz.targets",
    ]
):
    from tests.fuzz.targets import TARGETS

_MOST_BYTES = 4096
_MOST_MB = 8192


def main(arguments: list[str]) -> None:
    """Fuzz; the fuzzer ends the process itself."""
    if len(arguments) not in (2, 3) or arguments[0] not in TARGETS:
        sys.exit(f"usage: python -m tests.fuzz {{{','.join(TARGETS)}}} EXECUTIONS [FOLDER]")
    target, n_runs = TARGETS[arguments[0]], int(arguments[1])
    folder = Path(arguments[2] if len(arguments) == 3 else tempfile.mkdtemp(prefix="sfumato-fuzz-"))
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(target.seeds()):
        (folder / f"seed{number}").write_bytes(seed)
    # Where a parser is not Python the fuzzer sees no lines: what is valid is kept all the same.
    # The fuzzer keeps the result of every comparison of arrays: of plans, gigabytes in a million.
    options = [
        f"-rss_limit_mb={_MOST_MB}",
        f"-atheris_runs={n_runs}",
        f"-max_len={_MOST_BYTES}",
        "-seed=1",
        "-keep_seed=1",
    ]
    findings = f"-artifact_prefix={folder}/"
    atheris.Setup([sys.argv[0], *options, findings, str(folder)], target.parse)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
