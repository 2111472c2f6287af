"""Sources of randomness that tests look into."""

from sfumato.shared.privacy.testing import SeededSource


class CountingSource:
    """A seeded source that counts what is taken from it."""

    def __init__(self, seed: int) -> None:
        self._source = SeededSource(seed)
        self.n_bytes = 0

    def draw_bytes(self, count: int) -> bytes:
        self.n_bytes += count
        return self._source.draw_bytes(count)
