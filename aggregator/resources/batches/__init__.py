"""Batches of masked sums."""
