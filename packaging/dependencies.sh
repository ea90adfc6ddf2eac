#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian 12 packages that kvsidecar is built and tested with; nothing else is fetched.
#   dependencies.sh          everything: build, tests, sanitizers, packages
#   dependencies.sh build    only what a build and a replay need
#   dependencies.sh --list [build]   prints the names, installs nothing
# Needs root or sudo, and only when something is missing.
set -euo pipefail

build=(
  ca-certificates cmake g++ ninja-build pkg-config
  flatbuffers-compiler libflatbuffers-dev libboost-dev libxxhash-dev liburing-dev
  libspdlog-dev libtomlplusplus-dev prometheus-cpp-dev libcurl4-openssl-dev zlib1g-dev
  nlohmann-json3-dev libcli11-dev python3
)
tests=(
  clang fuse3 git libfuse3-dev libgtest-dev relacy-dev rpm rpm2cpio cpio dpkg-dev man-db
  python3-pytest python3-numpy python3-venv
)

list=0
if [[ ${1:-} == --list ]]; then
  list=1
  shift
fi
case "${1:-all}" in
  build) packages=("${build[@]}") ;;
  all) packages=("${build[@]}" "${tests[@]}") ;;
  *)
    echo "dependencies.sh: '$1' is no group; say build or nothing" >&2
    exit 2
    ;;
esac
if ((list)); then
  printf '%s\n' "${packages[@]}"
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  state=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
  [[ $state == "install ok installed" ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "dependencies: all ${#packages[@]} packages are installed"
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "dependencies: missing: ${missing[*]}" >&2
    echo "dependencies: run this as root, or install sudo" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "dependencies: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  "${missing[@]}" >/dev/null
echo "dependencies: done"
