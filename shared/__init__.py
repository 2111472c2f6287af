"""Code that device and aggregator share: the mathematics, the plan and the wire format.

Every package of the tree may import it. It imports none of them, and needs only numpy, cbor2
and cryptography.
"""

__version__ = "0.1.0"
