"""Capacity and latency of the aggregator, in the processes that an operator runs.

Run as ``python -m benchmarks.service [--quick] [--json] [--case TEXT]``. Server, load client and
database share this machine, so every figure is shown with the client's own use of it, and with a
bare endpoint of the same web stack that verifies the same signatures and stores nothing.
"""
