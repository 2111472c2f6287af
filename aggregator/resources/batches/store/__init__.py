"""The store of batches: their table, and the statements on batches and reports."""
