#!/bin/sh
# Install the programs that the tests need; only as root on Debian or Ubuntu.
# Elsewhere tests that need a missing program are skipped, and pytest's last lines say how many and why.
set -eu
[ "$(uname -s)" = Linux ] && [ -f /etc/debian_version ] && [ "$(id -u)" = 0 ] || exit 0

# The real cluster on loopback, its submit plugin and its PAM module, MPI programs; terminals and processes; documents.
packages="slurm-wlm slurmdbd munge mariadb-server openssh-server openssh-client openssl gcc libc6-dev
    iproute2 openmpi-bin libopenmpi-dev
    tmux procps shellcheck poppler-utils fontconfig fonts-dejavu-core"
missing=
for package in $packages; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
echo "Installing$missing ..." >&2
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
