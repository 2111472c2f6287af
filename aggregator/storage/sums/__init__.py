"""Exact sums over ranges of slots and label sets, as integers and bytes.

No database and no clock: ``statements`` reads and writes the cells.
"""
