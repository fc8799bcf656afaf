# shellcheck shell=bash
# One sample of a running job's GPUs, by an overlapping step on each of its nodes. Argument: JOB
nodes=$(limit 20 squeue --noheader --jobs="$1" --states=running --format=%D) || exit
[ -n "$nodes" ] || { echo "labtui: not running" >&2; exit 75; }
# shellcheck disable=SC2016  # expanded on each node
limit 60 srun --overlap --jobid="$1" --nodes="$nodes" --ntasks="$nodes" --ntasks-per-node=1 --cpus-per-task=1 bash -c '
    command -v nvidia-smi > /dev/null || { echo "labtui: no nvidia-smi" >&2; exit 76; }
    columns=timestamp,index,name,utilization.gpu,memory.used,memory.total,power.draw
    for more in clocks.sm clocks_event_reasons.active clocks_throttle_reasons.active; do
        nvidia-smi --format=csv --query-gpu="$more" > /dev/null 2>&1 && columns="$columns,$more"
    done
    TZ=UTC nvidia-smi --format=csv --query-gpu="$columns" | sed "s/^/$SLURMD_NODENAME, /"
    exit "${PIPESTATUS[0]}"' < /dev/null
