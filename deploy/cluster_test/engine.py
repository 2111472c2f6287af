"""Build images and run the compose cluster, by podman or by Docker."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sfumato.shared import __version__
from sfumato.shared.errors import SketchError

DEPLOY = Path(__file__).parents[1]
COMPOSE = DEPLOY / "compose.yaml"
IMAGES = ("server", "helper", "agent", "analyst", "stations")
BASE = "localhost/sfumato-base"
SUITE = "bookworm"
_STAND_INS = {
    "postgres": "SFUMATO_POSTGRES_IMAGE",
    "caddy": "SFUMATO_CADDY_IMAGE",
    "prometheus": "SFUMATO_PROMETHEUS_IMAGE",
}
"""Images of `deploy/debian`, and the variables by which the compose file takes them."""
_AUTHORITIES = Path("/etc/ssl/certs")
_PACKAGES = "python3,python3-venv,ca-certificates"


class ClusterError(SketchError):
    """A container or a device failed; the message holds its output."""


def run(
    words: Sequence[str],
    *,
    text: str | None = None,
    env: Mapping[str, str] | None = None,
    check: bool = True,
    dies_after_s: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command; one that is to die is killed after a time, unless it has ended by then.

    Raises
    ------
    ClusterError
        It failed, and ``check`` is set.
    """
    try:
        done = subprocess.run(
            words,
            input=text,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, **(env or {})},
            timeout=dies_after_s,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 0, "", "")
    if check and done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise ClusterError(f"`{' '.join(words[:4])}` ended with {done.returncode}: {said}")
    return done


def choose_engine(name: str | None) -> str:
    """Return the program that runs containers: podman, or else Docker.

    Raises
    ------
    ClusterError
        Neither is installed.
    """
    for each in (name,) if name else ("podman", "docker"):
        if shutil.which(each):
            return each
    raise ClusterError("engine: neither podman nor Docker is installed. Install one of them")


def make_base(engine: str) -> str:
    """Make a base image from Debian's packages, where no registry of images can be reached."""
    if run([engine, "image", "inspect", BASE], check=False).returncode == 0:
        return BASE
    if not shutil.which("mmdebstrap"):
        raise ClusterError(
            "base: mmdebstrap is not installed. Install it, or give --base docker.io/library/python"
            ":3.13-slim where that can be pulled"
        )
    with tempfile.TemporaryDirectory() as folder:
        archive = str(Path(folder) / "base.tar")
        run(["mmdebstrap", "--variant=minbase", f"--include={_PACKAGES}", SUITE, archive])
        run([engine, "import", archive, f"{BASE}:latest"])
    return BASE


def name_image(target: str) -> str:
    """Return the name of one of the project's images, as the compose file has it."""
    return f"localhost/sfumato-{target}:{__version__}"


def build_images(engine: str, base: str) -> None:
    """Build the project's images."""
    for target in IMAGES:
        words = [engine, "build", "--build-arg", f"BASE_IMAGE={base}"]
        if engine == "podman":
            # Its own format has no health commands.
            words += ["--format", "docker", "--network", "host"]
            # pip trusts what this machine trusts.
            if _AUTHORITIES.is_dir():
                words += ["--volume", f"{_AUTHORITIES}:{_AUTHORITIES}:ro"]
        words += ["--file", str(DEPLOY / "Dockerfile"), "--target", target]
        run([*words, "--tag", name_image(target), str(DEPLOY.parent)])


def build_stand_ins(engine: str, base: str) -> dict[str, str]:
    """Build Postgres and the others from Debian's packages; return the variables that name them."""
    folder = DEPLOY / "debian"
    for name in _STAND_INS:
        words = [engine, "build", "--build-arg", f"BASE_IMAGE={base}", "--target", name]
        if engine == "podman":
            words += ["--network", "host"]
        run([*words, "--tag", f"localhost/sfumato-{name}", str(folder)])
    return {variable: f"localhost/sfumato-{name}" for name, variable in _STAND_INS.items()}


