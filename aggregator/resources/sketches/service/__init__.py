"""Sketches: receive, check, store in groups, and merge into running sums."""
