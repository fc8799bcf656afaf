# shellcheck shell=bash
# Runs sbatch at most once: only after creating a directory, where its answer is kept.
# Arguments: DIRECTORY ATTEMPT COMMENT SQUEUE_SECONDS SBATCH_SECONDS ASSOCIATION_FIELDS SBATCH_WORD...
# Exit status: sbatch's; 74 no directory, 75 squeue failed and sbatch was not run, 76 the attempt was blocked.
cd -- "$1" >/dev/null || exit 74
lock=.labtui/attempt-$2 comment=$3 squeue_s=$4 sbatch_s=$5 associations=$6
shift 6
mkdir -p -m 700 .labtui || exit 74
mkdir "$lock" || { [ -d "$lock" ] && exit 76; exit 74; }
trap '' HUP PIPE
ended() { echo "$1" >"$lock/status.part" && mv "$lock/status.part" "$lock/status"; }

id=$(readlink .labtui/started/job)
if [ -z "$id" ]; then
    limit "$squeue_s" squeue --me --local --noheader --states=all --format=$'%F\037%Z\037%k' \
        >"$lock/queue" 2>"$lock/err" </dev/null || { ended closed; cat "$lock/err" >&2; exit 75; }
    while IFS=$'\037' read -r known its_dir its_comment; do
        its_dir=${its_dir%/.}  # where a site drops or replaces comments, the directory has the token
        case $its_comment in labtui:*) ;; *) its_comment=labtui:${its_dir##*/} ;; esac
        [ "$its_comment" = "$comment" ] && id=$known
    done <"$lock/queue"
fi

status=0
if [ -n "$id" ]; then
    echo "$id" >"$lock/out"
else
    limit "$sbatch_s" "$@" >"$lock/out" 2>"$lock/err" </dev/null
    status=$?
fi
ended "$status"
cat "$lock/out"
cat "$lock/err" >&2
[ "$status" -ne 0 ] && alternatives "$associations" "$(cat "$lock/err")"
exit "$status"
