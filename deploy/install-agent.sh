#!/bin/sh
# Install the device agent on a Debian-like machine. Nothing is changed before all checks have passed.
#
#   /opt/sfumato                    the program, in its own environment
#   /usr/bin/sfumato-agent          its command
#   /etc/sfumato/agent.toml         its configuration; an existing one is not changed
#   /var/lib/sfumato/state          key and outbox, of the system user sfumato
#   /var/lib/sfumato/owner.ledger   what all its devices have released; never remove it with the state
#   /etc/systemd/system             its unit; neither enabled nor started
#
# A second run upgrades the program and changes neither configuration nor state.
set -eu

usage() {
    cat <<'TEXT'
usage: install-agent.sh [--from SOURCE] [--extra NAME] [--python PYTHON] [--root DIR] [--code CODE]
                        [--dry-run]

  --from SOURCE    a wheel or a checkout (default: the checkout that this script is in)
  --extra NAME     mqtt or parquet, for sources of that kind; may be repeated
  --python PYTHON  Python 3.11 or later (default: python3)
  --root DIR       install under DIR, for an image with the same Python; creates no user
  --code CODE      the output of `sfumato study token STUDY --code`; a new configuration then names
                   its server and study, and the device can enrol with the same code
  --dry-run        check, print the steps, and change nothing

examples:
  sudo deploy/install-agent.sh --dry-run
  sudo deploy/install-agent.sh --extra mqtt --code SFUMATO:...
  deploy/install-agent.sh --root /mnt/image --from sfumato-0.1.0-cp311-abi3-linux_aarch64.whl
TEXT
}

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
source=$(dirname -- "$here")
python=python3
root=
code=
extras=agent
dry_run=no
needed_mb=400
problems=0

refuse() {
    echo "install-agent: error: $*" >&2
    problems=$((problems + 1))
}

need_value() {
    [ $# -ge 2 ] || { echo "install-agent: error: $1 needs a value; see --help" >&2; exit 2; }
}

while [ $# -gt 0 ]; do
    case $1 in
        --from) need_value "$@"; source=$2; shift ;;
        --extra)
            need_value "$@"
            case $2 in
                mqtt | parquet) extras=$extras,$2 ;;
                *) refuse "--extra: $2 is not known. Use mqtt or parquet" ;;
            esac
            shift ;;
        --python) need_value "$@"; python=$2; shift ;;
        --root) need_value "$@"; root=${2%/}; shift ;;
        --code)
            need_value "$@"
            case $2 in
                SFUMATO:* | -) code=$2 ;;
                *) refuse "--code: is not what \`sfumato study token STUDY --code\` printed" ;;
            esac
            shift ;;
        --dry-run) dry_run=yes ;;
        -h | --help) usage; exit 0 ;;
        *) echo "install-agent: error: $1 is not an option; see --help" >&2; exit 2 ;;
    esac
    shift
done

program=$root/opt/sfumato
command=$root/usr/bin/sfumato-agent
config_dir=$root/etc/sfumato
config=$config_dir/agent.toml
state=$root/var/lib/sfumato
unit_dir=$root/etc/systemd/system
unit_source=$here/systemd/sfumato-agent.service

# 1. Checks. Each names the problem and the fix; nothing is changed before all have passed.

check_python() {
    if ! command -v "$python" >/dev/null 2>&1; then
        refuse "--python: there is no $python. Debian: apt install python3 python3-venv"
    elif ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        refuse "--python: $python is older than Python 3.11. Name a later one"
    elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        refuse "--python: $python cannot make environments. Debian: apt install python3-venv"
    fi
}

check_machine() {
    [ "$(uname -s)" = Linux ] || refuse "this machine runs $(uname -s), and the agent needs Linux"
    case $(uname -m) in
        x86_64 | aarch64 | arm64) ;;
        *) echo "note: there may be no ready packages for $(uname -m); then pip needs a compiler" ;;
    esac
}

check_source() {
    case $source in
        *.whl) [ -f "$source" ] || refuse "--from: there is no file $source" ;;
        *) [ -f "$source/pyproject.toml" ] || refuse "--from: $source is neither a checkout nor a wheel" ;;
    esac
    [ -f "$unit_source" ] || refuse "there is no $unit_source; keep this script in its checkout"
}

# The nearest existing folder above a path.
existing() {
    path=$1
    while [ ! -d "$path" ]; do path=$(dirname -- "$path"); done
    echo "$path"
}

