"""The pages: `/` with studies, plans, devices and decodes; `/try/`, where a browser is a device.

The pages hold no data. The scripts of the first call the public interface as any client does, with
the key that its reader pastes; those of the second are a device, let in by an enrolment code. The
server sends the same few files to everyone.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib import resources
from importlib.resources.abc import Traversable
from typing import NamedTuple

from fastapi import FastAPI, Response

from sfumato.shared.errors import NotFoundError

PAGE = "index.html"
DEVICE_PAGE = "try/page.html"
_MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
# Files of this server, and no inline script or style. Text never becomes markup either: browsers
# with trusted types refuse `innerHTML` and the like.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)


class _Asset(NamedTuple):
    content: bytes
    media_type: str
    etag: str


def add_dashboard(app: FastAPI) -> None:
    """Serve the pages, and their files under ``/ui/``, to anyone: none holds any data."""

    @app.get("/", include_in_schema=False)
    async def get_dashboard() -> Response:
        return _answer(PAGE)

    @app.get("/try/", include_in_schema=False)
    async def get_device_page() -> Response:
        return _answer(DEVICE_PAGE)

    @app.get("/ui/{name:path}", include_in_schema=False)
    async def get_asset(name: str) -> Response:
        if name not in list_assets() or name in (PAGE, DEVICE_PAGE):
            raise NotFoundError("is not a file of this page", field="path", fix="see /")
        return _answer(name)


@cache
def list_assets() -> frozenset[str]:
    """Return the names of the files; no other path leads to a file."""
    return frozenset(_find(resources.files(__package__) / "assets"))


def _find(folder: Traversable, before: str = "") -> Iterator[str]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _find(each, f"{before}{each.name}/")
        else:
            yield before + each.name


@cache
def _read(name: str) -> _Asset:
    # Read at the first request: a server without visitors keeps none of it in memory.
    content = (resources.files(__package__) / "assets" / name).read_bytes()
    media_type = _MEDIA_TYPES[name.rpartition(".")[2]]
    return _Asset(content, media_type, f'"{sha256(content).hexdigest()[:32]}"')


def _answer(name: str) -> Response:
    asset = _read(name)
    headers = {
        "ETag": asset.etag,
        # Cached, and revalidated each time, so that page and scripts are of one release.
        "Cache-Control": "no-cache",
        "Content-Security-Policy": POLICY,
    }
    return Response(asset.content, media_type=asset.media_type, headers=headers)
