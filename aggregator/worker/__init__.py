"""Decoding processes: they lease decodes from the database, solve them and store the answer.

Importable by app, cli and tests. `python -m aggregator.worker` is one such process.
"""

from aggregator.worker.loop import Worker
from aggregator.worker.process import run_worker
from aggregator.worker.supervisor import WorkerProcesses

__all__ = ["Worker", "WorkerProcesses", "run_worker"]
