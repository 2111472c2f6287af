"""Worker processes: lease jobs from the database, solve them, store the answers.

Importable by app, cli and tests. `python -m sfumato.aggregator.worker` runs one.
"""

from sfumato.aggregator.worker.loop import Worker
from sfumato.aggregator.worker.process import run_worker
from sfumato.aggregator.worker.supervisor import run_workers

__all__ = ["Worker", "run_worker", "run_workers"]
