#!/bin/sh
# Installs what `make e2e` needs from the distribution's packages. Nothing is started: the tests
# run containerd themselves.
set -eu

missing=
need() { command -v "$1" >/dev/null 2>&1 || missing="$missing $2"; }
need containerd containerd
need ctr containerd
need runc runc
need ip iproute2
need iptables iptables
found=
for dir in /usr/lib/cni /opt/cni/bin /usr/libexec/cni; do
	[ ! -x "$dir/bridge" ] || found=yes
done
[ -n "$found" ] || missing="$missing containernetworking-plugins"
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ]; then
	echo "make e2e needs root, and these packages:$missing" >&2
	exit 1
fi
if ! command -v apt-get >/dev/null 2>&1; then
	echo "make e2e needs these packages, by their Debian names:$missing. Install them." >&2
	exit 1
fi
echo "installing$missing" >&2
# Services of the packages are not started where policy-rc.d or systemd would.
apt-get update -q >&2
# shellcheck disable=SC2086 # a list
RUNLEVEL=1 apt-get install -q -y --no-install-recommends $missing >&2
