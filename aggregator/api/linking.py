"""Links of OpenAPI: which answer gives what another call needs, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Call = tuple[str, str]

_STUDY = "/v1/studies/{study}"
_OF_STUDY: tuple[Call, ...] = (
    ("get", _STUDY),
    ("patch", _STUDY),
    ("get", f"{_STUDY}/plan"),
    ("post", f"{_STUDY}/tokens"),
    ("get", f"{_STUDY}/tokens"),
    ("get", f"{_STUDY}/devices"),
    ("get", f"{_STUDY}/refusals"),
    ("get", f"{_STUDY}/privacy"),
    ("get", f"{_STUDY}/utility"),
    ("get", f"{_STUDY}/sketches"),
    ("post", f"{_STUDY}/snapshots"),
    ("post", f"{_STUDY}/decodes"),
)
_LINKS: dict[Call, tuple[tuple[str, str, tuple[Call, ...]], ...]] = {
    # Each: the parameter, where the answer has its value, and the calls that take it.
    ("post", "/v1/studies"): (("study", "/study_id", _OF_STUDY),),
    ("get", "/v1/studies"): (("study", "/items/0/study_id", _OF_STUDY),),
    ("post", f"{_STUDY}/snapshots"): (
        ("snapshot", "/snapshot_id", (("get", "/v1/snapshots/{snapshot}"),)),
    ),
    ("post", f"{_STUDY}/decodes"): (
        (
            "decode",
            "/decode_id",
            (("get", "/v1/decodes/{decode}"), ("delete", "/v1/decodes/{decode}")),
        ),
        ("snapshot", "/snapshot_id", (("get", "/v1/snapshots/{snapshot}"),)),
    ),
    ("get", "/v1/decodes/{decode}"): (
        ("snapshot", "/snapshot_id", (("get", "/v1/snapshots/{snapshot}"),)),
    ),
    ("get", "/v1/snapshots/{snapshot}"): (("study", "/study_id", _OF_STUDY),),
    ("post", "/v1/enrolments"): (
        ("device", "/device_id", (("post", "/v1/devices/{device}/exclude"),)),
    ),
    ("get", f"{_STUDY}/devices"): (
        ("device", "/items/0/device_id", (("post", "/v1/devices/{device}/exclude"),)),
    ),
    ("post", f"{_STUDY}/tokens"): (("token", "/token_id", (("delete", "/v1/tokens/{token}"),)),),
    ("get", f"{_STUDY}/tokens"): (
        ("token", "/items/0/token_id", (("delete", "/v1/tokens/{token}"),)),
    ),
    ("post", "/v1/keys"): (("key", "/key_id", (("delete", "/v1/keys/{key}"),)),),
}


def describe_links(document: dict[str, Any]) -> dict[str, Any]:
    """Add to each call of an OpenAPI document the calls that its answer leads to."""
    paths = document["paths"]
    for method, path in _LINKS:
        for status, response in paths[path][method]["responses"].items():
            if status.startswith("2"):
                response["links"] = dict(_links_of(paths, (method, path)))
    return document


def _links_of(paths: dict[str, Any], call: Call) -> Iterator[tuple[str, dict[str, Any]]]:
    for parameter, pointer, targets in _LINKS[call]:
        for method, path in targets:
            operation = paths[path][method]
            yield (
                operation["summary"].replace(" ", ""),
                {
                    "operationId": operation["operationId"],
                    "parameters": {f"path.{parameter}": f"$response.body#{pointer}"},
                    "description": operation["description"].splitlines()[0],
                },
            )