check_place() {
    for path in "$program" "$command" "$config_dir" "$state" "$unit_dir"; do
        folder=$(existing "$path")
        [ -w "$folder" ] || refuse "$folder cannot be written. Run this as root, or use --root"
    done
    folder=$(existing "$program")
    free_mb=$(df -Pm "$folder" | awk 'NR == 2 { print $4 }')
    [ "$free_mb" -ge "$needed_mb" ] ||
        refuse "$folder has only $free_mb MB free, but $needed_mb MB are needed"
    if [ -e "$program" ] && [ ! -f "$program/pyvenv.cfg" ]; then
        refuse "$program exists, but not from this script. Move it away"
    fi
    if [ -e "$command" ] && [ ! -L "$command" ]; then
        refuse "$command exists, but not from this script. Move it away"
    fi
}

check_user() {
    [ -z "$root" ] || return 0
    if id sfumato >/dev/null 2>&1; then
        [ "$(id -u sfumato)" -ne 0 ] || refuse "the user sfumato is root. Give it an id of its own"
    elif ! command -v useradd >/dev/null 2>&1; then
        refuse "there is no useradd to create the user sfumato. Create it by hand"
    fi
}

check_python
check_machine
check_source
check_place
check_user
if [ "$problems" -gt 0 ]; then
    echo "install-agent: nothing was changed" >&2
    exit 2
fi

# 2. The installation; a dry run only prints the steps.

act() {
    if [ "$dry_run" = yes ]; then
        echo "would run: $*"
    else
        "$@"
    fi
}

write_config() {
    # The configuration does not contain the token of the code.
    if ! "$program/bin/python" -m sfumato.device_agent.cli init --print-config ${code:+--code "$code"} \
        >"$config.part"; then
        rm -f "$config.part"
        refuse "--code: there is no configuration yet. Run this again with a complete code, or without --code"
        exit 2
    fi
    sed -i -e 's|^state_dir = "state" |state_dir = "/var/lib/sfumato/state"|' \
        -e 's|^# ledger = |ledger = |' "$config.part"
    chmod 0640 "$config.part"
    mv "$config.part" "$config"
}

if [ -z "$root" ] && ! id sfumato >/dev/null 2>&1; then
    act useradd --system --home-dir /var/lib/sfumato --no-create-home \
        --shell /usr/sbin/nologin --user-group sfumato
fi
act mkdir -p "$config_dir" "$unit_dir" "$(dirname -- "$command")" "$(dirname -- "$program")"
act install -d -m 0700 "$state"
[ -f "$program/pyvenv.cfg" ] || act "$python" -m venv "$program"
act "$program/bin/pip" install --quiet --disable-pip-version-check --upgrade "${source}[$extras]"
# The unit runs without docstrings and columns in tracebacks, which needs its own compiled files.
act env PYTHONNODEBUGRANGES=1 "$program/bin/python" -OO -m compileall -q \
    -x '/site-packages/(pip|setuptools)/' "$program/lib"
if [ -n "$root" ] && [ "$dry_run" = no ]; then
    # In the running image the paths have no DIR in front.
    sed -i "1s|^#!$root/|#!/|" "$program"/bin/sfumato*
fi
act ln -sfn "${program#"$root"}/bin/sfumato-agent" "$command"
if [ -f "$config" ]; then
    echo "kept: $config"
elif [ "$dry_run" = yes ]; then
    echo "would write: $config"
else
    write_config
fi
act install -m 0644 "$unit_source" "$unit_dir/sfumato-agent.service"
if [ -z "$root" ]; then
    act chown sfumato:sfumato "$state"
    act chgrp sfumato "$config"
    if command -v systemctl >/dev/null 2>&1; then act systemctl daemon-reload || true; fi
fi

[ "$dry_run" = no ] || exit 0
cat <<TEXT
installed: $("$program/bin/python" -m sfumato.device_agent.cli --version)
next:
  1. edit $config: sources and budget; server and study, unless --code named them
  2. sudo -u sfumato sfumato-agent init --config /etc/sfumato/agent.toml --code CODE
     (it looks at the first records of each source, and joins only if they fit the study)
  3. sudo -u sfumato sfumato-agent check --config /etc/sfumato/agent.toml
  4. sudo systemctl enable --now sfumato-agent
TEXT
