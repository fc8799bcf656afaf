# shellcheck shell=bash
# Prints the user's name and what Slurm offers this user; changes nothing.
# Arguments: QOS_FIELDS ASSOCIATION_FIELDS PROGRAM...
qos=$1 associations=$2
shift 2
mark now
date +%s
mark user
id -un
mark missing
for name; do command -v "$name" >/dev/null 2>&1 || echo "$name"; done
mark module
bash -c 'type module' >/dev/null 2>&1 && echo yes  # what a job script has
mark version
limit 20 sbatch --version
mark squeue
limit 25 squeue --me --noheader --format=%A
mark "squeue-status $?"
mark sacct
limit 25 sacct --allocations --noheader --starttime=now --format=JobIDRaw
mark "sacct-status $?"
mark assoc
limit 20 sacctmgr --readonly --noheader --parsable2 show assoc where user="$(id -un)" format="$associations"
mark "assoc-status $?"
mark qos
limit 20 sacctmgr --readonly --noheader --parsable2 show qos format="$qos"
mark "qos-status $?"
