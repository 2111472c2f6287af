"""Jobs: their requests, the queue for workers, their results, and published results."""
