"""The decoder of the seed paper: point masses, found by matching pursuit."""
