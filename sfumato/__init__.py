"""Find the typical patterns across many devices from small, differentially private sketches.

This is the public face: ``from sfumato import Client, CompressiveKMeans``. A name is loaded when it
is first used, so that a device, which uses none of them, pays for none. The rooms below
(``sfumato.shared``, ``sfumato.learning``, ...) are the implementation.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato.analyst.client import (
        Analysis as Analysis,
        AsyncAnalysis as AsyncAnalysis,
        AsyncClient as AsyncClient,
        AsyncDecode as AsyncDecode,
        Client as Client,
        Decode as Decode,
    )
    from sfumato.analyst.estimators import (
        AutoKMeans as AutoKMeans,
        CandidateKMeans as CandidateKMeans,
        CompressiveKMeans as CompressiveKMeans,
        CompressiveMixture as CompressiveMixture,
        CoverKMeans as CoverKMeans,
        GridKMeans as GridKMeans,
        KernelKMeans as KernelKMeans,
        LloydKMeans as LloydKMeans,
        MomentMixture as MomentMixture,
        PrivatePCA as PrivatePCA,
        SplitKMeans as SplitKMeans,
        TreeKMeans as TreeKMeans,
    )
    from sfumato.analyst.estimators.signature import (
        create_owner_key as create_owner_key,
        open_release as open_release,
        read_owner_key as read_owner_key,
        sign_release as sign_release,
    )
    from sfumato.analyst.planning.files import read_plan as read_plan
    from sfumato.analyst.plots import plot_components as plot_components
    from sfumato.analyst.results import DecodeResult as DecodeResult
    from sfumato.analyst.sketching.answers import LocalSketches as LocalSketches
    from sfumato.analyst.sketching.dask import sketch_dask as sketch_dask
    from sfumato.analyst.sketching.datasets import (
        release_parts as release_parts,
        sketch_dataset as sketch_dataset,
        sum_part as sum_part,
    )
    from sfumato.analyst.sketching.sketch_file import (
        SketchFile as SketchFile,
        encode_sketch_file as encode_sketch_file,
        read_sketch_file as read_sketch_file,
    )
    from sfumato.analyst.sketching.sources import find_snapshot as find_snapshot
    from sfumato.analyst.sketching.spark import sketch_spark as sketch_spark
    from sfumato.learning.clustering.methods.release import ClusterRelease as ClusterRelease
    from sfumato.shared import __version__ as __version__, errors as errors
    from sfumato.shared.plan import (
        LogTransform as LogTransform,
        plan_from_json as plan_from_json,
        plan_to_json as plan_to_json,
    )
    from sfumato.shared.privacy import Budget as Budget
    from sfumato.shared.spending import Account as Account
    from sfumato.shared.wire.objects.advice import PlannedDimension as PlannedDimension

# The same again for the interpreter; tests compare the two.
_HOMES = {
    "analyst.client": "Analysis AsyncAnalysis AsyncClient AsyncDecode Client Decode",
    "analyst.estimators": (
        "AutoKMeans CandidateKMeans CompressiveKMeans CompressiveMixture CoverKMeans GridKMeans "
        "KernelKMeans LloydKMeans MomentMixture PrivatePCA SplitKMeans TreeKMeans"
    ),
    "analyst.estimators.signature": "create_owner_key open_release read_owner_key sign_release",
    "analyst.planning.files": "read_plan",
    "analyst.plots": "plot_components",
    "analyst.results": "DecodeResult",
    "analyst.sketching.answers": "LocalSketches",
    "analyst.sketching.dask": "sketch_dask",
    "analyst.sketching.datasets": "release_parts sketch_dataset sum_part",
    "analyst.sketching.sketch_file": "SketchFile encode_sketch_file read_sketch_file",
    "analyst.sketching.sources": "find_snapshot",
    "analyst.sketching.spark": "sketch_spark",
    "learning.clustering.methods.release": "ClusterRelease",
    "shared": "__version__ errors",
    "shared.plan": "LogTransform plan_from_json plan_to_json",
    "shared.privacy": "Budget",
    "shared.spending": "Account",
    "shared.wire.objects.advice": "PlannedDimension",
}
_ROOMS = {name: room for room, names in _HOMES.items() for name in names.split()}
__all__ = sorted(_ROOMS)  # noqa: PLE0605 - checkers read the imports above

if not TYPE_CHECKING:  # to a checker, a name that is not imported above is a mistake

    def __getattr__(name: str) -> object:
        """Load a public name when it is first used."""
        if name not in _ROOMS:
            raise AttributeError(f"module 'sfumato' has no attribute {name!r}")
        globals()[name] = found = getattr(import_module(f"sfumato.{_ROOMS[name]}"), name)
        return found


def __dir__() -> list[str]:
    """Name what is public, loaded or not."""
    return __all__
