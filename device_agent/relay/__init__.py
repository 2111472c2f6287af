"""The relay: forwards finished, signed messages of other devices to the server, unchanged.

It holds no key, opens no ledger and reads no record.
"""
