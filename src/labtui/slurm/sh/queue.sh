# shellcheck shell=bash
# Two functions used by several scripts; control characters with the call's nonce separate rows and fields.
# shellcheck disable=SC2154  # every call sets nonce
row=$'\036'$nonce
between=$'\037'$nonce

# All of the user's jobs, including ended ones that Slurm still knows. Arguments: SECONDS FIELD_CODES
ask_queue() {
    limit "$1" squeue --me --local --noheader --states=all --sort=-i --format="$row${2// /$between}"
}

# Accounting of the user's jobs; without a start time sacct shows only today's. Long options, because site wrappers
# handle them better. Arguments: SECONDS FIELDS OPTION...
ask_accounting() {
    local seconds=$1 fields=$2
    shift 2
    limit "$seconds" sacct --allocations --noheader --parsable --starttime=now-60days --delimiter="$between" \
        --format="$fields" "$@"
}
