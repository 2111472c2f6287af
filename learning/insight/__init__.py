"""What else the sums of Fourier sketches answer: whether, when and how records have changed.

Everything here is post-processing of released sketches: it costs no privacy.
"""
