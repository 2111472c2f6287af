"""Exact sums over ranges of slots and label sets, as integers and bytes.

No database and no clock: the store of sketches reads and writes the cells.
"""
