"""The helper: the second server of a secure sum, run by another organisation than the first.

It holds the seeds of masks and never a masked sum. For a batch of reports it answers once, with the
sum of their masks plus one full noise of the plan's mechanism. Read in this order: ``tables``,
``journal``, ``batches``, ``app``, ``cli``.
"""
