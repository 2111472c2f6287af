"""The default decoder: Gaussian mixtures fitted to the sketch, then k-means on their samples."""
