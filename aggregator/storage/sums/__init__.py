"""Exact sums over ranges of slots and label sets: cells, and the order in which they are summed.

Integers and bytes alone: no database, no clock. ``statements`` reads and writes the cells.
"""
