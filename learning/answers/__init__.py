"""Answers of snapshots and sketch files as they are shown: every number with its error."""
