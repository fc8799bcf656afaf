# shellcheck shell=bash
# Examines some paths, free space and permission at the root, and runs the site's own commands; changes nothing.
# Arguments: ROOT DATA_FILES NUMBER_OF_PATHS PATH... (SECTION SHELL_CODE)...
root=$1 files=$2 count=$3
shift 3

look() {
    kind=missing
    [ -d "$1" ] && kind=dir
    [ -f "$1" ] && kind="file"
    [ -r "$1" ] && kind="$kind readable"
    echo "$kind"
    # shellcheck disable=SC2086  # names without blanks
    [ -d "$1" ] && (cd -- "$1" && wc -c $files 2>/dev/null)
}

for ((place = 0; place < count; place++)); do
    mark "path-$place"
    look "$1"
    shift
done
mark root
while [ -n "$root" ] && ! [ -d "$root" ]; do
    case $root in */*) root=${root%/*} ;; *) root=. ;; esac
done
root=${root:-/}
echo "$root"
[ -w "$root" ] && echo writable || echo closed
mark room
limit 20 df -Pk -- "$root" | tail -n 1
mark inodes
limit 20 df -Pi -- "$root" | tail -n 1
export -f limit
while [ $# -ge 2 ]; do
    mark "$1"
    said=$(bash -c "$2" 2>&1 </dev/null)  # like a job script, with exported functions such as module
    status=$?
    printf '%s' "$said" | head -c 40000
    mark "$1-status $status"
    shift 2
done
