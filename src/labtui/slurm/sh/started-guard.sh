# shellcheck shell=sh
# ---- Each submission trains once: a second job of the same submission exits here.
# ---- The link holds the ID of the job that started first, so that it continues after a requeue.
if [ -d .labtui ]; then
    mkdir .labtui/started 2> /dev/null || true
    ln -s "$SLURM_JOB_ID" .labtui/started/job 2> /dev/null || true
    first=$(readlink .labtui/started/job || true)
    if [ -n "$first" ] && [ "$first" != "$SLURM_JOB_ID" ]; then
        echo "labtui: job $SLURM_JOB_ID duplicates job $first, which started first in this directory; exiting."
        exit 76
    fi
fi
