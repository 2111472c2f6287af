"""Reproducible figures: one module per claim, run as ``python -m benchmarks.NAME``.

It may import every package, none may import it, and it does not ship in the wheel.
"""
