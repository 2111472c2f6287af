"""Simulated fleets: try a plan with any number of devices before it is published.

Devices and server run the code that they run for real, in one process each and without a network:
windows, sums, noise, signed messages, checks, running sums, decoding. Only keys, times and records
are made up.
"""
