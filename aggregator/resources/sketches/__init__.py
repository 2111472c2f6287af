"""Sketches and the running sums over them."""
