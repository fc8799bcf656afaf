# shellcheck shell=bash
# Queue, and accounting of jobs that left it. Arguments: SECONDS FIELD_CODES ACCOUNTING_FIELDS [IDS_THAT_LEFT]
mark now
date +%s
mark squeue
ask_queue "$1" "$2"
mark "squeue-status $?"
if [ -n "$4" ]; then
    mark sacct
    ask_accounting "$1" "$3" --duplicates --jobs="$4" # an ID may have been given again
    mark "sacct-status $?"
fi
mark "done"
