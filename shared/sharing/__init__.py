"""Additive shares modulo 2^(8w): masks of single sums, their seals, and the batches they add up to.

A device masks its exact sum, and seals the seed of the mask to a second server. Neither server can
read a sum alone; each adds noise of its own to its half of a batch, and only the noised total of
the batch is ever seen (``proofs.md``, section 12).
"""
