"""Python programs forked from one process that has loaded all libraries.

Most of the time of a short-lived server is its imports. :class:`Forked` starts the same programs as
``subprocess.Popen``: each has its own pid, signals, files, environment, session and exit status.
It only finds the libraries loaded. The process that forks them runs no thread, opens no file and
draws no random number; each worker of the test run has its own.

Each entry point is also started by ``exec`` somewhere, as users start it.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import gc
import importlib
import inspect
import io
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, AnyStr
from unittest import mock

from tests.bare_names import refuse_bare_names
from tests.hangs import LIMIT_S, watch

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent

_LOADED = (
    "sfumato.aggregator.app",
    "sfumato.aggregator.cli",
    "sfumato.aggregator.cli.server",
    "sfumato.aggregator.worker.process",
    "sfumato.analyst.cli",
    "sfumato.analyst.client",
    "sfumato.analyst.estimators",
    "sfumato.device_agent.agent",
    "sfumato.device_agent.cli.commands",
    "sfumato.device_agent.server",
    "sfumato.helper.app",
    "sfumato.helper.cli",
    "sfumato.helper.server",
    "httpx",
    "httptools",
    "psycopg",
    "sfumato.shared.command",
    "sfumato.simulator.cli",
    "sklearn.cluster",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite.aiosqlite",
    "uvicorn",
    "uvloop",
)
_WITHOUT_THREADS = {
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
_MOST_BYTES = 1 << 20
_VARIABLE = "TESTS_FORKING"
_SCRIPT = """
import array, json, os, signal, socket, sys

arguments = [{program!r}, *sys.argv[1:]]
try:
    control = socket.socket(fileno=int(os.environ.pop("TESTS_FORKING")))
except (KeyError, OSError):
    os.execv(arguments[0], arguments)
read, write = os.pipe()
request = dict(
    arguments=arguments, folder=os.getcwd(), environment=dict(os.environ), session=False
)
rights = socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2, write])
handed_on = signal.SIGINT, signal.SIGTERM
signal.pthread_sigmask(signal.SIG_BLOCK, handed_on)  # until there is a process that gets them
control.sendmsg([json.dumps(request).encode()], [rights])
os.close(write)
status = os.fdopen(read)
pid = int(status.readline())
for number in handed_on:
    signal.signal(number, lambda number, _: os.kill(pid, number))
signal.pthread_sigmask(signal.SIG_UNBLOCK, handed_on)
code = int(status.readline())
if code < 0:
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""
"""Whoever has the connection to the process that forks may send it requests."""

_lock = threading.Lock()
_control: socket.socket | None = None
if _VARIABLE in os.environ:  # started with the options of `put_programs`
    _control = socket.socket(fileno=int(os.environ.pop(_VARIABLE)))


class Forked(subprocess.Popen[AnyStr]):
    """A process of ``[sys.executable, "-c" or "-m", ...]``, or of a script of the environment.

    It takes the options of ``subprocess.Popen`` for pipes, folder, environment and session.
    """

    _status: io.BufferedReader

    def _execute_child(self, *positional: Any, **named: Any) -> None:
        original = subprocess.Popen._execute_child  # type: ignore[attr-defined]
        given = inspect.signature(original).bind(self, *positional, **named).arguments
        unsupported = ("preexec_fn", "pass_fds", "shell", "gids", "executable")
        assert not any(given[name] for name in unsupported), "start this by subprocess"
        read, write = os.pipe()
        self._status = open(read, "rb")  # noqa: SIM115 - closed with the exit status
        own = (given["p2cread"], given["c2pwrite"], given["errwrite"])
        request = {
            "arguments": [os.fspath(argument) for argument in given["args"]],
            "folder": os.fspath(given["cwd"] or Path.cwd()),
            "environment": dict(os.environ if given["env"] is None else given["env"]),
            "session": bool(given["start_new_session"]),
        }
        try:
            with _lock:
                files: list[int] = [one if one >= 0 else i for i, one in enumerate(own)]
                _send(_find_server(), request, [*files, write])
        finally:
            os.close(write)
            self._close_pipe_fds(  # type: ignore[attr-defined]
                *(given[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite")),
                *(given[name] for name in ("errread", "errwrite")),
            )
        answer = self._status.readline()
        assert answer, "the process that forks has ended"
        self._child_created = True
        self.pid = int(answer)

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._status, selectors.EVENT_READ)
                if selector.select(0):
                    self._read_status()
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._status, selectors.EVENT_READ)
                if not selector.select(timeout):
                    assert timeout is not None
                    raise subprocess.TimeoutExpired(self.args, timeout)
            self._read_status()
        return self.returncode

    def _read_status(self) -> None:
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if self.returncode is None:
                self.returncode = int(self._status.readline())
                self._status.close()


