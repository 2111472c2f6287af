"""Copy what an image runs with into a folder, and nothing else: ``collect_image.py FOLDER``.

That is /opt/sfumato, Python's standard library, a shell with a few commands, the shared libraries
that these load, and the files of the system that they read. What a later layer removes would still
travel in the layer below, so an image begins empty and gets this folder.
"""

from __future__ import annotations

import glob
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

COMMANDS = """
    sh cat chmod cp cut date df dirname du echo env false grep head id ls mkdir mktemp mv printf
    pwd readlink rm rmdir sed sha256sum sleep sort stat tail test touch tr true uname wc
"""
"""Commands of an image: those of the scripts in `deploy/cluster`, and some to look around with."""
SYSTEM = """
    /bin /lib /lib64 /sbin /etc/debian_version /etc/group /etc/ld.so.conf /etc/ld.so.conf.d
    /etc/localtime /etc/nsswitch.conf /etc/os-release /etc/passwd /run/sfumato
    /usr/lib/locale/C.* /usr/lib/os-release /usr/lib/ssl /usr/share/ca-certificates
    /usr/share/zoneinfo /var/lib/sfumato /var/lib/sfumato-journal /var/lib/sfumato-ledger
"""
"""Files, links and whole folders of the system, where it has them. The Dockerfile copies the
certificates: while an image is built, another machine's may lie over them."""
EMPTY = "/dev /proc /root /run /sys /tmp /var/lib /var/tmp"
"""Folders of which only the rights are copied."""
LEFT_OUT = """
    config-* distutils ensurepip idlelib lib2to3 pydoc_data site-packages dist-packages test
    tkinter turtle.py turtledemo unittest/test xmlrpc imaplib.py mailbox.py nntplib.py
    smtpd.py telnetlib.py lib-dynload/nis.* lib-dynload/_dbm.* lib-dynload/_*test*
    lib-dynload/xxlimited* lib-dynload/_curses* lib-dynload/readline.*
"""
"""Parts of the standard library that no service needs."""
STATUS = Path("/var/lib/dpkg/status")


def list_library() -> Iterator[Path]:
    """Yield the files of Python's standard library."""
    library = Path(sysconfig.get_path("stdlib"))
    left_out = {path for pattern in LEFT_OUT.split() for path in library.glob(pattern)}
    for part in library.iterdir():
        if part not in left_out:
            inside = list_files(part) if part.is_dir() else [part]
            yield from (path for path in inside if left_out.isdisjoint((path, *path.parents)))


def list_files(folder: Path) -> Iterator[Path]:
    """Yield the files and links in a folder and those below it."""
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            yield path


def list_libraries(files: Collection[Path]) -> Iterator[Path]:
    """Yield the shared libraries of the system that programs and libraries load.

    Raises
    ------
    FileNotFoundError
        One is neither in the system nor among the files.
    """
    # Wheels bring some, which are found by way of the module that loads them.
    brought = {path.name for path in files}
    for path in files:
        if path.is_symlink():
            continue
        with path.open("rb") as file:
            if file.read(4) != b"\x7fELF":
                continue
        told = subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout
        missing = set(re.findall(r"^\s+(\S+) => not found", told, re.M)) - brought
        if missing:
            raise FileNotFoundError(f"{path} needs {', '.join(missing)}: the base image lacks it")
        # A library by its place, and the loader, whose place is its name.
        yield from map(Path, re.findall(r"^\s+(?:\S+ => )?(/\S+) \(0x", told, re.M))


def follow(path: Path) -> Iterator[Path]:
    """Yield a file, or a link and what it leads to, each by a path without links before its end."""
    while True:
        path = path.parent.resolve() / path.name
        if not path.is_symlink():
            break
        yield path
        path = path.parent / path.readlink()
    if path.is_file():
        yield path


def list_all() -> list[Path]:
    """Return what is copied: files and links one by one, and folders of the system.

    Raises
    ------
    FileNotFoundError
        A command or a library is not there.
    """
    commands = [Path("/usr/bin", name) for name in COMMANDS.split()]
    missing = [str(path) for path in commands if not path.exists()]
    if missing:
        raise FileNotFoundError(f"the base image lacks {', '.join(missing)}")
    python = Path(shutil.which("python3") or sys.executable)
    named = [*commands, python, *list_library(), *list_files(Path("/opt/sfumato"))]
    files = {end for path in named for end in follow(path)}
    files |= {end for path in list_libraries(files) for end in follow(path)}
    files |= {Path(path) for pattern in SYSTEM.split() for path in glob.glob(pattern)}
    return sorted(files)


def describe_packages(files: Sequence[Path]) -> str:
    """Return Debian's records of the packages of files, for programs that look for weak ones."""
    # A record names a file by the folder that it had before /usr took that in.
    names = [name for path in files for name in (str(path), str(path).removeprefix("/usr"))]
    told = subprocess.run(
        ["dpkg-query", "--search", *names], capture_output=True, text=True, check=False
    ).stdout
    packages = {name.partition(":")[0] for name in re.findall(r"^(\S+): /", told, re.M)}
    records = STATUS.read_text(encoding="utf-8").strip().split("\n\n")
    kept = [each for each in records if each.split()[1] in packages]
    return "\n\n".join(kept) + "\n"


def require_loads(target: Path) -> None:
    """Load the project where only the folder is there.

    Raises
    ------
    SystemExit
        Something does not load that did when it was installed.
    """
    script = Path(__file__).with_name("load_all.py").read_text(encoding="utf-8")
    done = subprocess.run(
        ["chroot", str(target), "/opt/sfumato/bin/python", "-B", "-"],
        input=script,
        capture_output=True,
        text=True,
        check=False,
    )
    before = Path("/not-loaded").read_text(encoding="utf-8").splitlines()
    lacking = sorted({*done.stdout.splitlines()} - {*before})
    if done.returncode or lacking:
        sys.exit("\n".join(["collect_image: not loaded in the image:", *lacking, done.stderr]))


def main(target: Path) -> None:
    """Fill a folder that does not exist yet."""
    target.mkdir()
    for path in map(Path, EMPTY.split()):
        made = target / path.relative_to("/")
        made.mkdir(parents=True, exist_ok=True)
        made.chmod(path.stat().st_mode & 0o7777)
    files = list_all()
    copy = ["cp", "--archive", "--parents", f"--target-directory={target}"]
    # From /, because --parents looks for the folders of each file where it runs.
    relative = [str(path.relative_to("/")) for path in files]
    if subprocess.run([*copy, *relative], cwd="/", check=False).returncode:
        sys.exit("collect_image: cp has not copied everything, see above")
    subprocess.run(["ldconfig", "-r", target], check=True)
    require_loads(target)
    if STATUS.exists():
        status = target / STATUS.relative_to("/")
        status.parent.mkdir(parents=True, exist_ok=True)
        status.write_text(describe_packages(files), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
