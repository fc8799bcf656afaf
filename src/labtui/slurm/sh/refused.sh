# shellcheck shell=bash
# Prints what there is after a refused account, QoS, partition, time limit or size.
# Arguments: ASSOCIATION_FIELDS SBATCH_WORDS.
alternatives() {
    if grep -qiE '(invalid|no) (account|qos)|(account|qos).*not (valid|allowed|permitted)|NotAllowed' <<<"$2"; then
        limit 20 sacctmgr --readonly --noheader --parsable2 show assoc where user="$(id -un)" format="$1"
    fi
    grep -qiE 'invalid partition|time ?limit|not available|node count' <<<"$2" && limit 20 scontrol --oneliner show partition
}
