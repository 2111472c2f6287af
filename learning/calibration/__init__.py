"""Calibration: bounds, scale and search box of a study from the noised histogram of a pilot."""
