"""A plan, read, checked and followed, written from ``shared/wire/README.md``, 4 and 8."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import cbor2

from tests.system.stranger import columns, sketch, wire
from tests.system.stranger.wire import require

Record = Sequence[columns.Value]
NORMS = {
    "discrete-laplace": "l1",
    "discrete-knorm": "gon24",
    "discrete-gaussian": "l2-squared",
}
OF_FEATURES = {"l1": (46324, 23162), "gon24": (2730, 1365), "l2-squared": (1073216656, 268304164)}


@dataclass(frozen=True)
class Plan:
    """4. A plan as it came, checked."""

    data: bytes
    fields: Mapping[str, Any]

    @classmethod
    def read(cls, data: bytes, name: str, study: bytes) -> Plan:
        require(wire.sha256(wire.study_id_input(name, wire.sha256(data))) == study, "study")
        plan = cls(data, cbor2.loads(data))
        fields = plan.fields
        require(wire.to_cbor(fields) == data, "deterministic")
        release = fields["release"]
        require(fields["format_version"] == 1, "version")
        require(release["kind"] in ("local.v1", "phase.v1"), "kind")
        require(release["noise_by"] == "device", "noise_by")
        require(fields["late_rule"] in ("open-window", "leave-out-outside"), "late_rule")
        plan.check_statistic()
        plan.check_unit()
        if plan.reports_phases:
            plan.check_odds()
        else:
            plan.check_noise()
        return plan

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    @property
    def statistic(self) -> Mapping[str, Any]:
        fields: Mapping[str, Any] = self["statistic"]
        return fields

    @property
    def kind(self) -> str:
        return str(self.statistic["kind"])

    @property
    def digest(self) -> bytes:
        return wire.sha256(self.data)

    @property
    def counts(self) -> bool:
        return bool(self["release"]["neighbouring"] == "add-remove-one")

    @property
    def reports_phases(self) -> bool:
        return bool(self["release"]["kind"] == "phase.v1")

    @property
    def of_devices(self) -> bool:
        """Whether all records of a window are protected together."""
        return bool(self["release"]["unit"] == "device")

    @property
    def carried(self) -> int:
        """The features that a record adds to, or the dimensions that a sketch carries."""
        if self.kind == "fourier":
            fewer = ("measurements_per_record", "frequencies_per_sketch")
            return int(min(self.statistic[name] for name in fewer))
        return int(self.statistic.get("dimensions_per_sketch", 1))

    @property
    def axes(self) -> tuple[list[float], list[float], list[float]]:
        return columns.axes_of(self["dimensions"])

    @property
    def box(self) -> tuple[list[float], list[float]]:
        return self.axes[:2]

    @property
    def frequencies(self) -> tuple[list[list[int]], int]:
        names = ("seed", "n_frequencies", "radius_law")
        seed, m, law = (self.statistic[name] for name in names)
        return sketch.draw_frequencies(seed, m, law, *self.axes)

    @property
    def circle(self) -> int:
        """The places that a report may have."""
        return 65536 if self.kind == "fourier" else self.bins[0]

    @property
    def bins(self) -> list[int]:
        sizes = zip(self["dimensions"], self.statistic["bins_log2"], strict=True)
        return [columns.bins_of(dimension, bits) for dimension, bits in sizes]

    def check_statistic(self) -> None:
        statistic, n_axes = self.statistic, len(self.axes[0])
        require(self.kind in ("fourier", "histogram", "grid", "moments", "clusters"), "statistic")
        if self.kind == "fourier":
            require(statistic["amplitude"] == 16380, "amplitude")
            digest = sketch.digest_of(*self.frequencies)
            require(digest == statistic["frequencies_digest"], "W")
        elif self.kind == "histogram":
            is_whole = self.carried == len(self["dimensions"])
            require(is_whole or len(set(self.bins)) == 1, "dimensions_per_sketch")
        elif self.kind == "grid":
            require(len(statistic["cells"]) == n_axes and min(statistic["cells"]) > 0, "cells")
        elif self.kind == "clusters":
            is_l1 = self["release"]["mechanism"] == "discrete-laplace"
            require(statistic["norm"] == ("l1" if is_l1 else "l2"), "norm")
            require(2**32 * sum(statistic["weights"]) < 2**63, "weights")
        else:
            most = columns.root(2047**2 * n_axes)
            require(1 <= statistic["norm_steps"] <= most, "norm_steps")
            weight = 7 if self["release"]["mechanism"] == "discrete-laplace" else 5
            require(statistic["diagonal_weight"] == weight, "diagonal_weight")

    def check_unit(self) -> None:
        require(self["release"]["unit"] in ("record", "device"), "unit")
        if not self.of_devices:
            return
        require(self["release"]["neighbouring"] == "replace-one", "neighbouring")
        require(self["window"]["kind"] == "time", "window")
        require(self["least_records"] == 1, "least_records")
        require(self["most_streams_per_device"] == 1, "most_streams_per_device")
        if self.kind == "fourier":
            features = self.statistic["n_frequencies"], self.statistic["measurements_per_record"]
            require(features[0] == features[1], "measurements_per_record")
        else:
            require(self["most_records"] == 1, "most_records")

    def check_odds(self) -> None:
        release = self["release"]
        require(self.kind in ("fourier", "histogram"), "statistic")
        require(release["mechanism"] == "phase-report", "mechanism")
        require((self.of_devices, self["most_records"]) == (True, 1), "unit")
        require(self["payload_width"] == 2, "payload_width")
        arc, odds, epsilon = release["arc"], Fraction(release["odds"]), Fraction(release["epsilon"])
        require(self.kind == "fourier" or len(set(self.bins)) == 1, "bins_log2")
        require(arc >= 0 and 2 * arc + 1 < self.circle, "arc")
        require(1 <= odds < 2048 and (odds * 2**52).denominator == 1, "odds")
        require(epsilon > 0 and sketch.keeps_epsilon(odds, epsilon, self.carried), "e")

    def check_noise(self) -> None:
        release = self["release"]
        require(release["mechanism"] in NORMS, "mechanism")
        norm, count, stated = (
            NORMS[release["mechanism"]],
            release["count_scale"],
            release["sensitivity"],
        )
        value, unit = self.measure(norm)
        require(count == (unit if self.counts else 0), "count_scale")
        value += {"l1": count, "gon24": 0, "l2-squared": count**2}[norm]
        require(stated == {"norm": norm, "value": value}, "sensitivity")
        if norm != "l2-squared":
            # Sigma itself takes the curve of PROOFS, section 4, in long decimals.
            require(Fraction(release["scale"]) * Fraction(release["epsilon"]) >= value, "scale")

    def measure(self, norm: str) -> tuple[int, int]:
        """Return the sensitivity without a number of records, and the factor of that number."""
        n_records = int(self.counts)
        if self.kind == "fourier":
            value = OF_FEATURES[norm][n_records]
            return (value, 1365) if norm == "gon24" else (value * self.carried, 16380)
        require(norm != "gon24", "mechanism")
        if self.kind == "moments":
            radius = self.statistic["norm_steps"]
            of_moments = columns.bound_moments(
                len(self.axes[0]), radius, self.statistic["diagonal_weight"]
            )
            return of_moments[norm][n_records], radius**2
        if self.kind == "clusters":
            bounds = columns.bound_clusters(self.cluster_rule)
            return bounds[norm][n_records], self.statistic["units"]["count"]
        return (2 - n_records) * self.carried, 1

    @property
    def cluster_rule(self) -> Mapping[str, Any]:
        """The numbers of clusters, with those of axes in the place of names."""
        owners = [d for d in self["dimensions"] for _ in d.get("levels", (0,))]
        named = {
            part: [i for i, d in enumerate(owners) if d["name"] in self.statistic[part]]
            for part in ("assigned", "summed")
        }
        optional = [
            i
            for i in named["summed"]
            if i not in named["assigned"] and owners[i].get("missing") is None
        ]
        return {**self.statistic, **named, "optional": optional}

    @property
    def largest(self) -> int:
        """V, the largest magnitude that a record adds to a coordinate."""
        if self.kind == "moments":
            names = ("norm_steps", "diagonal_weight")
            radius, weight = (self.statistic[name] for name in names)
            return columns.largest_moment(len(self.axes[0]), radius, weight)
        if self.kind == "clusters":
            return int(max(self.statistic["units"].values()))
        return int(self.statistic.get("amplitude", 1))

    @property
    def noise_bound(self) -> int:
        most = 1 if self.of_devices else self["most_records"]
        return int(self["coordinate_bound"] - most * self.largest)

    def take(self, records: Sequence[Record]) -> Sequence[Record]:
        """8. Return the records of a slot that are in its sketch."""
        return records[: self["most_records"]] if self.of_devices else records

    def count(self, records: Sequence[Record]) -> int | None:
        """9. Return the number of records that a header states."""
        if self.counts:
            return None
        return 1 if self.of_devices else len(records)

    def clamp(self, noised: Sequence[int], n_records: int | None) -> list[int]:
        """8. Bring each coordinate into its limits."""
        bound, noise = self["coordinate_bound"], self.noise_bound
        if not self.counts:
            require(n_records is not None, "n")
            bound = min(bound, (n_records or 0) * self.largest + noise)
        least = -noise if self.kind in ("histogram", "grid") else -bound
        features = noised[:-1] if self.counts else noised
        released = [min(max(value, least), bound) for value in features]
        if not self.counts:
            return released
        most = self["most_records"] * self["release"]["count_scale"] + noise
        return [*released, min(max(noised[-1], -noise), most)]

    def encode_payload(self, released: Sequence[int]) -> bytes:
        width = self["payload_width"]
        return b"".join(value.to_bytes(width, "little", signed=True) for value in released)

    def release(
        self,
        records: Sequence[Record],
        sums: Sequence[int],
        noise: Sequence[int],
        block: int | None,
    ) -> tuple[list[int], bytes]:
        """8. Return what is released of some records, and the payload.

        ``noise`` has an offset of each phase, or the phases themselves of an unusable record.
        """
        if not self.reports_phases:
            noised = [a + b for a, b in zip(sums, noise, strict=True)]
            released = self.clamp(noised, self.count(records))
            return released, self.encode_payload(released)
        phases = self.find_phases(records[0], block)
        reports = list(noise)
        if phases is not None:
            reports = [(p + t) % self.circle for p, t in zip(phases, noise, strict=True)]
        return self.stand_for(reports, block), b"".join(
            report.to_bytes(2, "little") for report in reports
        )

    def find_phases(self, record: Record, block: int | None) -> list[int] | None:
        """9. Return the phases of a record, or the places of its bins."""
        if self.kind == "fourier":
            coordinates = columns.place(record, self["dimensions"])
            return sketch.find_phases(coordinates, *self.box, *self.frequencies_of(block))
        return [
            columns.find_place(columns.find_bin(record[i], *rule), *rule)
            for i, rule in self.rules_of(block)
        ]

    def stand_for(self, reports: Sequence[int], block: int | None) -> list[int]:
        """9. Return the sums that reports stand for."""
        if self.kind == "fourier":
            rows = [sketch.feature_of(report) for report in reports]
            return [cosine for cosine, _ in rows] + [sine for _, sine in rows]
        return [
            int(columns.find_place(number, *rule) == report)
            for report, (_, rule) in zip(reports, self.rules_of(block), strict=True)
            for number in range(self.circle)
        ]

    def slot_of(self, when: float) -> int:
        window = self["window"]
        return int((when - window["origin"]) // window["length_s"])

    def frequencies_of(self, block: int | None) -> tuple[list[list[int]], int]:
        """Return W of the features of a block, row by row, and b."""
        turns, bits = self.frequencies
        if self.blocks is not None and block is not None:
            turns = [[row[j] for j in self.blocks.members[block]] for row in turns]
        return turns, bits

    def rules_of(self, block: int | None) -> list[tuple[int, tuple[columns.Dimension, int]]]:
        """Return the dimensions of a block, each with its number and its b."""
        rules = list(zip(self["dimensions"], self.statistic["bins_log2"], strict=True))
        if self.blocks is None or block is None:
            return list(enumerate(rules))
        return [(i, rules[i]) for i in self.blocks.members[block]]

    @property
    def blocks(self) -> sketch.Blocks | None:
        if self.kind == "fourier":
            m, r = self.statistic["n_frequencies"], self.statistic["frequencies_per_sketch"]
            return sketch.Blocks(self.statistic["seed"], m, r) if r < m else None
        if self.kind == "clusters":
            k, r = len(self.statistic["centres"]), self.statistic["clusters_per_sketch"]
            return sketch.Blocks(bytes(32), k, r) if r < k else None
        d = len(self["dimensions"])
        is_split = self.kind == "histogram" and self.carried < d
        return sketch.Blocks(bytes(32), d, self.carried) if is_split else None

    def choose_block(
        self, ordinal: int, stream: str, sequence: int, slots: Sequence[int] | None
    ) -> int | None:
        """8. Return the block of a sketch; None without blocks."""
        turn = sequence if slots is None else slots[0]
        return None if self.blocks is None else self.blocks.choose(ordinal, stream, turn)

    def add_up(
        self,
        records: Sequence[Record],
        device: bytes,
        stream: str,
        first_record: int,
        block: int | None = None,
    ) -> list[int]:
        """8. Return the exact sums of some records, and their number where it is secret.

        Where the unit is a device, their mean.
        """
        if self.kind == "fourier":
            sums = self.add_features(records, wire.stream_id(device, stream), first_record, block)
        else:
            shares = [self.share_of(record, block) for record in records]
            sums = [sum(values) for values in zip(*shares, strict=True)]
        if self.of_devices:
            return sketch.average(sums, len(records))
        return [*sums, len(records) * self["release"]["count_scale"]] if self.counts else sums

    def add_features(
        self, records: Sequence[Record], stream_id: bytes, first_record: int, block: int | None
    ) -> list[int]:
        m, r = self.statistic["n_frequencies"], self.statistic["measurements_per_record"]
        return sketch.add_up(
            [columns.place(record, self["dimensions"]) for record in records],
            *self.box,
            *self.frequencies_of(block),
            masks=sketch.Masks(self.statistic["seed"], stream_id, m, r) if r < m else None,
            first_record=first_record,
        )

    def share_of_clusters(self, record: Record, block: int | None) -> list[int]:
        coordinates = columns.place(record, self["dimensions"])
        found = [
            sketch.quantise([x], [low], [high])
            for x, low, high in zip(coordinates, *self.box, strict=True)
        ]
        members: Sequence[int] = range(len(self.statistic["centres"]))
        if self.blocks is not None and block is not None:
            members = self.blocks.members[block]
        steps = [None if each is None else each[0] for each in found]
        return columns.clusters_of(steps, self.cluster_rule, members)

    def share_of(self, record: Record, block: int | None) -> list[int]:
        """Return what a record adds to another statistic than features."""
        if self.kind == "histogram":
            found = [(columns.find_bin(record[i], *rule), rule) for i, rule in self.rules_of(block)]
            return [
                int(number == bin_)
                for bin_, rule in found
                for number in range(columns.bins_of(*rule))
            ]
        if self.kind == "clusters":
            return self.share_of_clusters(record, block)
        steps = sketch.quantise(columns.place(record, self["dimensions"]), *self.box)
        if self.kind == "grid":
            cells = self.statistic["cells"]
            cell = columns.find_cell(steps, cells)
            return [int(number == cell) for number in range(math.prod(cells) + 1)]
        names = ("norm_steps", "diagonal_weight")
        return columns.moments_of(
            steps, len(self.axes[0]), *(self.statistic[name] for name in names)
        )