def run_forked(
    arguments: Sequence[str | Path],
    *,
    text: str | None = None,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end with ``text`` as its standard input."""
    with Forked(
        arguments,
        stdin=subprocess.DEVNULL if text is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=environment,
    ) as process:
        out, err = process.communicate(text)
    return subprocess.CompletedProcess(list(arguments), process.returncode, out, err)


@contextlib.contextmanager
def forking_in(*modules: ModuleType) -> Iterator[None]:
    """Fork the programs of the environment that these modules start, for the length of a block."""
    stand_in = ModuleType("subprocess")
    stand_in.__dict__.update(vars(subprocess), Popen=_start)
    # It finds there what it starts by.
    run = FunctionType(subprocess.run.__code__, vars(stand_in), "run")
    run.__kwdefaults__ = subprocess.run.__kwdefaults__
    stand_in.__dict__["run"] = run
    with contextlib.ExitStack() as stack:
        for module in modules:
            stack.enter_context(mock.patch.object(module, "subprocess", stand_in))
        yield


def _start(arguments: Sequence[str | Path], **options: Any) -> subprocess.Popen[Any]:
    is_python = arguments[0] == sys.executable and arguments[1] in ("-c", "-m")
    is_ours = Path(arguments[0]) in (BIN / "sfumato", BIN / "sfumato-agent")
    kind = Forked if is_python or is_ours else subprocess.Popen
    return kind(arguments, **options)


def put_programs(folder: Path) -> dict[str, Any]:
    """Put `sfumato`, `sfumato-agent` and `python` into a folder, as scripts that have them forked.

    They are for shell scripts that find programs by PATH. Each hands on the signals that it gets,
    and ends as its program ends.

    Returns
    -------
    dict of str to Any
        Options of ``subprocess.Popen`` for the shell, which the scripts need: without them they
        start the programs themselves. ``env`` is the environment of this process, and PATH begins
        with the folder.
    """
    for name in ("sfumato", "sfumato-agent", "python"):
        path = folder / name
        path.write_text(f"#!{BIN / 'python'} -IS\n{_SCRIPT.format(program=str(BIN / name))}")
        path.chmod(0o755)
    with _lock:
        descriptor = _find_server().fileno()
    places = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return {
        "env": os.environ | {"PATH": places, _VARIABLE: str(descriptor)},
        "pass_fds": [descriptor],
    }


def _find_server() -> socket.socket:
    """Return the connection to the process that forks, which is started by the first caller."""
    global _control
    if _control is None:
        _control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        _control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST_BYTES)
        server = subprocess.Popen(
            [sys.executable, "-m", "tests.forking", str(theirs.fileno())],
            cwd=ROOT,
            pass_fds=[theirs.fileno()],
            env=os.environ | _WITHOUT_THREADS,
        )
        theirs.close()
        atexit.register(_end, server, _control)
    return _control


def _end(server: subprocess.Popen[bytes], control: socket.socket) -> None:
    control.shutdown(socket.SHUT_RDWR)  # whoever else holds a copy of it
    control.close()
    server.wait()


def _send(control: socket.socket, request: Mapping[str, Any], files: Sequence[int]) -> None:
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))
    control.sendmsg([json.dumps(request).encode()], [rights])


def _serve(control: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Fork a child for each request until the test run ends; return, in a child, its request."""
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not control:
                    child, status = key.data
                    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                    selector.unregister(key.fileobj)
                    os.close(key.fd)
                    _tell(status, code)
                    os.close(status)
                    continue
                message, files, *_ = socket.recv_fds(control, _MOST_BYTES, 4)
                if not message:
                    return None
                status = files.pop()
                child = os.fork()
                if not child:
                    os.close(status)
                    for other in selector.get_map().values():
                        if other.fileobj is not control:
                            os.close(other.fd)
                            os.close(other.data[1])
                    return json.loads(message), files
                for file in files:
                    os.close(file)
                _tell(status, child)
                selector.register(os.pidfd_open(child), selectors.EVENT_READ, (child, status))


def _tell(status: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it
        os.write(status, b"%d\n" % number)


def _become(request: Mapping[str, Any], files: Sequence[int]) -> None:
    """Run a program in this process as the interpreter would from its start."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if request["session"]:
        os.setsid()
    watch(0.9 * LIMIT_S, ends=False)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for i, file in enumerate(files):
        os.dup2(file, i)
    for file in files:
        if file > 2:
            os.close(file)
    sys.stdin, sys.stdout, sys.stderr = (
        open(0, encoding="utf-8", closefd=False),  # noqa: SIM115
        open(1, "w", encoding="utf-8", closefd=False),  # noqa: SIM115
        open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False),  # noqa: SIM115
    )
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr  # type: ignore[misc]
    program, *arguments = request["arguments"]
    try:
        _run(program, arguments, request["folder"])
        status: Any = 0
    except SystemExit as end:
        status = end.code or 0
        if not isinstance(status, int):
            raise
    # Every other exception ends the interpreter as usual. This spares only the freeing of objects.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(status & 0xFF)


def _run(program: str, arguments: Sequence[str], folder: str) -> None:
    if Path(program).name != "python" and program != sys.executable:
        sys.argv = [program, *arguments]
        sys.path[0] = str(Path(program).parent)
        runpy.run_path(program, run_name="__main__")
        return
    if arguments == ["-"]:
        sys.argv = arguments
        sys.path[0] = folder
        exec(compile(sys.stdin.read(), "<stdin>", "exec"), {"__name__": "__main__"})
        return
    option, target, *rest = arguments
    sys.argv = [option, *rest]
    sys.path[0] = folder
    if option == "-m":
        runpy.run_module(target, run_name="__main__", alter_sys=True)
        return
    assert option == "-c", f"{option} is no option that a forked program may have"
    exec(compile(target, "<string>", "exec"), {"__name__": "__main__"})


def _main(descriptor: int) -> None:
    refuse_bare_names()
    gc.disable()  # what is loaded stays
    for name in _LOADED:
        importlib.import_module(name)
    assert len(os.listdir("/proc/self/task")) == 1, "a library has started a thread"
    gc.collect()
    gc.freeze()
    gc.enable()
    with socket.socket(fileno=descriptor) as control:
        child = _serve(control)
    if child is not None:
        _become(*child)


if __name__ == "__main__":
    _main(int(sys.argv[1]))
