"""Build the Debian package of the device agent: ``make deb``.

The agent needs later versions of its libraries than Debian has, so the package brings them along:
the wheels of a lock file, each checked against its digest, without the parts that an agent never
runs. The kernel is compiled as for our own wheels. The files are those of a commit, and every time
in the package is the commit's, so that any machine builds the same bytes.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

from deploy.packages.steps import ROOT, BuildError, Built, describe, export, find_commit, run
from deploy.packages.wheels import TARGETS, Target, build_wheel, write_compiler

HERE = Path(__file__).parent
NAME = "sfumato-agent"
PROGRAM = Path("usr/lib/sfumato-agent")
CONFIG = Path("etc/sfumato/agent.toml")
RELAY = "sfumato-relay"
RELAY_CONFIG = Path("etc/sfumato/relay.toml")
ROOMS = ("shared", "device_agent")
"""Rooms of the project's wheel that an agent imports."""
REQUIRED = ("numpy>=2.0,<3", "cbor2>=6.0,<7", "cryptography>=47", "httpx>=0.28,<1")
MAINTAINER = "Sfumato contributors <sfumato@localhost.localdomain>"
"""Packages need an address, and there is none yet."""
SCRIPTS = ("preinst", "postinst", "prerm", "postrm")

# Never imported by an agent, and more than half of all bytes.
_LEFT_OUT = (
    *("**/tests", "**/__pycache__", "**/*.pyi", "**/*.pxd", "**/*.a", "**/*.h", "bin"),
    *("numpy/f2py", "numpy/_pyinstaller", "numpy/_core/include"),
    *("numpy/_core/lib", "numpy/random/lib", "numpy/_core/*_tests*.so", "_cffi_src"),
    *("**/direct_url.json", "**/INSTALLER", "**/REQUESTED", "**/RECORD"),
)


@dataclass(frozen=True, kw_only=True)
class Debian:
    """A release of Debian.

    Parameters
    ----------
    name
        Its name, which the lock file has too.
    number
        As versions of packages have it.
    python
        Version of its Python, for which libraries are compiled.
    glibc
        Version of its C library, the second number.
    """

    name: str
    number: int
    python: str
    glibc: int

    @property
    def lock(self) -> Path:
        """The file of libraries, with their digests."""
        return HERE / f"{self.name}.lock"


