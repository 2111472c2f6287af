import hashlib
import zipfile
from pathlib import Path

import pytest

from benchmarks.packages import PackageUnavailableError, PinnedPackage, fetch_package, read_member


def pin(folder: Path, content: bytes) -> PinnedPackage:
    """Write a wheel that holds one file, and pin it."""
    path = folder / "thing-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("thing/data.csv", content)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return PinnedPackage(package="thing", version="1", file_name=path.name, sha256=digest)


def test_a_file_is_read_from_a_wheel_that_is_there(cache: Path) -> None:
    assert read_member(pin(cache, b"a,b"), "thing/data.csv") == b"a,b"


def test_a_wheel_of_other_bytes_is_refused_and_the_message_says_which_to_remove(
    cache: Path,
) -> None:
    wheel = pin(cache, b"a,b")
    path = cache / wheel.file_name
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(PackageUnavailableError, match=f"SHA-256 .*Remove {path}"):
        fetch_package(wheel)


def test_without_an_index_the_message_names_package_and_way_out(cache: Path) -> None:
    wheel = PinnedPackage(
        package="river", version="0.26.1", file_name="river.whl", sha256="00" * 32
    )
    with pytest.raises(PackageUnavailableError) as caught:
        fetch_package(wheel)
    assert caught.value.field == "river==0.26.1"
    assert "could not be fetched: ERROR" in caught.value.rule
    assert f"put river.whl into {cache}" in str(caught.value.fix)
