#!/usr/bin/env bash
# Runs `make demo` and `make test` of HEAD on machines that have nothing: the minimal system of a distribution made by
# debootstrap, with git, make and certificates. No CUDA toolkit, no compiler, no LLVM. Needs root and debootstrap. Run
# it after each change of set-up. Prints the time of each step; the logs stay in out/fresh_machine.
#
# usage: fresh_machine.sh [debian12|debian13|ubuntu24|all] [demo|test|all|wheel]     all systems: both of Debian
#   wheel: installs the wheel in dist/ (make wheel) with python3-venv alone, optimizes a model and runs it on the CPU
#   JOBS             parallel jobs inside; default: all cores
#   DEBIAN_MIRROR    where packages come from; default: where apt of this machine gets its own
#   UBUNTU_MIRROR    the same for ubuntu24
#   FRESH_CCACHE     a folder of ccache to share with the machine, which saves time; default: none
set -euo pipefail
checkout=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
fail() { echo "fresh machine: $*" >&2; exit 1; }

systems=${1:-all}
steps=${2:-all}
[[ $systems != all ]] || systems="debian12 debian13"
[[ $steps != all ]] || steps="demo test"
((EUID == 0)) || fail "needs root, for chroot"
command -v debootstrap >/dev/null || fail "debootstrap is missing: apt-get install debootstrap"
# shellcheck source=/dev/null
source /etc/os-release
host=$ID host_release=${VERSION_CODENAME:-}
logs=$checkout/out/fresh_machine
mkdir -p "$logs"
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT

# Archives that apt of this machine takes packages of its own distribution from: "URI release", one a line.
archives() {
  # shellcheck disable=SC2016  # apt's variables
  apt-get indextargets 'Identifier: Packages' --format '$(REPO_URI) $(RELEASE)' | sort -u |
    grep -E " $host_release(-security|-updates)?\$"
}

# make_root SYSTEM: the minimal system in $work/SYSTEM, with this machine's way to package registries.
make_root() {
  local root=$work/$1 distribution release mirror components=main
  local arguments=()
  case $1 in
    debian12) distribution=debian release=bookworm mirror=${DEBIAN_MIRROR:-} ;;
    debian13) distribution=debian release=trixie mirror=${DEBIAN_MIRROR:-} ;;
    ubuntu24) distribution=ubuntu release=noble mirror=${UBUNTU_MIRROR:-} components=main,universe ;;
    *) fail "unknown system $1" ;;
  esac
  local sources=()
  if [[ -n $mirror ]]; then
    sources=("deb $mirror $release ${components//,/ }" "deb $mirror $release-updates ${components//,/ }")
  elif [[ $host == "$distribution" ]]; then
    mirror=$(archives | awk -v release="$host_release" '$2 == release { print $1; exit }')
    mapfile -t sources < <(archives | sed "s/^\(.*\) $host_release/deb \1 $release/; s/\$/ ${components//,/ }/")
  fi
  [[ -n $mirror ]] || fail "no mirror of $1 is known: name one in ${distribution^^}_MIRROR"
  # A release that is younger than this debootstrap is made as its predecessors are.
  [[ -e /usr/share/debootstrap/scripts/$release ]] || arguments=(/usr/share/debootstrap/scripts/gutsy)

  debootstrap --variant=minbase --components="$components" --include=git,make,ca-certificates "$release" "$root" \
    "$mirror" "${arguments[@]}" >"$logs/$1.debootstrap.log" 2>&1 ||
    fail "debootstrap of $1 fails: $(tail -3 "$logs/$1.debootstrap.log")"
  printf '%s\n' "${sources[@]}" >"$root/etc/apt/sources.list"
  local file
  for file in /etc/pip.conf /etc/resolv.conf /etc/hosts /etc/apt/auth.conf.d /etc/apt/apt.conf.d/*; do
    case $file in */docker-* | */*autoremove* | */70debconf) continue ;; esac
    if [[ -e $file ]]; then cp -rL "$file" "$root/$(dirname "$file")/"; fi
  done
  mkdir -p "$root/usr/local/share/ca-certificates"
  cp -rL /usr/local/share/ca-certificates/. "$root/usr/local/share/ca-certificates/"
  cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"

  git clone -q "$checkout" "$root/root/sparsmith"
  [[ $(git -C "$root/root/sparsmith" rev-parse HEAD) == $(git -C "$checkout" rev-parse HEAD) ]] || fail "clone is not HEAD"
}

# in_root SYSTEM COMMAND...: in namespaces of its own, so that mounts and services end with it.
in_root() {
  local root=$work/$1 variables
  shift
  mapfile -t variables < <(env | grep -iE '^(https?_proxy|no_proxy|pip_(index_url|extra_index_url|cert|trusted_host|default_timeout)|ssl_cert_file)=')
  # shellcheck disable=SC2016  # expanded inside
  unshare --mount --pid --fork --kill-child bash -c '
    set -e
    root=$1 cache=$2; shift 2
    mount --make-rprivate /
    mount -t proc proc "$root/proc"
    mount -t tmpfs tmpfs "$root/dev/shm" 2>/dev/null || mkdir -p -m 1777 "$root/dev/shm"
    if [[ -n $cache ]]; then
      mkdir -p "$root/root/.cache/ccache"
      mount --bind "$cache" "$root/root/.cache/ccache"
    fi
    exec chroot "$root" "$@"' in_root "$root" "${FRESH_CCACHE:-}" \
    env -i HOME=/root LANG=C.UTF-8 TERM=dumb PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    "JOBS=${JOBS:-$(nproc)}" "${variables[@]}" "$@" </dev/null
}

failed=0
for system in $systems; do
  begin=$SECONDS
  make_root "$system"
  echo "$system: minimal system made in $((SECONDS - begin)) s"
  for step in $steps; do
    begin=$SECONDS
    log=$logs/$system.$step.log
    command=(make -C /root/sparsmith "$step")
    if [[ $step == wheel ]]; then
      cp "$checkout"/dist/*.whl "$checkout/tests/wheel_test.py" "$work/$system/root/"
      command=(bash -ec 'apt-get update -qq; apt-get install -y -qq --no-install-recommends python3-venv
        cd /root; python3 -m venv venv; venv/bin/pip install --quiet --no-cache-dir ./*.whl
        ! command -v c++ g++ clang++ nvcc; venv/bin/python wheel_test.py')
    fi
    if in_root "$system" "${command[@]}" >"$log" 2>&1; then
      outcome="passes"
    else
      outcome="FAILS (exit $?)"
      failed=1
    fi
    tail -n 15 "$log" | sed "s/^/  /"
    echo "$system: $step $outcome in $((SECONDS - begin)) s; log: ${log#"$checkout"/}"
  done
  rm -rf --one-file-system "${work:?}/$system"
done
exit "$failed"