DEBIANS = {
    each.name: each
    for each in (
        Debian(name="bookworm", number=12, python="3.11", glibc=36),
        Debian(name="trixie", number=13, python="3.13", glibc=41),
    )
}
ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Build packages; return the exit status."""
    parser = argparse.ArgumentParser(prog="make deb", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--commit", default="HEAD", help="what is built (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="default: dist/")
    parser.add_argument(
        "--debian", choices=DEBIANS, default="bookworm", help="release (default: %(default)s)"
    )
    parser.add_argument(
        "--architecture",
        choices=ARCHITECTURES,
        action="append",
        help="may be repeated (default: both)",
    )
    parser.add_argument(
        "--revision", type=int, default=1, help="number of this build of a version (default: 1)"
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="also install, upgrade, remove and purge it in a clean Debian; as root",
    )
    parser.add_argument(
        "--lock", action="store_true", help="choose the newest libraries, write them down, end"
    )
    parser.add_argument("--json", action="store_true", help="one JSON line")
    options = parser.parse_args(arguments)
    debian = DEBIANS[options.debian]
    architectures = options.architecture or list(ARCHITECTURES)
    try:
        if options.lock:
            debian.lock.write_text(write_lock(debian), encoding="utf-8")
            return 0
        _require_tools()
        # By its whole name: a branch may move while this builds.
        commit, _ = find_commit(options.commit)
        built = {
            architecture: build(debian, architecture, commit, options.output, options.revision)
            for architecture in architectures
        }
        checked = None
        if options.check:
            from deploy.packages.deb_check import check

            own = run(["dpkg", "--print-architecture"]).stdout.strip()
            if own not in built:
                raise BuildError(f"--check: this machine is {own}; add --architecture {own}")
            package = options.output / built[own].name
            checked = check(debian, package, commit, options.revision)
    except BuildError as error:
        print(f"deb: {error}", file=sys.stderr)
        return 1
    if options.json or options.check:
        found = [asdict(each) for each in built.values()]
        print(json.dumps({"built": found, "checked": checked}))
    else:
        for each in built.values():
            print(f"{each.name}\n  {each.n_bytes:,} bytes, sha256 {each.sha256}\n  {each.checked}")
    return 0 if checked is None or checked["ok"] else 1


def _require_tools() -> None:
    if shutil.which("dpkg-deb") is None:
        raise BuildError("dpkg-deb is missing; build on Debian or Ubuntu, or install dpkg")


def build(debian: Debian, architecture: str, commit: str, output: Path, revision: int) -> Built:
    """Build a package twice, and its bill of materials; refuse builds that differ."""
    from deploy.packages.bom import describe_deb, write_bom

    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sfumato-deb-") as name:
        folder = Path(name)
        packages = [
            build_once(debian, architecture, commit, folder / attempt, revision)
            for attempt in ("first", "second")
        ]
        first, second = (package.read_bytes() for package in packages)
        if first != second:
            raise BuildError(f"{packages[0].name}: two builds differ")
        package = Path(shutil.copy(packages[0], output))
        bom = describe_deb(
            package,
            folder / "first/root" / PROGRAM,
            read_lock(folder / "first/source" / debian.lock.relative_to(ROOT)),
            depends=depends_of(debian),
            epoch=find_commit(commit)[1],
        )
        write_bom(bom, output / f"{package.name}.cdx.json")
    return describe(package, f"{debian.name} {architecture}", ["built twice, equal"])


def build_once(debian: Debian, architecture: str, commit: str, folder: Path, revision: int) -> Path:
    """Build a package from the files of a commit; return its path."""
    folder.mkdir()
    source, root = folder / "source", folder / "root"
    epoch = export(source, commit)
    target = next(
        each
        for each in TARGETS
        if each.machine == ARCHITECTURES[architecture] and "manylinux" in each.tag
    )
    program = root / PROGRAM
    install_libraries(source / debian.lock.relative_to(ROOT), debian, target, program)
    wheel = build_wheel(source, folder / "wheel", write_compiler(folder, target), target, epoch)
    shutil.unpack_archive(wheel, folder / "unpacked", "zip")
    package = folder / "unpacked/sfumato"
    for name in ROOMS:
        shutil.copytree(package / name, program / "sfumato" / name)
    shutil.copy(package / "__init__.py", program / "sfumato")
    # Licences, and what is said about this version.
    (information,) = (folder / "unpacked").glob("*.dist-info")
    shutil.copytree(information, program / information.name)
    leave_out(program)
    require_machine(program, target)
    version = f"{read_version(source)}-{revision}~deb{debian.number}"
    write_files(root, source, config=make_config(folder / "unpacked"))
    write_changelog(root, debian, version, epoch)
    write_control(root, debian, architecture, version)
    return pack(root, folder / f"{NAME}_{version}_{architecture}.deb", epoch)


def read_version(source: Path) -> str:
    """Return the version that the exported sources have."""
    tree = ast.parse((source / "shared/__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__version__":
            return str(ast.literal_eval(node.value))
    raise BuildError("shared/__init__.py: has no __version__; put it back")


# ---- libraries ----


def list_platforms(debian: Debian, target: Target) -> list[str]:
    """Return pip's options for a machine that is not this one."""
    tags = [f"manylinux_2_{minor}_{target.machine}" for minor in range(5, debian.glibc + 1)]
    platforms = [option for tag in tags for option in ("--platform", tag)]
    older = ["--platform", f"manylinux2014_{target.machine}"]
    python = ["--python-version", debian.python, "--implementation", "cp"]
    return [*platforms, *older, *python, "--only-binary", ":all:"]


def install_libraries(lock: Path, debian: Debian, target: Target, program: Path) -> None:
    """Install the libraries of the lock file; pip compares each with its digest."""
    run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"),
            *("--require-hashes", "-r", lock, "--target", program),
            *list_platforms(debian, target),
        ]
    )


