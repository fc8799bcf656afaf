#!/bin/sh
# Install the real Slurm and OpenSSH that the tests start on loopback: only as root on Debian (or Ubuntu).
# Elsewhere those tests are skipped, and pytest's last lines say how many and why.
set -eu
[ "$(uname -s)" = Linux ] && [ -f /etc/debian_version ] && [ "$(id -u)" = 0 ] || exit 0

packages="slurm-wlm slurmdbd munge mariadb-server openssh-server openssh-client fontconfig fonts-dejavu-core"
missing=
for package in $packages; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
echo "Installing$missing ..." >&2
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
