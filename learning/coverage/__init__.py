"""The greedy cover and the averages of private max cover, for many clusters in many dimensions.

After Nguyen, Chaturvedi and Xu, "Differentially Private k-Means via Exponential Mechanism and Max
Cover" (2021). Records are projected on few dimensions; grid points that cover many records within a
radius are chosen one after the other, and what they cover leaves; the chosen points are clustered
by noisy counts (``sfumato.learning.clustering.cover``); clusters are averaged in all dimensions
with Gaussian noise.
"""
