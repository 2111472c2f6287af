"""From exact sums to the global sketch: totals, counts, weights, SNR, and the inverse problem."""
