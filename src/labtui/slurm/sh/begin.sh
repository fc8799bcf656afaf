# shellcheck shell=bash disable=SC2154  # every call sets nonce
# Runs a program with a time limit. Arguments: SECONDS PROGRAM...
limit() { if command -v timeout >/dev/null 2>&1; then timeout -k 2 "$@"; else shift; command "$@"; fi; }
# Begins a section on both streams. Argument: NAME.
mark() { printf '\035%s %s\n' "$nonce" "$1"; printf '\035%s %s\n' "$nonce" "$1" >&2; }
