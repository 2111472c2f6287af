"""Comparisons of sums of Fourier sketches: whether, when and how records have changed.

Everything here is post-processing of released sketches: it costs no privacy.
"""
