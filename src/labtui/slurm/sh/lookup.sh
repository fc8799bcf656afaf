# shellcheck shell=bash
# Blocks the next attempt, which may still be on its way; then prints what the started job and the receipts left, then
# queue and accounting. Arguments: DIRECTORY (the submission's control directory) SECONDS FIELD_CODES
# ACCOUNTING_FIELDS FIRST_ATTEMPT
mark close
# shellcheck disable=SC2174  # the push made its parent
mkdir -p -m 700 -- "$1" || exit 74
cd -- "$1" >/dev/null || exit 74
next=$5
while [ -d "attempt-$next" ]; do next=$((next + 1)); done
mkdir "attempt-$next" && echo closed >"attempt-$next/status" && echo closed "$next"

mark started
readlink started/job
n=$5
while [ -d "attempt-$n" ]; do
    mark "attempt-$n"
    stat -c %Y "attempt-$n"
    stat -c %Y "attempt-$n/status" 2>/dev/null || echo -
    cat "attempt-$n/status" 2>/dev/null || echo -
    mark "out-$n"
    tail -c 4000 "attempt-$n/out" 2>/dev/null
    mark "err-$n"
    head -c 4000 "attempt-$n/err" 2>/dev/null
    n=$((n + 1))
done
mark asked
date +%s
mark squeue
ask_queue "$2" "$3"
mark "squeue-status $?"
mark sacct
ask_accounting "$2" "$4"
mark "sacct-status $?"
