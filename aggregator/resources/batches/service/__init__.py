"""Batches: joined by reports, closed, opened with the helper, checked, counted."""
