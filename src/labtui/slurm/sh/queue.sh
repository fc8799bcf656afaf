# shellcheck shell=bash
# Two questions that several scripts ask; control characters with the call's number set rows and fields apart.
# shellcheck disable=SC2154  # every call sets it
row=$'\036'$nonce
between=$'\037'$nonce

# All of my jobs, those included that ended and that Slurm still knows. Arguments: SECONDS FIELD_CODES.
ask_queue() {
    limit "$1" squeue --me --local --noheader --states=all --sort=-i --format="$row${2// /$between}"
}

# Of all my jobs; without a start, sacct looks at today alone. Long options: wrappers of a site know them better.
# Arguments: SECONDS FIELDS OPTION...
ask_accounting() {
    local seconds=$1 fields=$2
    shift 2
    limit "$seconds" sacct --allocations --noheader --parsable --starttime=now-60days --delimiter="$between" \
        --format="$fields" "$@"
}
