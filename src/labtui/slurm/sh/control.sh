# shellcheck shell=bash
# Holds a waiting job or releases a held one. Slurm "holds" a running job, too, to no effect: that is a refusal.
# Arguments: hold|release JOB
scontrol "$1" "$2" || exit
if [ "$1" = hold ] && [ "$(squeue --noheader --jobs="$2" --format=%T)" = RUNNING ]; then
    scontrol release "$2" 2>/dev/null
    echo "it is already running" >&2
    exit 1
fi
