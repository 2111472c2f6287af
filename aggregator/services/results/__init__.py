"""Results: snapshots, decodes, and the queue of decodes for workers."""
