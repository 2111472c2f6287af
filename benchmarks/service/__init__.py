"""What the aggregator can take, and how fast it answers, as the processes that an operator runs.

Run as ``python -m benchmarks.service [--quick] [--json] [--case TEXT]``. Server, load client and
database share this machine, so every figure stands beside what the client used of it, and beside a
bare endpoint of the same web stack that verifies the same signatures and stores nothing.
"""

from benchmarks.service.cases import NAME, measure

__all__ = ["NAME", "measure"]
