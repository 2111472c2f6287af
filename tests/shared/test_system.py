"""Each case is a process of its own: what is set cannot be unset."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from sfumato.shared import system

PROGRAM = """
import ctypes, sys, threading
from sfumato.shared.system import share_one_heap

if "shared" in sys.argv:
    share_one_heap()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
meeting = threading.Barrier(4)

def allocate():
    meeting.wait()
    assert libc.malloc(5000)
    meeting.wait()

threads = [threading.Thread(target=allocate) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc.malloc_stats()
"""


def count_heaps(*arguments: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=True
    )
    return done.stderr.count("Arena ")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have one heap")
def test_threads_share_one_heap_once_they_are_told_to() -> None:
    assert count_heaps() > 1
    assert count_heaps("shared") == 1


def test_a_c_library_without_these_calls_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "_find", lambda _: None)
    system.share_one_heap()
    system.give_back()


def test_a_file_that_others_may_read_is_warned_of_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "sfumato.db"
    assert system.describe_readers(path) is None
    path.touch(mode=0o600)
    assert system.describe_readers(path) is None
    path.chmod(0o640)
    said = system.describe_readers(path)
    assert said is not None
    assert "\n" not in said
    assert f"chmod 600 {path}*" in said
