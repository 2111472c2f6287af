"""Worker processes: lease jobs from the database, solve them, store the answers.

Importable by app, cli and tests. `python -m aggregator.worker` runs one.
"""

from aggregator.worker.loop import Worker
from aggregator.worker.process import run_worker
from aggregator.worker.supervisor import run_workers

__all__ = ["Worker", "run_worker", "run_workers"]