def write_lock(debian: Debian) -> str:
    """Choose the newest libraries; return the lock file, with digests for all architectures."""
    versions: dict[str, str] = {}
    digests: dict[str, set[str]] = {}
    for target in TARGETS:
        if "manylinux" not in target.tag:
            continue
        report = run(
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"),
                *("--ignore-installed", "--target", HERE / "nowhere", "--report", "-"),
                *list_platforms(debian, target),
                *REQUIRED,
            ]
        )
        for item in json.loads(report.stdout)["install"]:
            name, version = item["metadata"]["name"].lower(), item["metadata"]["version"]
            if versions.setdefault(name, version) != version:
                raise BuildError(f"{name}: the architectures have other versions; name one")
            digest = item["download_info"]["archive_info"]["hashes"]["sha256"]
            digests.setdefault(name, set()).add(digest)
    lines = [
        " \\\n    ".join(
            [f"{name}=={versions[name]}", *(f"--hash=sha256:{d}" for d in sorted(digests[name]))]
        )
        for name in sorted(versions)
    ]
    head = f"# Libraries of the agent on Debian {debian.name}, written by `make deb ARGS=--lock`."
    return "\n".join([head, *lines, ""])


def read_lock(path: Path) -> Mapping[str, tuple[str, tuple[str, ...]]]:
    """Return version and digests of each library of a lock file."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    found = {}
    for line in text.splitlines():
        match = re.fullmatch(r"([\w.-]+)==(\S+)((?:\s+--hash=sha256:[0-9a-f]{64})+)", line.strip())
        if match:
            digests = tuple(re.findall(r"sha256:([0-9a-f]{64})", match[3]))
            found[match[1]] = match[2], digests
        elif line.strip() and not line.startswith("#"):
            raise BuildError(f"{path.name}: {line!r} is no pinned library; run --lock")
    return found


def leave_out(program: Path) -> None:
    """Remove what an agent never runs."""
    for pattern in _LEFT_OUT:
        for path in sorted(program.glob(pattern)):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def require_machine(program: Path, target: Target) -> None:
    """Refuse a library that was compiled for another machine."""
    wanted = {"x86_64": 62, "aarch64": 183}[target.machine]
    libraries = [path for path in program.rglob("*.so*") if path.is_file()]
    if not any(path.name.startswith("_native") for path in libraries):
        raise BuildError("the kernel was not compiled")
    for path in libraries:
        # The field e_machine of ELF.
        if int.from_bytes(path.read_bytes()[18:20], "little") != wanted:
            raise BuildError(f"{path.relative_to(program)}: is not of {target.machine}")


# ---- the package ----


def write_files(root: Path, source: Path, *, config: str) -> None:
    """Write the command, the configurations, the units and the documents."""
    scripts = source / "deploy/packages/debian"
    files: dict[Path, tuple[bytes, int]] = {
        Path("usr/bin", NAME): ((scripts / NAME).read_bytes(), 0o755),
        CONFIG: (config.encode(), 0o640),
        RELAY_CONFIG: ((scripts / "relay.toml").read_bytes(), 0o640),
        **{
            Path("usr/lib/systemd/system", f"{name}.service"): (
                (source / f"deploy/systemd/{name}.service").read_bytes(),
                0o644,
            )
            for name in (NAME, RELAY)
        },
        Path("usr/share/doc", NAME, "copyright"): (write_copyright(root / PROGRAM), 0o644),
        Path("usr/share/doc", NAME, "README.md"): (
            (source / "docs/how-to/agent.md").read_bytes(),
            0o644,
        ),
        Path("usr/share/lintian/overrides", NAME): (
            (scripts / "lintian-overrides").read_bytes(),
            0o644,
        ),
    }
    for path, (data, mode) in files.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        place.chmod(mode)
    control = root / "DEBIAN"
    control.mkdir()
    for script in SCRIPTS:
        shutil.copy(scripts / script, control)
        (control / script).chmod(0o755)
    (control / "conffiles").write_text(f"/{CONFIG}\n/{RELAY_CONFIG}\n")


def write_changelog(root: Path, debian: Debian, version: str, epoch: int) -> None:
    """Write the changelog that Debian wants, which names our own."""
    text = (
        f"{NAME} ({version}) {debian.name}; urgency=medium\n\n"
        f"  * Version {version.partition('-')[0]}; its CHANGELOG.md lists the changes.\n\n"
        f" -- {MAINTAINER}  {format_datetime(datetime.fromtimestamp(epoch, UTC))}\n"
    )
    path = root / "usr/share/doc" / NAME / "changelog.Debian.gz"
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def make_config(code: Path) -> str:
    """Return the configuration that the package brings, as the code of the commit has it."""
    program = "import sfumato.device_agent.cli.sample as sample; print(sample.SAMPLE, end='')"
    text = run([sys.executable, "-B", "-c", program], folder=code, PYTHONPATH=str(code)).stdout
    for old, new in (
        ('state_dir = "state" ', 'state_dir = "/var/lib/sfumato/state"'),
        # Explicit, because commands and the service must count in one file.
        ("# ledger = ", "ledger = "),
    ):
        if old not in text:
            raise BuildError(f"device_agent/cli/sample.py: has no {old!r}; change deb.py")
        text = text.replace(old, new)
    return text


def write_copyright(program: Path) -> bytes:
    """Name our licence, and those of the libraries, whose texts lie beside them."""
    lines = [
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/",
        "Upstream-Name: sfumato",
        "",
        "Files: *",
        "Copyright: 2026 the Sfumato contributors",
        "License: Apache-2.0",
        " See /usr/share/common-licenses/Apache-2.0.",
    ]
    for information in sorted(program.glob("*.dist-info")):
        name = information.name.partition("-")[0]
        if name == "sfumato":
            continue
        metadata = (information / "METADATA").read_text(encoding="utf-8")
        licence = re.search(r"^License(?:-Expression)?: (.+)$", metadata, re.MULTILINE)
        lines += [
            "",
            f"Files: /{PROGRAM}/{name}*",
            f"Copyright: the authors of {name}, as its texts say",
            f"License: {licence[1] if licence else 'see its texts'}",
            f" The texts are in /{PROGRAM}/{information.name}.",
        ]
    return "\n".join([*lines, ""]).encode()


def depends_of(debian: Debian) -> list[str]:
    """Return the Debian packages that the agent needs."""
    major, minor = debian.python.split(".")
    return [
        f"python3 (>= {debian.python})",
        f"python3 (<< {major}.{int(minor) + 1})",
        "libc6 (>= 2.28)",
        "libgcc-s1",
        "libstdc++6",
        "adduser",
    ]


def write_control(root: Path, debian: Debian, architecture: str, version: str) -> None:
    """Write the fields of the package, and the digests of its files."""
    files = [path for path in sorted(_files_of(root)) if "DEBIAN" not in path.parts]
    kilobytes = sum(-(-path.lstat().st_size // 1024) for path in files)
    fields = {
        "Package": NAME,
        "Version": version,
        "Architecture": architecture,
        "Maintainer": MAINTAINER,
        "Installed-Size": str(kilobytes),
        "Depends": ", ".join(depends_of(debian)),
        "Recommends": "ca-certificates",
        "Section": "net",
        "Priority": "optional",
        "Description": "differentially private sketches of a device's records\n"
        " The agent folds the records of this device into a sketch, adds noise to it\n"
        " once per time window, signs it and sends it to the server of a study. No\n"
        " record leaves the device. A ledger counts what each record has lost, and\n"
        " never exceeds its owner's budget. A relay, which is another service, forwards\n"
        " the messages of devices that have no HTTPS.",
    }
    text = "".join(f"{name}: {value}\n" for name, value in fields.items())
    (root / "DEBIAN/control").write_text(text, encoding="utf-8")
    sums = [
        f"{hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()}  "
        f"{path.relative_to(root)}\n"
        for path in files
        if path.relative_to(root) != CONFIG
    ]
    (root / "DEBIAN/md5sums").write_text("".join(sums), encoding="utf-8")


def _files_of(root: Path) -> Iterable[Path]:
    return (path for path in root.rglob("*") if path.is_file())


def pack(root: Path, package: Path, epoch: int) -> Path:
    """Make the package; times of files are the commit's, modes do not depend on the umask."""
    for path in [root, *root.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
        elif PROGRAM in [Path(*path.relative_to(root).parts[:3])]:
            path.chmod(0o644)
        os.utime(path, (epoch, epoch))
    done = subprocess.run(
        [
            "dpkg-deb",
            "--root-owner-group",
            "-Zxz",
            "-z2",
            "--threads-max=1",
            "--build",
            root,
            package,
        ],
        env={**os.environ, "SOURCE_DATE_EPOCH": str(epoch)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildError(f"dpkg-deb: {done.stdout}{done.stderr}")
    return package


if __name__ == "__main__":
    sys.exit(main())
