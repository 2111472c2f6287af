#!/bin/sh
# Install extras of the project into /opt/sfumato, for an image: `install.sh aggregator,analyst`.
# Left out are what no service reads: the installer, tests and types of libraries, symbols for a debugger,
# and the parts of SciPy that LEFT_OUT names, of which the project and the rest of SciPy use none.
set -eu
LEFT_OUT="datasets differentiate fftpack integrate interpolate io misc odr signal stats"
python3 -m venv /opt/sfumato
/opt/sfumato/bin/pip install --no-cache-dir ".[$1]"
cd /opt/sfumato/lib/python3*/site-packages
rm -rf pip pip-* setuptools setuptools-* pkg_resources _distutils_hack distutils-precedence.pth /opt/sfumato/bin/pip*
case $1 in *analyst*) ;; *) for part in $LEFT_OUT; do rm -rf "scipy/$part"; done ;; esac
find . -type d -name tests -prune -exec rm -rf {} +
find . -type f \( -name '*.pyi' -o -name '*.pxd' -o -name '*.[ach]' -o -name '*.hpp' -o -name '*.cpp' \) -delete
# Those in folders NAME.libs were edited after they were linked, and do not load once stripped.
find . -name '*.so' -not -path '*.libs/*' -exec strip --strip-unneeded {} +
# Load what was stripped, so that a broken one fails the build and not a server.
cd /
/opt/sfumato/bin/python - << 'END'
import ctypes
import os
import pathlib
import sysconfig

from shared.core.engines import default_engine

for path in pathlib.Path(sysconfig.get_path("purelib")).rglob("*.so"):
    ctypes.CDLL(str(path))
print("engine:", default_engine().name, flush=True)
# Without clearing up: a module that was loaded and never imported cannot be.
os._exit(0)
END