def measure_images(engine: str) -> dict[str, dict[str, int]]:
    """Return the bytes of each image: all of it, and of those what is ours and not the system's."""
    sizes = {}
    for name in IMAGES:
        image = name_image(name)
        shown = run([engine, "image", "inspect", "--format", "{{.Size}}", image])
        measure = ["du", image, "--summarize", "--bytes", "--one-file-system", "/opt"]
        alone = ["--rm", "--network", "none", "--no-healthcheck", "--entrypoint"]
        counted = run([engine, "run", *alone, *measure])
        own = int(counted.stdout.split()[0])
        sizes[name] = {"bytes": int(shown.stdout.split()[0]), "bytes_beyond_system": own}
    return sizes


@dataclass(kw_only=True)
class Cluster:
    """The compose cluster of a project name of its own.

    Parameters
    ----------
    engine
        ``podman`` or ``docker``.
    port
        Port of the proxy, on the loopback address.
    images
        Variables that replace public images.
    """

    engine: str
    port: int
    images: Mapping[str, str] = field(default_factory=dict)
    name: str = "sfumato-test"

    @property
    def url(self) -> str:
        """The proxy's address."""
        return f"https://localhost:{self.port}"

    def up(self) -> None:
        """Start all services in the background."""
        self._compose("up", "--detach", "--no-build")

    def down(self) -> None:
        """Remove containers, networks and volumes."""
        self._compose("--profile", "tools", "--profile", "monitoring", "down", "--volumes")

    def _compose(self, *words: str) -> None:
        here = Path(sys.executable).with_name("podman-compose")
        podman = str(here) if here.exists() else "podman-compose"
        program = [podman] if self.engine == "podman" else ["docker", "compose"]
        env = {**self.images, "SFUMATO_PORT": str(self.port)}
        run([*program, "--project-name", self.name, "--file", str(COMPOSE), *words], env=env)

    def list_containers(self, service: str) -> list[str]:
        """Return the names of a service's containers, in order."""
        marks = {"project": self.name, "service": service}
        filters = [f"--filter=label=com.docker.compose.{key}={marks[key]}" for key in marks]
        shown = run([self.engine, "ps", "--all", *filters, "--format", "{{.Names}}"])
        names = sorted(shown.stdout.split())
        if not names:
            raise ClusterError(f"{service}: has no container")
        return names

    def kill(self, container: str) -> None:
        """End the processes of a container at once."""
        run([self.engine, "kill", "--signal", "KILL", container])

    def start(self, container: str) -> None:
        """Start a container again; one that its restart policy has started stays."""
        run([self.engine, "start", container])

    def is_healthy(self, container: str) -> bool:
        """Run the health command of a container."""
        shown = run([self.engine, "inspect", "--format", "{{json .Config.Healthcheck}}", container])
        first = next(line for line in shown.stdout.splitlines() if line.startswith(("{", "null")))
        kind, *words = (json.loads(first) or {"Test": ["NONE"]})["Test"]
        if kind == "CMD-SHELL":
            words = ["/bin/sh", "-c", *words]
        return self.succeeds(container, *words)

    def succeeds(self, container: str, *words: str) -> bool:
        """Run a command in a container; return whether its status was 0."""
        return run([self.engine, "exec", container, *words], check=False).returncode == 0

    def execute(self, container: str, *words: str, text: str | None = None) -> str:
        """Run a command in a container; return what it prints."""
        return run(
            [self.engine, "exec", "--interactive", container, *words], text=text or ""
        ).stdout

    def copy_out(self, container: str, path: str, target: Path) -> None:
        """Copy a file out of a container, running or not."""
        run([self.engine, "cp", f"{container}:{path}", str(target)])

    def read_log(self, container: str) -> str:
        """Return the end of a container's log."""
        done = run([self.engine, "logs", "--tail", "20", container], check=False)
        return done.stdout + done.stderr
