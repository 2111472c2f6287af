"""Estimators of the methods of the literature."""
