"""The store of sketches: their tables, the running sums, and the statements on them."""
