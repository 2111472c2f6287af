"""Recover centroids from a global sketch: problem, solver, solution.

Pure mathematics on NumPy and SciPy: no framework, no input or output, no clock, no global
randomness.
"""
