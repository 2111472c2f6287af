"""A worker process as `sfumato serve` starts it; settings come from the environment."""

from __future__ import annotations

import argparse
import asyncio
import sys

from sfumato.aggregator.logs import configure_logging
from sfumato.aggregator.settings import Settings
from sfumato.aggregator.worker.process import run_worker
from sfumato.shared.errors import SketchError
from sfumato.shared.system import share_one_heap


def main() -> int:
    """Run one worker until a signal."""
    parser = argparse.ArgumentParser(
        prog="python -m sfumato.aggregator.worker", description=__doc__
    )
    parser.add_argument("--parent", type=int, help="stop when this process is gone")
    arguments = parser.parse_args()
    settings = Settings()
    configure_logging(settings.log_format)
    share_one_heap()
    try:
        asyncio.run(run_worker(settings, parent=arguments.parent))
    except SketchError as error:
        sys.stderr.write(f"sfumato: error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
