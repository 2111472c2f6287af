"""State of the device: key, ledger, open windows and outbox, in one folder of mode 0700.

One SQLite file holds everything but the key, so that a release is one transaction. The store knows
nothing of sources, sketches or the network.
"""
