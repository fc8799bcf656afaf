# `module`, defined in login shells alone (and exported, so that jobs submitted from one have it too).
module() {
    [ "${1:-}" = -t ] && shift
    local verb="${1:-}" name
    [ $# -gt 0 ] && shift
    case "$verb" in
        purge) PATH=$(printf '%s' "$PATH" | tr ':' '\n' | grep -v '^/apps/modules/' | paste -sd:); export PATH ;;
        load|add)
            for name in "$@"; do
                if [ -d "/apps/modules/${name%%/*}" ]; then
                    PATH="/apps/modules/${name%%/*}/bin:$PATH"; export PATH
                    echo "load $name (PATH)" >&2
                else
                    echo "Lmod has detected the following error:  The following module(s) are unknown: \"$name\"" >&2
                    echo >&2
                    echo "Please check the spelling or version number. Also try \"module spider ...\"" >&2
                    return 1
                fi
            done ;;
        unload|rm)
            for name in "$@"; do
                PATH=$(printf '%s' "$PATH" | tr ':' '\n' | grep -v "^/apps/modules/${name%%/*}/" | paste -sd:)
            done; export PATH ;;
        list) printf '%s\n' "$PATH" | tr ':' '\n' | sed -n 's,^/apps/modules/\([^/]*\)/bin$,\1,p' >&2 ;;
        avail|spider) ls /apps/modules >&2 ;;
        *) echo "module: unknown command '$verb'" >&2; return 1 ;;
    esac
}
export -f module
