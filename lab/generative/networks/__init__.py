"""Small generative networks whose gradients are sums of whole numbers, so that noise is exact."""
