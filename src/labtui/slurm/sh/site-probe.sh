# shellcheck shell=bash
# Prints what any user can learn about a cluster; changes nothing, and ends each program after some seconds.
# Arguments: NODE_FORMAT MODULE_WORDS DATA_FOLDER FRAMEWORK CONTAINER_PROGRAM...
nodes=$1 words=$2 data=$3 framework=$4
shift 4
mark partitions
limit 20 scontrol --oneliner show partition
mark "partitions-status $?"
mark nodes
limit 20 sinfo --noheader --exact --format="$nodes"
mark "nodes-status $?"
mark config
limit 20 scontrol show config
mark "config-status $?"
mark account
limit 20 sacctmgr --readonly --noheader --parsable2 show user where name="$(id -un)" format=DefaultAccount
mark "account-status $?"
mark programs
for name; do command -v "$name" >/dev/null 2>&1 && echo "$name"; done
mark modules
limit 20 bash -lc 'type module >/dev/null && module -t avail 2>&1' 2>/dev/null | grep -iE "$words" | head -n 200
mark python
limit 20 python3 --version
mark framework
limit 20 python3 -c 'import importlib.util as u, sys; print(bool(u.find_spec(sys.argv[1])))' "$framework" 2>/dev/null
mark data
for place in "$HOME" "$SCRATCH" "$WORK" "$PROJECT" "$HOME/cifar-utils" "$HOME/data" "$SCRATCH/cifar-utils"; do
    case $place in
        /?*) [ -r "$place/$data/data_batch_1" ] && echo "$place/$data" ;;
    esac
done
mark containers
# shellcheck disable=SC2012  # only names to show
ls -d -- "$HOME"/*.sif "${SCRATCH:-/nowhere}"/*.sif 2>/dev/null | head -n 20
mark home
echo "$HOME"
