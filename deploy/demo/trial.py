"""A third study of the demo, for its reader: the browser that opens its page is a device."""

from __future__ import annotations

import time
from dataclasses import dataclass

from sfumato.analyst import Client
from sfumato.shared.plan import SketchPlan, plan_from_spec
from sfumato.shared.wire import EnrolmentCode, make_page_address

NAME = "how you hold it"
WINDOW_S = 30
"""Length of a window: long enough for some hundred readings, short enough to wait for."""
N_CLUSTERS = 3
_LOOK_S = 60.0
_MOST_DEVICES = 100


def make_plan(*, window_s: int = WINDOW_S, origin: int | None = None) -> SketchPlan:
    """Return the plan: two angles, in windows of seconds."""
    angle = {"unit": "°", "lower": -90.0, "upper": 90.0, "scale": 12.0}
    return plan_from_spec(
        {
            "dimensions": [{"name": "left-right", **angle}, {"name": "front-back", **angle}],
            "n_frequencies": 40,
            "seed": NAME,
            "epsilon": "1",
            "mechanism": "discrete-knorm",
            "window": {
                "kind": "time",
                "origin": int(time.time()) if origin is None else origin,
                "length_s": window_s,
            },
            "least_records": 1,
            "most_records": 5000,
            "most_sketches_per_device": 1000,
            "most_sketches": 100_000,
        }
    )


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The study and the address of the page that takes part in it."""

    study_id: str
    address: str

    @classmethod
    def publish(cls, client: Client, server: str) -> Trial:
        """Publish the study, let browsers in, and decode it once a minute for them."""
        study = client.create_study(NAME, make_plan()).study_id
        client.create_schedule(study, n_clusters=N_CLUSTERS, every_s=_LOOK_S, publish=True)
        token = client.create_token(study, max_uses=_MOST_DEVICES)
        code = EnrolmentCode(server=server, study=bytes.fromhex(study), token=token)
        return cls(study_id=study, address=make_page_address(code))
