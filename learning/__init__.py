"""Mathematics of learning from sketches: pure, over numpy, scipy and ``shared`` alone."""
