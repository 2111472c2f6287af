"""Synthetic records from what was released: post-processing, at no further cost of privacy."""
