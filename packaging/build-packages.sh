#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the deb and the rpm from this tree: build-packages.sh [OUTPUT FOLDER, default dist]
#   JOBS=n    processes for building (default: all cores)
#   BUILD=DIR build folder, one in use as well (default: build/packages)
# Both hold daemon, command line, client library, headers, pkg-config and CMake files, the Python
# package, the systemd unit, the user, the default configuration and the man pages.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
jobs=${JOBS:-$(nproc)}
build=${BUILD:-build/packages}
output=$(mkdir -p "${1:-dist}" && readlink -f "${1:-dist}")

# The two differ in where libraries and Python packages go; the build itself is shared.
make_package() {
  local kind=$1 libraries=$2 python=$3
  cmake -S . -B "$build" -G Ninja -DCMAKE_INSTALL_PREFIX=/usr \
    -DCMAKE_INSTALL_LIBDIR="$libraries" -DKVSIDECAR_PYTHON_DIR="$python" >/dev/null
  cmake --build "$build" -j "$jobs" -- --quiet
  (cd "$build" && cpack -G "$kind" -B "$output")
}

packaging/dependencies.sh
if [[ ! -f $build/CMakeCache.txt ]]; then
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DKVSIDECAR_TESTS=OFF >/dev/null
fi
# Debian last: its folders are what a build folder in use goes on with.
make_package RPM lib64 share/kvsidecar/python
make_package DEB "lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)" lib/python3/dist-packages
rm -rf "$output/_CPack_Packages"
ls -l "$output"
