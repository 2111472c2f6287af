"""Analyses: comparisons, timelines, groups and the health of devices, computed by workers."""
