# shellcheck shell=bash
# The queue, and accounting for jobs that left it. Of the jobs that are not ours only the newest are listed, the others
# counted: squeue has no option for it.
# Arguments: SECONDS FIELD_CODES ACCOUNTING_FIELDS MAX_OTHERS OUR_IDS [IDS_THAT_LEFT]
# shellcheck disable=SC2154  # every call sets nonce
mark now
date +%s
mark squeue
ask_queue "$1" "$2" | LC_ALL=C awk -v known=" $5 " -v nonce="$nonce" -v most="$4" '
    BEGIN { RS = "\036"; FS = "\037" }
    NR == 1 { next }
    NR <= most + 1 || index($0, "labtui:") || index(known, " " substr($1, length(nonce) + 1) " ") {
        printf "\036%s", $0; next
    }
    { left++ }
    END { printf "\036%s-left %d\n", nonce, left }'
mark "squeue-status ${PIPESTATUS[0]}"
if [ -n "$6" ]; then
    mark sacct
    ask_accounting "$1" "$3" --jobs="$6"
    mark "sacct-status $?"
fi
mark "done"
