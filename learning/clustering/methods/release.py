"""Releases of central methods: all that leaves the records, ready to be stored and read again."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from sfumato.learning.clustering.methods.contract import (
    Answer,
    Clusters,
    Floats,
    Integers,
    Method,
    Task,
)
from sfumato.learning.clustering.methods.registry import make_method
from sfumato.shared.container import decode_container, encode_container
from sfumato.shared.core.quantise import STEPS, Quantiser
from sfumato.shared.errors import MalformedMessageError

FORMAT = "sfumato-clusters"
VERSION = 2


@dataclass(frozen=True, kw_only=True, eq=False)
class ClusterRelease:
    """Answers of a method with the public numbers behind them.

    Parameters
    ----------
    method, task
        The method that asked, and what is public.
    lower, upper
        Shape ``(d,)``, the public bounds, data units.
    names
        Names of the columns.
    answers
        In the order asked.
    """

    method: Method
    task: Task
    lower: Floats
    upper: Floats
    names: tuple[str, ...]
    answers: tuple[Answer, ...]

    @property
    def design(self) -> dict[str, Any]:
        """What is public before the records: plain values."""
        return describe_design(self.method, self.task, self.lower, self.upper, self.names)

    @property
    def n_records(self) -> int | None:
        """Number of records; None where it is secret."""
        return self.task.n_records if self.task.is_counted else None

    @property
    def n_bytes(self) -> int:
        """Length of the encoding."""
        return len(self.encode())

    def encode(self) -> bytes:
        """Return the release as deterministic CBOR."""
        return encode_container(
            FORMAT,
            VERSION,
            {
                "design": self.design,
                "answers": [
                    {
                        "name": answer.name,
                        "asked": {key: _pack(array) for key, array in answer.asked.items()},
                        "values": _pack(answer.values),
                    }
                    for answer in self.answers
                ],
            },
        )

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the encoding."""
        return hashlib.sha256(self.encode()).digest()

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read a release.

        Raises
        ------
        MalformedMessageError, UnsupportedVersionError
            The bytes are none, are damaged, or of another version.
        """
        fix = "read the file that this program wrote"
        document = decode_container(data, FORMAT, VERSION, field="release", fix=fix)
        try:
            design = document["design"]
            found = cls(
                method=make_method(design["method"], design["settings"]),
                task=Task(**design["task"]),
                lower=np.array(design["lower"], dtype=np.float64),
                upper=np.array(design["upper"], dtype=np.float64),
                names=tuple(design["names"]),
                answers=tuple(
                    Answer(
                        name=each["name"],
                        asked={key: _unpack(array) for key, array in each["asked"].items()},
                        values=_unpack(each["values"]),
                    )
                    for each in document["answers"]
                ),
            )
            found._require_whole()
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise MalformedMessageError(
                "must be a release of clusters", field="release", fix=fix
            ) from error
        return found

    def _require_whole(self) -> None:
        """Refuse answers, bounds or names that are not those of the method and its task."""
        d = self.task.n_dimensions
        planned = [each.name for each in self.method.plan_rounds(self.task)]
        asked = [answer.name for answer in self.answers]
        if asked != planned or not self.lower.shape == self.upper.shape == (d,):
            raise ValueError
        if len(self.names) != d or not np.all(self.lower < self.upper):
            raise ValueError

    def recover(self, n_clusters: int | None = None, *, rng: np.random.Generator) -> Clusters:
        """Compute clusters, in steps, for the task's k or another; this costs nothing.

        Raises
        ------
        ConfigError
            The answers do not tell of so many clusters.
        """
        k = self.task.n_clusters if n_clusters is None else n_clusters
        return self.method.recover(self.task, self.answers, n_clusters=k, rng=rng)

    def locate(self, steps: Floats) -> Floats:
        """Convert points, shape ``(..., d)``, from steps to data units."""
        quantiser = Quantiser.from_bounds(self.lower, self.upper)
        points: Floats = quantiser.centre + steps * (quantiser.half_width / STEPS)
        return points


def describe_design(
    method: Method, task: Task, lower: Floats, upper: Floats, names: tuple[str, ...]
) -> dict[str, Any]:
    """Return what is public before the records, as plain values."""
    return {
        "method": method.name,
        "settings": method.describe(),
        "task": task.describe(),
        "lower": lower.tolist(),
        "upper": upper.tolist(),
        "names": list(names),
    }


def _pack(array: Integers) -> dict[str, Any]:
    return {"shape": list(array.shape), "data": array.astype("<i8").tobytes()}


def _unpack(packed: Mapping[str, Any]) -> Integers:
    return np.frombuffer(packed["data"], dtype="<i8").astype(np.int64).reshape(packed["shape"])
