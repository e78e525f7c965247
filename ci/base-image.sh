#!/bin/bash
# debian:bookworm-slim for a machine that reaches Debian's packages but no image registry. Whoever can pull images does
# not need this.
#
# What comes out stands in for the image of that name on this machine only: it carries the machine's own certificates
# and package sources, so that the Dockerfile need not know of them. Never push it.
set -euo pipefail

TAG=debian:bookworm-slim
SUITE=bookworm
PULL_S_MAX=60

have_image() { docker image inspect "$TAG" >/dev/null 2>&1; }

give_up() {
  echo "base-image: $*" >&2
  exit 1
}

# "address suite component" of each package source of this machine, as apt itself understands its configuration.
package_sources() {
  apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' | sort -u
}

# The official slim image leaves out the same things; here it also saves a quarter of the size.
slim_down() {
  local root=$1
  cat >"$root/etc/dpkg/dpkg.cfg.d/slim" <<'END'
path-exclude /usr/share/doc/*
path-include /usr/share/doc/*/copyright
path-exclude /usr/share/man/*
path-exclude /usr/share/info/*
path-exclude /usr/share/locale/*
END
  # As in the official image: what apt downloaded goes when it is installed, or every layer would carry it.
  cat >"$root/etc/apt/apt.conf.d/slim" <<'END'
Acquire::Languages "none";
DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb"; };
END
  find "$root/usr/share/doc" -type f ! -name copyright -delete
  find "$root"/usr/share/{man,info,locale} "$root"/var/{log,cache/apt,lib/apt/lists} -mindepth 1 ! -type d -delete
}

# Installing a package in an image must not try to start its service.
forbid_services() {
  printf '#!/bin/sh\nexit 101\n' >"$1/usr/sbin/policy-rc.d"
  chmod 755 "$1/usr/sbin/policy-rc.d"
}

# A machine behind a proxy with its own certificate authority: pip and Java must trust it inside a build as outside.
# As single files, a later install of ca-certificates (and with it Java's key store) takes them up; as a bundle, pip
# has something to read before that.
trust_what_we_trust() {
  local root=$1 certificate
  mkdir -p "$root/usr/local/share/ca-certificates" "$root/etc/ssl/certs"
  for certificate in /usr/local/share/ca-certificates/*.crt; do
    [ -e "$certificate" ] && cp "$certificate" "$root/usr/local/share/ca-certificates/"
  done
  if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
    cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
    printf '[global]\ncert = /etc/ssl/certs/ca-certificates.crt\n' >"$root/etc/pip.conf"
  fi
}

make_image() {
  local work sources mirror root
  command -v debootstrap >/dev/null || give_up "there is no debootstrap here (Debian: apt-get install debootstrap)"
  [ "$(id -u)" = 0 ] || give_up "debootstrap needs root"
  sources=$(package_sources)
  mirror=$(awk -v suite="$SUITE" '$2 == suite { print $1; exit }' <<<"$sources")
  [ -n "$mirror" ] || give_up "apt knows no source of $SUITE (is apt-get update done?)"

  work=$(mktemp -d)
  # shellcheck disable=SC2064 - the folder's name now, not when the shell ends.
  trap "rm -rf '$work'" EXIT
  root=$work/root
  install -d -m 755 "$root" # It becomes the image's /, which every user has to be able to enter.
  if ! debootstrap --variant=minbase "$SUITE" "$root" "$mirror" >"$work/log" 2>&1; then
    tail -n 20 "$work/log" >&2
    give_up "debootstrap failed, see above"
  fi
  sed 's/^/deb /' <<<"$sources" >"$root/etc/apt/sources.list"
  slim_down "$root"
  forbid_services "$root"
  trust_what_we_trust "$root"
  : >"$root/etc/resolv.conf" # The engine writes its own; this machine's must not linger.
  : >"$root/etc/hostname"
  tar --create --numeric-owner --directory "$root" . | docker import --change 'CMD ["bash"]' - "$TAG" >/dev/null
}

if have_image; then
  echo "base-image: $TAG is here"
elif timeout "$PULL_S_MAX" docker pull --quiet "$TAG" >/dev/null 2>&1 </dev/null; then
  echo "base-image: pulled $TAG"
else
  echo "base-image: $TAG cannot be pulled, making it from Debian's packages"
  make_image
  echo "base-image: $(docker image inspect --format '{{.Size}}' "$TAG" | awk '{ printf "%.0f MB", $1 / 1e6 }')"
fi
