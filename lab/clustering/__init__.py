"""Reference methods under local privacy: one round, one report a record, no trusted party.

They exist to be compared with. Each is epsilon-local differentially private: any two records of a
device give any report with odds of at most exp(epsilon), which is certified on integers.
"""

from sfumato.lab.clustering.hashing_tree import HashingTree
from sfumato.lab.clustering.local_method import LocalMethod, Tally
from sfumato.lab.clustering.unary_grid import UnaryGrid

__all__ = ["HashingTree", "LocalMethod", "Tally", "UnaryGrid"]
