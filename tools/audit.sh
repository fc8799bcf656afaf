#!/bin/sh
# Look for known vulnerabilities of the locked packages with pip-audit, in an environment of its own.
# Exit status 1 if there are any. Without a network the check is skipped with a message.
set -u
folder=$1
log=$folder/audit.log
mkdir -p "$folder"
[ -x "$folder/bin/pip-audit" ] || {
    { "${PYTHON:-python3}" -m venv "$folder" && "$folder/bin/pip" install --quiet pip-audit; } >"$log" 2>&1 ||
        { echo "pip-audit is skipped: it cannot be installed here ($(tail -n 1 "$log" | cut -c1-120))"; exit 0; }
}
said=$("$folder/bin/pip-audit" --disable-pip --require-hashes -r requirements/runtime.lock 2>&1) && {
    echo "pip-audit: $(printf '%s\n' "$said" | grep -m 1 'known vulnerabilit')"
    exit 0
}
case $said in
    *"known vulnerabilit"*) printf '%s\n' "$said"; exit 1 ;;
    *) echo "pip-audit is skipped: no answer ($(printf '%s\n' "$said" | tail -n 1 | cut -c1-120))" ;;
esac
