"""The process of the load client: ``python -m benchmarks.service.client JOB RESULT``."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import uvloop

from benchmarks.service.load import run_job


def main() -> None:
    """Read a job from a file, run it, and write what came of it to another."""
    job = pickle.loads(Path(sys.argv[1]).read_bytes())
    outcome = uvloop.run(run_job(job))
    Path(sys.argv[2]).write_bytes(pickle.dumps(outcome))


if __name__ == "__main__":
    main()
