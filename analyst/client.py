"""A client of the REST interface for analysts and operators.

Importable by ``analyst`` and by the people who install it: ``from analyst import Client``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import httpx
import numpy as np
from numpy.typing import NDArray

from analyst.connection import Connection
from shared.errors import DecodingError, SketchError
from shared.plan import SketchPlan, plan_from_json, plan_to_json
from shared.wire import SKETCH_MEDIA_TYPE, error_from_problem

_POLL_S = 0.2
_FINAL_STATES = ("succeeded", "failed", "cancelled")


@dataclass(frozen=True, kw_only=True)
class DecodeResult:
    """Centroids recovered from a snapshot, with what they rest on.

    Parameters
    ----------
    decode_id, snapshot_id
        Where the result and the sketch it came from can be found again.
    names, units
        Of the dimensions, d each.
    centroids
        Shape ``(k, d)``, data units, by falling weight.
    weights
        Shape ``(k,)``, summing to 1.
    snr
        Estimated signal-to-noise ratio of the global sketch.
    quality, privacy
        Statements in words: what quality to expect, and what each sketch protects.
    residual, noise_floor
        Mean squared residual of the fit, and what the noise alone would leave.
    warnings
        What the decoder wants a reader to know.
    solver
        Name and version of the decoder.
    seconds
        Time that decoding took.
    spreads
        Shape ``(k, d)``, data units: standard deviation of each cluster's records about its mean;
        None if the decoder finds none.
    choice
        What 1, 2, ... clusters leave unexplained and how many to use, if the decoder was to choose.
    """

    decode_id: str
    snapshot_id: str
    names: tuple[str, ...]
    units: tuple[str, ...]
    centroids: NDArray[np.float64]
    weights: NDArray[np.float64]
    snr: float
    quality: str
    privacy: str
    residual: float
    noise_floor: float
    warnings: tuple[str, ...]
    solver: str
    seconds: float
    spreads: NDArray[np.float64] | None = None
    choice: Mapping[str, Any] | None = None


class Client:
    """Talks to an aggregator.

    Parameters
    ----------
    url
        Where it listens, such as ``http://127.0.0.1:8750``.
    key
        An API key of scope analyst or operator; public resources need none.
    timeout
        Seconds to wait for one answer.
    patience_s
        Most seconds that one call waits where the server is busy and says when to come again.

    Raises
    ------
    ConfigError
        At once: the key cannot be one.
    TransportError
        From every call: the server did not answer.
    SketchError
        From every call: the class that the server's problem document names.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        timeout: float = 30.0,
        patience_s: float = 60.0,
    ) -> None:
        self.url = url.rstrip("/")
        self._server = Connection(self.url, key=key, timeout=timeout, patience_s=patience_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def is_ready(self) -> bool:
        """Tell whether the server and its database answer."""
        try:
            return self._server.http.get("/readyz").status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def create_study(self, name: str, plan: SketchPlan) -> dict[str, Any]:
        """Publish a study; the same name and plan again return the same study."""
        return self._server.call("POST", "/v1/studies", {"name": name, "plan": plan_to_json(plan)})

    def studies(self) -> Iterator[dict[str, Any]]:
        """Yield every study."""
        return self._server.pages("/v1/studies")

    def study(self, study_id: str) -> dict[str, Any]:
        """Return a study: name, state, counts."""
        return self._server.call("GET", f"/v1/studies/{study_id}")

    def plan(self, study_id: str) -> SketchPlan:
        """Return a study's plan, verified."""
        return plan_from_json(self._server.call("GET", f"/v1/studies/{study_id}/plan")["plan"])

    def set_state(
        self, study_id: str, state: str, *, accept_until: datetime | None = None
    ) -> dict[str, Any]:
        """Open or close a study as it is now: ``state`` is ``open`` or ``closed``.

        Parameters
        ----------
        accept_until
            Until when the study, closed, still takes sketches that are on their way; with a time
            zone.

        Raises
        ------
        StaleVersionError
            Somebody else changed it at the same time.
        """
        path = f"/v1/studies/{study_id}"
        body: dict[str, Any] = {"state": state}
        if accept_until is not None:
            body["accept_until"] = accept_until.isoformat()
        etag = self._server.send("GET", path).headers.get("ETag", "*")
        return self._server.call("PATCH", path, body, headers={"If-Match": etag})

    def withdraw_study(self, study_id: str, *, name: str) -> dict[str, Any]:
        """Remove a study and all that it holds, for good; ``name`` is its name, to confirm."""
        return self._server.call("DELETE", f"/v1/studies/{study_id}", params={"confirm": name})

    def create_token(self, study_id: str, *, max_uses: int = 1) -> str:
        """Return a new enrolment token; it is shown this once."""
        answer = self._server.call("POST", f"/v1/studies/{study_id}/tokens", {"max_uses": max_uses})
        return str(answer["token"])

    def tokens(self, study_id: str) -> Iterator[dict[str, Any]]:
        """Yield the enrolment tokens of a study, without their secrets, revoked ones too."""
        return self._server.pages(f"/v1/studies/{study_id}/tokens")

    def revoke_token(self, token_id: str) -> dict[str, Any]:
        """Let an enrolment token enrol nobody more, at once and for good."""
        return self._server.call("DELETE", f"/v1/tokens/{token_id}")

    def sketches(self, study_id: str) -> Iterator[dict[str, Any]]:
        """Yield the sketches of a study."""
        return self._server.pages(f"/v1/studies/{study_id}/sketches")

    def upload(self, study_id: str, sketch_id: str, message: bytes) -> bool:
        """Take a device's signed sketch to the server; tell whether it was new there."""
        path = f"/v1/studies/{study_id}/sketches/{sketch_id}"
        answer = self._server.send(
            "PUT", path, headers={"Content-Type": SKETCH_MEDIA_TYPE}, content=message
        )
        return answer.status_code == httpx.codes.CREATED

    def refusals(self, study_id: str) -> dict[str, Any]:
        """Count what was refused: sketches by problem, and the plan by the rules of owners."""
        return self._server.call("GET", f"/v1/studies/{study_id}/refusals")

    def devices(self, study_id: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield the devices of a study, or of all, with when each was last seen."""
        return self._server.pages(
            "/v1/devices" if study_id is None else f"/v1/studies/{study_id}/devices"
        )

    def device(self, device_id: str) -> dict[str, Any]:
        """Return a device with its keys."""
        return self._server.call("GET", f"/v1/devices/{device_id}")

    def exclude_device(self, device_id: str, *, reason: str) -> dict[str, Any]:
        """Take a device's sketches out of every sum, exactly, and refuse its later ones."""
        return self._server.call("POST", f"/v1/devices/{device_id}/exclude", {"reason": reason})

    def revoke_device(
        self, device_id: str, *, reason: str, key_id: str | None = None
    ) -> dict[str, Any]:
        """Believe a device no more, or one key that it has replaced; at once and for good."""
        body = {"reason": reason} | ({} if key_id is None else {"key_id": key_id})
        return self._server.call("POST", f"/v1/devices/{device_id}/revoke", body)

    def snapshot(
        self,
        study_id: str,
        *,
        first_slot: int | None = None,
        last_slot: int | None = None,
        labels: Mapping[str, str] | None = None,
        weighting: str = "size",
    ) -> dict[str, Any]:
        """Freeze the weighted global sketch over a selection; everything by default."""
        selection = {
            "first_slot": first_slot,
            "last_slot": last_slot,
            "labels": dict(labels or {}),
            "weighting": weighting,
        }
        return self._server.call("POST", f"/v1/studies/{study_id}/snapshots", selection)

    def decode(
        self,
        study_id: str,
        *,
        n_clusters: int,
        snapshot_id: str | None = None,
        decoder: str | None = None,
        settings: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> Decode:
        """Ask for k centroids of a snapshot, or of everything now; see :meth:`Decode.wait`."""
        request = {
            "snapshot_id": snapshot_id,
            "n_clusters": n_clusters,
            "decoder": decoder,
            "settings": dict(settings or {}),
            "seed": seed,
        }
        answer = self._server.call("POST", f"/v1/studies/{study_id}/decodes", request)
        return Decode(self, str(answer["decode_id"]))

    def decode_state(self, decode_id: str) -> dict[str, Any]:
        """Return a decode: state, progress, result or problem."""
        return self._server.call("GET", f"/v1/decodes/{decode_id}")

    def decode_events(self, decode_id: str) -> Iterator[dict[str, Any]]:
        """Yield a decode's state and progress as they change, and last the decode, ended.

        Raises
        ------
        TransportError
            The server tells no events, or no more.
        """
        for name, data in self._server.events(f"/v1/decodes/{decode_id}/events"):
            if name in ("state", "progress") and data["state"] not in _FINAL_STATES:
                yield data
            elif name == "result":
                yield data
                return

    def pause(self, seconds: float) -> None:
        """Wait."""
        self._server.sleep(seconds)

    def cancel(self, decode_id: str) -> None:
        """Cancel a decode."""
        self._server.call("DELETE", f"/v1/decodes/{decode_id}")


class Decode:
    """A decode that runs on the server."""

    def __init__(self, client: Client, decode_id: str) -> None:
        self.decode_id = decode_id
        self._client = client

    def wait(self, *, progress: Callable[[float], None] | None = None) -> DecodeResult:
        """Wait for the result.

        Parameters
        ----------
        progress
            Called with the share that is done, 0 to 1.

        Raises
        ------
        DecodingError
            The decode failed or was cancelled.
        """
        for state in self._follow():
            if progress:
                progress(float(state["progress"]))
            if state["state"] in _FINAL_STATES:
                return _read_result(state)
        raise AssertionError("it is followed to its end")

    def _follow(self) -> Iterator[dict[str, Any]]:
        """Yield states until the last: as the server tells them, or by asking where it cannot."""
        is_told = True
        while True:
            if is_told:
                try:
                    yield from self._client.decode_events(self.decode_id)
                except SketchError:
                    # Too many streams, or a proxy that passes none on. What is a refusal of the
                    # decode itself comes again below.
                    is_told = False
            state = self._client.decode_state(self.decode_id)
            yield state
            if state["state"] in _FINAL_STATES:
                return
            self._client.pause(_POLL_S)


def _read_result(state: Mapping[str, Any]) -> DecodeResult:
    if state["state"] != "succeeded":
        problem = state.get("problem")
        if problem:
            raise error_from_problem(problem, int(problem.get("status", 500)))
        raise DecodingError(f"was {state['state']}", field="decode", fix="ask for it again")
    result = state["result"]
    return DecodeResult(
        decode_id=str(state["decode_id"]),
        snapshot_id=str(state["snapshot_id"]),
        names=tuple(dimension["name"] for dimension in result["dimensions"]),
        units=tuple(dimension["unit"] for dimension in result["dimensions"]),
        centroids=np.array(result["centroids"], dtype=np.float64),
        weights=np.array(result["weights"], dtype=np.float64),
        snr=float(result["snr"]),
        # Of the decoder that was used: the paper's rule is for the paper's decoder.
        quality=str((result.get("band") or result["quality"])["statement"]),
        privacy=str(result["privacy"]["statement"]),
        residual=float(result["residual"]),
        noise_floor=float(result["noise_floor"]),
        warnings=tuple(result["warnings"]),
        solver=str(result["solver"]),
        seconds=float(result["seconds"]),
        spreads=None if result.get("spreads") is None else np.array(result["spreads"]),
        choice=result.get("choice"),
    )
