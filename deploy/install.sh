#!/bin/sh
# Install extras of the project into /opt/sfumato, for an image: `install.sh aggregator,analyst`.
# Left out are what no service reads: the installer and its records, tests and types of libraries, symbols,
# the part of NumPy that builds others, the lexers of Pygments but Python's, and the parts of SciPy that LEFT_OUT
# names, of which the project and the rest of SciPy use none.
set -eu
LEFT_OUT="datasets differentiate fftpack integrate interpolate io misc odr signal stats"
python3 -m venv /opt/sfumato
/opt/sfumato/bin/pip install --no-cache-dir --no-compile ".[$1]"
# What does not load now is for other extras.
(cd / && /opt/sfumato/bin/python -B /load_all.py > /not-loaded)
cd /opt/sfumato/lib/python3*/site-packages
rm -rf pip pip-* setuptools setuptools-* pkg_resources _distutils_hack distutils-precedence.pth /opt/sfumato/bin/pip*
case $1 in
*analyst*) ;;
*)
    for part in $LEFT_OUT; do rm -rf "scipy/$part"; done
    rm -rf numpy/distutils
    if [ -d pygments ]; then
        find pygments/lexers -type f ! -name __init__.py ! -name _mapping.py ! -name python.py -delete
    fi
    ;;
esac
rm -rf sqlalchemy/testing alembic/testing
# NumPy and SciPy bring the same run-time library of Fortran.
for path in scipy.libs/*; do
    if cmp -s "$path" "numpy.libs/$(basename "$path")"; then ln -sf "../numpy.libs/$(basename "$path")" "$path"; fi
done
# A device runs none of these.
case $1 in agent*) rm -rf sfumato/aggregator sfumato/analyst sfumato/helper sfumato/lab \
    sfumato/learning sfumato/simulator /opt/sfumato/bin/sfumato ;; esac
find . \( -path '*.dist-info/RECORD' -o -path './scipy/*/_test*.so' \) -delete
find . -type d -name tests -prune -exec rm -rf {} +
find . -type f \( -name '*.pyi' -o -name '*.pxd' -o -name '*.[ach]' -o -name '*.hpp' -o -name '*.cpp' \) -delete
# Those in folders NAME.libs were edited after they were linked, and do not load once stripped.
find . -name '*.so' -not -path '*.libs/*' -exec strip --strip-unneeded {} +
cd /
# Bytecode is a third of what Python installs, so only what the project loads gets some.
library=$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
find "$library" /opt/sfumato -name __pycache__ -type d -prune -exec rm -rf {} +
/opt/sfumato/bin/python /load_all.py
# Load what was stripped, so that a broken one fails the build and not a server.
/opt/sfumato/bin/python -B - << 'END'
import ctypes
import os
import pathlib
import sysconfig

from sfumato.shared.core.engines import default_engine

for path in pathlib.Path(sysconfig.get_path("purelib")).rglob("*.so"):
    ctypes.CDLL(str(path))
print("engine:", default_engine().name, flush=True)
# Without clearing up: a module that was loaded and never imported cannot be.
os._exit(0)
END
