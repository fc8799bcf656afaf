# shellcheck shell=bash
# Asks sbatch about a job script, which it reads from its input; its words come on standard error.
# Arguments: ASSOCIATION_FIELDS SCRIPT SBATCH_OPTION... Exit status: sbatch's.
associations=$1 script=$2
shift 2
said=$(printf %s "$script" | limit 60 sbatch --test-only "$@" 2>&1)
status=$?
printf '%s\n' "$said" >&2
[ "$status" -ne 0 ] && alternatives "$associations" "$said" 2>/dev/null
exit "$status"
