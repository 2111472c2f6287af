"""The baseline: the same web stack, and nothing behind it but the check of the signature.

Run as ``python -m benchmarks.service.bare PORT N_DEVICES``.
"""

from __future__ import annotations

import sys

import uvicorn
from fastapi import FastAPI, Request, Response

from benchmarks.service.fleet import BenchDevice
from shared.wire import decode_message


def create_bare(n_devices: int) -> FastAPI:
    """Return an application that verifies uploads and forgets them."""
    app = FastAPI()
    devices = [BenchDevice(number) for number in range(n_devices)]
    keys = {device.device_id: device.public_key for device in devices}

    @app.put("/v1/studies/{study}/sketches/{sketch}")
    async def verify(study: str, sketch: str, request: Request) -> Response:
        message = decode_message(await request.body())
        message.verify(keys[message.header.device])
        return Response(status_code=201)

    return app


def main() -> None:
    """Serve it."""
    app = create_bare(int(sys.argv[2]))
    uvicorn.run(app, port=int(sys.argv[1]), log_level="error", access_log=False, ws="none")


if __name__ == "__main__":
    main()
