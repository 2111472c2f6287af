"""Campaigns: studies that follow each other, each planned from the answer of the one before."""
