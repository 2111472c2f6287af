"""Private clustering by the methods of the literature, for comparison with sketches."""
