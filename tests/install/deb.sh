#!/bin/bash
# Installs a package that './dev deb' made in a fresh Debian 12 with nothing else in it, uses it there
# and removes it. Run by hand, as root: it needs debootstrap and a network, and takes minutes and 2 GB.
#   tests/install/deb.sh dist/bespoke_1.0.0_amd64.deb [FOLDER]
# FOLDER keeps the bare system for the next time; without one it is temporary.
set -euo pipefail

package=$(realpath "${1:?usage: tests/install/deb.sh PACKAGE.deb [FOLDER]}")
base=${2:-$(mktemp -d)}
system=$(mktemp -d)  # what the package is installed in: a copy of the bare system

clean_up() {
  umount "$system/proc" 2>/dev/null || true
  rm -rf --one-file-system "$system"
  [ $# -gt 1 ] || rm -rf --one-file-system "$base"
}
trap 'clean_up "$@"' EXIT

inside() { chroot "$system" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "$@"; }

fail() {
  echo "$1" >&2
  exit 1
}

[ -e "$base/bin/sh" ] || debootstrap --variant=minbase bookworm "$base" http://deb.debian.org/debian
cp -a "$base/." "$system"
cp /etc/resolv.conf "$system/etc/"
mount -t proc proc "$system/proc"
cp "$package" "$system/tmp/bespoke.deb"

inside apt-get -qq update
inside env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y /tmp/bespoke.deb >"$system/tmp/apt.log" 2>&1 ||
  { tail -20 "$system/tmp/apt.log" >&2; fail "the package cannot be installed"; }

inside bespoke --version
inside bespoke-train --version
inside bespoke solver dpm++2m --nfe 8 --schedule vp -o /tmp/plain.solver.json
inside bespoke distill --model cifar10-fm-ot --nfe 4 --calls 100 -o /tmp/run
inside bespoke sample --model cifar10-fm-ot --cond y=0-3 --nfe 4 --count 4 \
  --solver /tmp/run/bns.solver.json -o /tmp/out
[ -s "$system/tmp/out/grid.png" ] || fail "no picture was drawn"

inside apt-get -qq remove -y bespoke >/dev/null 2>&1
left=$(find "$system/usr" -ipath '*bespoke*' | head -5)
[ -z "$left" ] || fail "the package leaves $left"
echo "$(basename "$package") installs, works and is removed"
