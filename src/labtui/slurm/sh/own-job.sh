# shellcheck shell=bash
# Goes on only if the job is the submission's own: Slurm may have given its ID to another one.
# Arguments: TOKEN JOB_NAME, then those of the script that follows; the last one is the job's ID.
token=$1 name=$2
shift 2
stop() {
    echo "$1" >&2
    exit 1
}
said=$(squeue --me --local --noheader --states=all --jobs="${!#}" --format=$'%Z\037%j\037%k') || exit
[ -n "$said" ] || stop "Invalid job id specified"
IFS=$'\037' read -r its_dir its_name its_comment <<<"$said"
its_dir=${its_dir%/.}
case ${its_dir##*/}:$its_comment in # where a site drops or replaces comments, the directory has the token
    *"$token"*) ;;
    lt????????????????????:* | *:labtui:*) stop "Slurm gave its ID to another job" ;;
    *) [ "$its_name" = "$name" ] || stop "Slurm gave its ID to another job" ;;
esac
