"""Client of the REST interface, for analysts and operators: ``from analyst import Client``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from analyst.connection import ANSWERS, Connection
from analyst.decode import FINAL_STATES, Decode
from analyst.references import choose_study, is_identity, require_identity
from shared.errors import ConfigError
from shared.plan import SketchPlan, plan_from_json, plan_to_json
from shared.wire import SKETCH_MEDIA_TYPE, SignedResult, decode_published
from shared.wire.bodies.devices import PlanBody
from shared.wire.bodies.publications import IdentityBody, PublicationBody
from shared.wire.bodies.results import (
    DecodeBody,
    ProgressBody,
    SnapshotBody,
    SnapshotSumsBody,
)
from shared.wire.bodies.statistics import CalibrationBody, HistogramBody, MomentsAnswerBody
from shared.wire.bodies.studies import (
    AuditBody,
    CreatedBody,
    DeviceBody,
    DeviceDetailsBody,
    ExclusionBody,
    KeyBody,
    NewKeyBody,
    NewTokenBody,
    RefusalsBody,
    SketchBody,
    StudyBody,
    TokenBody,
    WithdrawnBody,
)

T = TypeVar("T")
Document = dict[str, Any]
SearchBox = Mapping[str, Sequence[float]]
"""Lower and upper bound by dimension."""


class Client:
    """Client of an aggregator.

    A ``study`` is given by its id, its name, or the first 6 or more digits of its id. Names and
    digits take one more request.

    Parameters
    ----------
    url
        Address, such as ``http://127.0.0.1:8750``.
    key
        API key of scope analyst or operator; public resources need none.
    timeout
        Seconds to wait for one answer.
    patience_s
        Longest time in seconds for which one call retries while the server is busy.

    Raises
    ------
    ConfigError
        From the constructor: the address or the key is malformed. From every call: the client is
        closed, or an argument is malformed.
    TransportError
        From every call: the server did not answer, or is not an aggregator.
    SketchError
        From every call: the server refused; its problem document names the class.
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

    def _call(self, declared: type[Any], method: str, *request: Any, **options: Any) -> Document:
        """Send a request and return the checked document of the answer."""
        return ANSWERS.check(declared, self._server.call(method, *request, **options))

    def _pages(self, declared: type[Any], path: str) -> Iterator[Document]:
        """Yield the checked items of a list."""
        return (ANSWERS.check(declared, item) for item in self._server.pages(path))

    def is_ready(self) -> bool:
        """Return whether the server and its database answer."""
        return self._server.is_answering("/readyz")

    def create_study(
        self,
        name: str,
        plan: SketchPlan,
        *,
        allow_same_plan: bool = False,
        search_box: SearchBox | None = None,
    ) -> dict[str, Any]:
        """Publish a study; the same name and plan again return the same study.

        Parameters
        ----------
        allow_same_plan
            Publish even if a study of another name has the plan. Records that are in both studies
            are released twice, and cost their budget twice.
        search_box
            Where decodes search for clusters: lower and upper bound by dimension, inside the
            plan's bounds. Devices never see it.

        Raises
        ------
        StoreError
            A study of another name has the plan, or the study exists with another search box.
        """
        body: dict[str, Any] = {
            "name": name,
            "plan": plan_to_json(plan),
            "allow_same_plan": allow_same_plan,
            "search_box": _list_bounds(search_box),
        }
        return self._call(CreatedBody, "POST", "/v1/studies", body)

    def studies(self) -> Iterator[dict[str, Any]]:
        """Yield every study."""
        return self._pages(StudyBody, "/v1/studies")

    def find_study(self, study: str) -> str:
        """Return the id of a study, given its name or first digits.

        Raises
        ------
        NotFoundError, ConfigError
            No study fits, or more than one; the error lists the candidates.
        """
        if is_identity(study):
            return study
        names = ((item["study_id"], item["name"]) for item in self.studies())
        return choose_study(study, names)

    def _path_of(self, study: str) -> str:
        return f"/v1/studies/{self.find_study(study)}"

    def study(self, study: str) -> dict[str, Any]:
        """Return the name, state and counts of a study."""
        return self._call(StudyBody, "GET", self._path_of(study))

    def plan(self, study: str) -> SketchPlan:
        """Return the plan of a study, and verify it."""
        answer = self._call(PlanBody, "GET", f"{self._path_of(study)}/plan")
        return plan_from_json(answer["plan"])

    def set_state(
        self, study: str, state: str, *, accept_until: datetime | None = None
    ) -> dict[str, Any]:
        """Open or close a study: ``state`` is ``open`` or ``closed``.

        Parameters
        ----------
        accept_until
            Time, with a time zone, until which a closed study still accepts sketches.

        Raises
        ------
        StaleVersionError
            Another client changed the study at the same time.
        """
        body: dict[str, Any] = {"state": state}
        if accept_until is not None:
            body["accept_until"] = accept_until.isoformat()
        return self._change_study(study, body)

    def set_search_box(self, study: str, search_box: SearchBox) -> dict[str, Any]:
        """Change where later decodes search for clusters; decodes that exist keep theirs.

        Parameters
        ----------
        search_box
            Lower and upper bound by dimension, in its unit. Dimensions without keep the plan's
            bounds; an empty one removes the search box.

        Raises
        ------
        ConfigError
            A dimension is unknown, or its bounds are not inside the plan's.
        StaleVersionError
            Another client changed the study at the same time.
        """
        return self._change_study(study, {"search_box": _list_bounds(search_box)})

    def _change_study(self, study: str, body: Mapping[str, Any]) -> Document:
        path = self._path_of(study)
        etag = self._server.send("GET", path).headers.get("ETag", "*")
        return self._call(StudyBody, "PATCH", path, body, headers={"If-Match": etag})

    def withdraw_study(self, study: str, *, name: str) -> dict[str, Any]:
        """Delete a study and all its data for good; ``name`` must be its name, to confirm."""
        return self._call(WithdrawnBody, "DELETE", self._path_of(study), params={"confirm": name})

    def create_token(self, study: str, *, max_uses: int = 1) -> str:
        """Create an enrolment token and return it; it cannot be read again."""
        path = f"{self._path_of(study)}/tokens"
        answer = self._call(NewTokenBody, "POST", path, {"max_uses": max_uses})
        return str(answer["token"])

    def tokens(self, study: str) -> Iterator[dict[str, Any]]:
        """Yield the enrolment tokens of a study, without their secrets."""
        return self._pages(TokenBody, f"{self._path_of(study)}/tokens")

    def revoke_token(self, token_id: str) -> dict[str, Any]:
        """Revoke an enrolment token, at once and for good."""
        return self._call(TokenBody, "DELETE", f"/v1/tokens/{require_identity(token_id, 'token')}")

    def sketches(self, study: str) -> Iterator[dict[str, Any]]:
        """Yield the sketches of a study."""
        return self._pages(SketchBody, f"{self._path_of(study)}/sketches")

    def upload(self, study: str, sketch_id: str, message: bytes) -> bool:
        """Upload a device's signed sketch; return whether it was new."""
        path = f"{self._path_of(study)}/sketches/{require_identity(sketch_id, 'sketch_id')}"
        answer = self._server.send(
            "PUT", path, headers={"Content-Type": SKETCH_MEDIA_TYPE}, content=message
        )
        return answer.status_code == httpx.codes.CREATED

    def refusals(self, study: str) -> dict[str, Any]:
        """Count refused sketches by problem, and refusals of the plan by the rules of owners."""
        return self._call(RefusalsBody, "GET", f"{self._path_of(study)}/refusals")

    def devices(self, study: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield the devices of a study, or all devices, with the time each was last seen."""
        return self._pages(
            DeviceBody, "/v1/devices" if study is None else f"{self._path_of(study)}/devices"
        )

    def device(self, device_id: str) -> dict[str, Any]:
        """Return a device with its keys."""
        return self._call(DeviceDetailsBody, "GET", _path_of_device(device_id))

    def exclude_device(self, device_id: str, *, reason: str) -> dict[str, Any]:
        """Subtract a device's sketches from every sum exactly, and refuse later ones."""
        return self._call(
            ExclusionBody, "POST", f"{_path_of_device(device_id)}/exclude", {"reason": reason}
        )

    def revoke_device(
        self, device_id: str, *, reason: str, key_id: str | None = None
    ) -> dict[str, Any]:
        """Revoke a device, or one key that it has replaced, at once and for good."""
        body = {"reason": reason}
        if key_id is not None:
            body["key_id"] = require_identity(key_id, "key_id")
        return self._call(DeviceDetailsBody, "POST", f"{_path_of_device(device_id)}/revoke", body)

    def create_key(self, name: str, *, scope: str) -> dict[str, Any]:
        """Create an API key; the field ``key`` cannot be read again."""
        return self._call(NewKeyBody, "POST", "/v1/keys", {"name": name, "scope": scope})

    def keys(self) -> Iterator[dict[str, Any]]:
        """Yield the API keys, without their secrets."""
        return self._pages(KeyBody, "/v1/keys")

    def revoke_key(self, key_id: str) -> dict[str, Any]:
        """Revoke an API key, at once and for good."""
        path = f"/v1/keys/{require_identity(key_id, 'key_id', 16)}"
        return self._call(KeyBody, "DELETE", path)

    def audit(self) -> Iterator[dict[str, Any]]:
        """Yield the actions of operators, oldest first."""
        return self._pages(AuditBody, "/v1/audit")

    def snapshot(
        self,
        study: str,
        *,
        first_slot: int | None = None,
        last_slot: int | None = None,
        labels: Mapping[str, str] | None = None,
        weighting: str = "size",
    ) -> dict[str, Any]:
        """Freeze the weighted global sketch of a selection; by default of all sketches.

        Parameters
        ----------
        first_slot, last_slot
            Range of public time buckets.
        labels
            Only devices with these labels.
        weighting
            ``size`` or ``noise-optimal``.
        """
        selection = {
            "first_slot": first_slot,
            "last_slot": last_slot,
            "labels": dict(labels or {}),
            "weighting": weighting,
        }
        return self._call(SnapshotBody, "POST", f"{self._path_of(study)}/snapshots", selection)

    def snapshot_sums(self, snapshot_id: str) -> SnapshotSumsBody:
        """Read a snapshot with its exact sums, which every answer is computed from."""
        path = f"/v1/snapshots/{require_identity(snapshot_id, 'snapshot_id')}"
        return ANSWERS.read(SnapshotSumsBody, self._server.call("GET", path))

    def histogram(self, snapshot_id: str, *, bars: int = 64) -> HistogramBody:
        """Read the marginals of a snapshot of a histogram study.

        Parameters
        ----------
        bars
            The largest number of bars of a dimension; each stands out from its noise.

        Raises
        ------
        WrongStatisticError
            The study has no histogram.
        """
        return self._read(HistogramBody, snapshot_id, "histogram", {"bars": bars})

    def moments(self, snapshot_id: str) -> MomentsAnswerBody:
        """Read mean, correlations and principal directions of a snapshot of a moments study.

        Raises
        ------
        WrongStatisticError
            The study has no moments.
        """
        return self._read(MomentsAnswerBody, snapshot_id, "moments", {})

    def calibration(
        self, snapshot_id: str, *, n_clusters: int, most_clusters: int | None = None
    ) -> CalibrationBody:
        """Read what a pilot, a snapshot of a histogram study, says about a main study.

        Parameters
        ----------
        n_clusters, most_clusters
            The number of clusters that will be looked for, or the least and the largest.

        Raises
        ------
        WrongStatisticError
            The study has no histogram.
        """
        query = {"clusters": n_clusters, "most_clusters": most_clusters or n_clusters}
        return self._read(CalibrationBody, snapshot_id, "calibration", query)

    def _read(self, declared: type[T], snapshot_id: str, name: str, query: Mapping[str, int]) -> T:
        path = f"/v1/snapshots/{require_identity(snapshot_id, 'snapshot_id')}/{name}"
        params = {key: str(value) for key, value in query.items()}
        return ANSWERS.read(declared, self._server.call("GET", path, params=params))

    def decode(
        self,
        study: str,
        *,
        n_clusters: int,
        snapshot_id: str | None = None,
        decoder: str | None = None,
        settings: Mapping[str, Any] | None = None,
        seed: int = 0,
        search_box: SearchBox | None = None,
    ) -> Decode:
        """Start to decode k centroids from a snapshot or from all sketches; see :class:`Decode`.

        Parameters
        ----------
        search_box
            Where to search for clusters: lower and upper bound by dimension. None stands for the
            study's search box, an empty one for the plan's bounds.

        Raises
        ------
        ConfigError
            ``n_clusters`` is less than 1.
        """
        if n_clusters < 1:
            raise ConfigError("must be at least 1", field="n_clusters", fix="ask for at least one")
        request = {
            "snapshot_id": snapshot_id and require_identity(snapshot_id, "snapshot_id"),
            "n_clusters": n_clusters,
            "decoder": decoder,
            "settings": dict(settings or {}),
            "seed": seed,
            "search_box": _list_bounds(search_box),
        }
        answer = self._call(DecodeBody, "POST", f"{self._path_of(study)}/decodes", request)
        return Decode(self, str(answer["decode_id"]))

    def decode_state(self, decode_id: str) -> dict[str, Any]:
        """Return the state, the progress, and the result or problem of a decode."""
        return self._call(DecodeBody, "GET", _path_of_decode(decode_id))

    def decode_events(
        self, decode_id: str, *, seconds: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield the state and progress of a decode as they change, then the ended decode.

        Parameters
        ----------
        seconds
            The stream ends after so many, at most 600.

        Raises
        ------
        TransportError
            The server does not send events, or stopped.
        """
        query = "" if seconds is None else f"?seconds={seconds}"
        for name, data in self._server.events(f"{_path_of_decode(decode_id)}/events{query}"):
            if name in ("state", "progress"):
                if ANSWERS.check(ProgressBody, data)["state"] not in FINAL_STATES:
                    yield data
            elif name == "result":
                yield ANSWERS.check(DecodeBody, data)
                return

    def publish(
        self, decode_id: str, *, name: str = "", allow_unusable: bool = False
    ) -> dict[str, Any]:
        """Publish the result of a decode: the server signs it, and devices may apply it.

        Parameters
        ----------
        name
            A name for people.
        allow_unusable
            Publish it even if its verdict is "do not use".

        Raises
        ------
        StoreError
            The decode has no result.
        DecodingError
            The verdict is "do not use", and that is not allowed.
        """
        study_id = self.decode_state(decode_id)["study_id"]
        body = {"decode_id": decode_id, "name": name, "allow_unusable": allow_unusable}
        return self._call(PublicationBody, "POST", f"/v1/studies/{study_id}/published", body)

    def publications(self, study: str) -> Iterator[dict[str, Any]]:
        """Yield the published results of a study, oldest first."""
        return self._pages(PublicationBody, f"{self._path_of(study)}/publications")

    def published(self, study: str) -> SignedResult:
        """Return the latest published result of a study, verified with the server's key.

        Raises
        ------
        NotFoundError
            Nothing was published.
        SignatureError
            The server's key has not signed it.
        """
        answer = self._server.send("GET", f"{self._path_of(study)}/published")
        signed = decode_published(answer.content)
        known = {key["key_id"]: key["public_key"] for key in self.identity()["keys"]}
        if signed.key_id.hex() not in known:
            raise ANSWERS.refuse("key")
        signed.verify(bytes.fromhex(known[signed.key_id.hex()]))
        return signed

    def identity(self) -> dict[str, Any]:
        """Return the keys that sign published results; the last one signs now."""
        return self._call(IdentityBody, "GET", "/v1/identity")

    def rotate_identity(self, *, endorse: bool = True) -> dict[str, Any]:
        """Replace the key that signs published results.

        Parameters
        ----------
        endorse
            Let the old key name its successor, so that devices follow; False where the old key may
            be in other hands.
        """
        return self._call(IdentityBody, "POST", "/v1/identity/rotate", {"endorse": endorse})

    def pause(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        self._server.sleep(seconds)

    def cancel(self, decode_id: str) -> None:
        """Cancel a decode."""
        self._call(DecodeBody, "DELETE", _path_of_decode(decode_id))


def _path_of_device(device_id: str) -> str:
    return f"/v1/devices/{require_identity(device_id, 'device')}"


def _list_bounds(search_box: SearchBox | None) -> dict[str, list[float]] | None:
    if search_box is None:
        return None
    box = {name: [float(bound) for bound in bounds] for name, bounds in search_box.items()}
    for name, bounds in box.items():
        if not all(map(math.isfinite, bounds)):
            raise ConfigError("must be finite", field=f"search_box.{name}", fix="leave it out")
    return box


def _path_of_decode(decode_id: str) -> str:
    return f"/v1/decodes/{require_identity(decode_id, 'decode')}"
