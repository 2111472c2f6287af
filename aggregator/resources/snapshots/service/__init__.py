"""Snapshots, and the answers that need no decoding."""
