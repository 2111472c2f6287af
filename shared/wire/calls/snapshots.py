"""Calls about snapshots."""

from __future__ import annotations

from sfumato.shared.wire.calls.call import Bare, Call
from sfumato.shared.wire.objects.looks import MeasuredClustersBody
from sfumato.shared.wire.objects.results import SnapshotBody, SnapshotRequest, SnapshotSumsBody
from sfumato.shared.wire.objects.statistics import CalibrationBody, HistogramBody, MomentsAnswerBody


class Snapshots:
    """Snapshots.

    Attributes
    ----------
    create_snapshot
        Freeze a selection; 200 if the same selection of the same sketches is frozen already.

        A selection contains a sketch if and only if all slots of the sketch are inside. Under the
        weighting `size` each record counts the same; under `noise-optimal` a sketch of n records
        counts `a n + b n^2`, with a and b chosen for the least error; it needs numbers of records
        that are public.
    get_snapshot
        Show a snapshot with its exact sums, from which anyone can recompute the global sketch.

        It is `(a sums + b size_sums) / (A alpha (a first + b second))`, with the weights a and b,
        the moments `first` and `second` of a feature's block, and the plan's amplitude A and alpha.
        Where numbers of records are secret, the last of the sums are their noised counts by block,
        and `first` is estimated from them.
    get_histogram
        Show the marginals of a snapshot of histograms: bars, quantiles, missing values.

        Bins are joined until each of at most `bars` bars stands out from its noise.
    get_moments
        Show mean, correlations and principal directions of a snapshot of moments.
    get_clusters
        Show what a snapshot of a second look measures around the centres it was shown.
    get_calibration
        Show what a pilot, a snapshot of histograms, says about the plan of a main study.

        `clusters` is the number of clusters that will be looked for; with `most_clusters` it is the
        least, and the other the largest.
    """

    create_snapshot = Call(
        "analyst",
        "POST /v1/studies/{study}/snapshots",
        SnapshotRequest,
        SnapshotBody,
        status=201,
        may_exist=True,
        location="/v1/snapshots/{snapshot_id}",
        leads_to="snapshot",
        problems="store-conflict",
    )
    get_snapshot = Bare(
        "viewer",
        "GET /v1/snapshots/{snapshot}",
        SnapshotSumsBody,
        is_conditional=True,
        leads_to="study",
    )
    get_histogram = Bare(
        "viewer",
        "GET /v1/snapshots/{snapshot}/histogram",
        HistogramBody,
        query="bars",
        problems="decoding-invalid wrong-statistic",
    )
    get_moments = Bare(
        "viewer",
        "GET /v1/snapshots/{snapshot}/moments",
        MomentsAnswerBody,
        problems="decoding-invalid wrong-statistic",
    )
    get_clusters = Bare(
        "viewer",
        "GET /v1/snapshots/{snapshot}/clusters",
        MeasuredClustersBody,
        problems="decoding-invalid wrong-statistic",
    )
    get_calibration = Bare(
        "viewer",
        "GET /v1/snapshots/{snapshot}/calibration",
        CalibrationBody,
        query="clusters most_clusters",
        problems="decoding-invalid wrong-statistic",
    )
