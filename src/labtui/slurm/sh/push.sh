# shellcheck shell=bash
# Copies files from a store of contents into place; prints for each: same, placed, need (to be sent) or failed.
# Arguments: DIRECTORY STORE (PATH SHA256 MODE)...
mkdir -p -- "$1" "$2" || exit 74
store=$(cd -- "$2" >/dev/null && pwd) || exit 74
cd -- "$1" >/dev/null || exit 74
shift 2

sum() { sha256sum 2>/dev/null <"$1" | cut -c1-64; }

put() {
    if [ -f "$1" ] && [ "$(sum "$1")" = "$2" ]; then
        chmod "$3" "$1"
        echo same
        return
    fi
    if ! [ -f "$store/$2" ]; then
        echo need
        return
    fi
    part="$1.$$.part"
    if cp -- "$store/$2" "$part" && chmod "$3" "$part" && [ "$(sum "$part")" = "$2" ]; then
        mv -f -- "$part" "$1" && echo placed && return
    fi
    rm -f -- "$part"
    [ "$(sum "$store/$2")" = "$2" ] && echo failed && return
    rm -f -- "$store/$2"
    echo need
}

while [ $# -ge 3 ]; do
    case $1 in */*) mkdir -p -- "./${1%/*}" || exit 74 ;; esac
    put "./$1" "$2" "$3"
    shift 3
done
