# shellcheck shell=bash
# Adds a public key to authorized_keys unless it is there; existing lines stay. Argument: PUBLIC_KEY
umask 077
file=~/.ssh/authorized_keys
mkdir -p ~/.ssh || exit 1
touch $file || exit 1
grep -qxF -- "$1" $file && exit 0
[ -z "$(tail -c 1 $file)" ] || echo >>$file
printf '%s\n' "$1" >>$file
