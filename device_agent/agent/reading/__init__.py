"""Reading of streams: a reader for each relation, and the release of windows."""
