# Read by a login shell of the practice cluster; labtui puts exports of its variables in front.
export PATH="$LABTUI_PRACTICE_BIN:$PATH"

module() {
    local verb="${1:-}" name
    [ $# -gt 0 ] && shift
    case "$verb" in
        purge | list | avail | spider | show | use | unload | rm) return 0 ;;
        load | add)
            for name in "$@"; do
                case "${name%%/*}" in
                    singularity | bsc | cuda | cudnn | nccl | gcc | intel | oneapi | nvidia-hpc-sdk | mkl | impi | hdf5 | python | tensorflow)
                        echo "load $name (PATH)" >&2 ;;
                    *)
                        echo "Lmod has detected the following error:  The following module(s) are unknown: \"$name\"" >&2
                        return 1 ;;
                esac
            done ;;
        *)
            echo "module: unknown command '$verb'" >&2
            return 1 ;;
    esac
}
export -f module

echo "load bsc/1.0 (PATH, MANPATH)"
echo "================================================================"
echo "  This is labtui's practice cluster. Nothing here is MareNostrum."
echo "================================================================"
echo "remark: your default modules have been loaded" >&2
