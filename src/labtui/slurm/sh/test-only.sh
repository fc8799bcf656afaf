# shellcheck shell=bash
# Asks sbatch about a job script, which it reads from its input; its words come on standard error. It accepts jobs for
# a partition that is down, so the partitions are printed, too.
# Arguments: ASSOCIATION_FIELDS SCRIPT SBATCH_OPTION... Exit status: sbatch's.
associations=$1 script=$2
shift 2
said=$(printf %s "$script" | limit 60 sbatch --test-only "$@" 2>&1)
status=$?
printf '%s\n' "$said" >&2
if [ "$status" -eq 0 ]; then
    limit 20 scontrol --oneliner show partition 2>/dev/null
else
    alternatives "$associations" "$said" 2>/dev/null
fi
exit "$status"
