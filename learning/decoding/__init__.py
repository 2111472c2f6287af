"""Recovering centroids from a global sketch: problem, solver, solution.

Pure mathematics on NumPy and SciPy: no framework, no input or output, no clock, no global
randomness. May be imported by `aggregator.services`, by the wiring, by `benchmarks` and by tests;
imports nothing of the rest of `aggregator`.
"""
