#!/bin/sh
# Make (or complete) a virtual environment from a lock file: tools/venv.sh DIR LOCKFILE
#
# Takes the first Python from 3.11 to 3.14 that it finds. Packages are installed by hash, if the file has hashes.
set -eu
dir=$1
lock=$2

supported() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' >/dev/null 2>&1; }

if ! [ -x "$dir/bin/python" ]; then
    python=
    # python3 first, since it is the user's choice; the others only if it is too old.
    for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python; do
        if supported "$candidate"; then python=$candidate; break; fi
    done
    if [ -z "$python" ]; then
        echo "labtui needs Python 3.11 to 3.14; none was found on PATH." >&2
        echo "  hint: install one, or say which: make PYTHON=/path/to/python3.12 ..." >&2
        exit 2
    fi
    echo "Making $dir with $("$python" --version) ..." >&2
    if ! "$python" -m venv "$dir" 2>/dev/null; then
        rm -rf "$dir"
        # Debian keeps the venv module in a package of its own.
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
            version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
            apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "python$version-venv" >/dev/null
            "$python" -m venv "$dir"
        else
            echo "This Python cannot make virtual environments." >&2
            echo "  hint: on Debian and Ubuntu: sudo apt install python3-venv" >&2
            exit 2
        fi
    fi
fi
echo "Installing what $lock lists. This takes some minutes, once ..." >&2
hashes=
if grep -q -e --hash= "$lock"; then hashes=--require-hashes; fi
"$dir/bin/python" -m pip install --quiet --disable-pip-version-check $hashes -r "$lock"
