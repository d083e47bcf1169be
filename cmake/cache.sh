#!/usr/bin/env bash
# The cache of what the build and the tests need beside Debian's packages.
#   cmake/cache.sh path NAME    prints where NAME is (or will be)
#   cmake/cache.sh fill NAME... makes each NAME that is missing
# NAME: onnx (library from the PyPI wheel), onednn (prebuilt, from PyPI), venv (Python with tests/requirements.txt),
#       node-tests (ONNX's node tests as folders), openvino (the wheel, unpacked: headers, libraries, the Python package),
#       onnxruntime-VERSION (that release of tests/hosts/onnxruntime-releases.txt, unpacked), onednn-source (newer oneDNN, built from the crates.io package onednn-src).
# Folder names carry the version and a key of everything that went in (compiler, flags, pinned hashes), so that a change
# makes a new folder. A folder appears whole by a rename or not at all; a lock per name keeps two runs apart.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${ATTUNE_CACHE:-$HOME/.cache/attune}
cxx=${ATTUNE_DEPS_CXX:-c++}
cxx_flags=${ATTUNE_DEPS_CXXFLAGS:-}
onednn_crate=0.1.22  # oneDNN 3.14.1
onednn_crate_sha256=e44a92c32c52aa160b62ffeae2e4c17206d2c6332120efffed9542132fd19401

say() { printf 'attune: %s\n' "$*" >&2; }

pinned() { sed -n "s/^$1==\([^ ]*\).*/\1/p" "$root/cmake/requirements.txt"; }

# The lines that pin the packages whose names start with $1: versions and hashes.
pins() { sed -n "/^$1.*==/,/[^\\]\$/p" "$root/cmake/requirements.txt"; }

# The lines that pin a release of ONNX Runtime for the tests, and the NumPy that it needs if that is not the tests' own.
release_pins() {
  local file=$root/tests/hosts/onnxruntime-releases.txt
  sed -n "/^onnxruntime==$1 /,/[^\\]\$/p" "$file"
  case $1 in 1.17.* | 1.18.*) sed -n "/^numpy==/,/[^\\]\$/p" "$file" ;; esac
}

key() { sha256sum | cut -c1-10; }

path() {
  case $1 in
    onnx) echo "$cache/onnx-$(pinned onnx)-$({ "$cxx" --version | head -1; echo "$cxx_flags"
            dpkg-query -W -f='${Version}' libprotobuf-dev 2>/dev/null || true
            cat "$root/cmake/onnx/CMakeLists.txt"; pins onnx; } | key)" ;;
    onednn) echo "$cache/onednn-$(pinned onednn-cpu-gomp)-$(pins onednn | key)" ;;
    sentencepiece) echo "$cache/sentencepiece-$(sed -n 's/^sentencepiece==\([^ ]*\).*/\1/p' "$root/cmake/requirements-source.txt")-$({
                     "$cxx" --version | head -1; echo "$cxx_flags"; cat "$root/cmake/requirements-source.txt"
                     dpkg-query -W -f='${Version}' libprotobuf-dev 2>/dev/null || true; } | key)" ;;
    onednn-source) echo "$cache/onednn-src-$onednn_crate-$({ "$cxx" --version | head -1; echo "$cxx_flags"; } | key)" ;;
    venv) echo "$cache/venv-$({ "$(system_python)" -c 'import sys; print(sys.version, sys.prefix)'
            cat "$root/tests/requirements.txt"; } | key)" ;;
    openvino) echo "$cache/openvino-$(sed -n 's/^openvino==\([^ ]*\).*/\1/p' "$root/cmake/requirements-openvino.txt")-$(
                key <"$root/cmake/requirements-openvino.txt")" ;;
    onnxruntime-*) echo "$cache/$1-$(release_pins "${1#onnxruntime-}" | key)" ;;
    node-tests) echo "$cache/node-tests-$({ path venv; cat "$root/tests/conformance/make_node_tests.py"; } | key)" ;;
    *) say "no such part of the cache: $1"; exit 2 ;;
  esac
}

# Debian's own Python before any that a user has put in front of it: its version is known to have wheels.
system_python() { if [[ -x /usr/bin/python3 ]]; then echo /usr/bin/python3; else command -v python3; fi; }

# downloads DIR: the wheels of cmake/requirements.txt, checked against their hashes.
downloads() {
  "$(system_python)" -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: \
    --implementation cp --python-version 3.11 --abi cp311 --abi none \
    --platform manylinux_2_28_x86_64 --platform manylinux1_x86_64 \
    --dest "$1" --requirement "$root/cmake/requirements.txt"
}

unpack() { "$(system_python)" -m zipfile -e "$1" "$2"; }

# unpack_wheels REQUIREMENTS OUT: for Python 3.11, side by side.
unpack_wheels() {
  local wheels
  wheels=$(dirname "$2")/wheels
  "$(system_python)" -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: \
    --implementation cp --python-version 3.11 --abi cp311 --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 \
    --platform manylinux2014_x86_64 --dest "$wheels" --requirement "$1"
  mkdir -p "$2"
  local wheel
  for wheel in "$wheels"/*.whl; do unpack "$wheel" "$2"; done
}

make_openvino() { unpack_wheels "$root/cmake/requirements-openvino.txt" "$1"; }

make_onnxruntime() {
  release_pins "$3" >"$2/requirements.txt"
  [[ -s $2/requirements.txt ]] || { say "no release $3 in tests/hosts/onnxruntime-releases.txt"; return 1; }
  unpack_wheels "$2/requirements.txt" "$1"
}

make_onnx() {
  local out=$1 work=$2
  downloads "$work/wheels"
  unpack "$work"/wheels/onnx-*.whl "$work/source"
  local launcher=()
  if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  cmake -S "$root/cmake/onnx" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$cxx" \
    -DCMAKE_CXX_FLAGS="$cxx_flags" "${launcher[@]}" -DCMAKE_INSTALL_PREFIX="$out" \
    -DONNX_SOURCE_ROOT="$work/source" -DONNX_VERSION="$(pinned onnx)" >"$work/log" || { cat "$work/log" >&2; return 1; }
  ninja -C "$work/build" install >"$work/log" || { tail -50 "$work/log" >&2; return 1; }
}

make_onednn() {
  local out=$1 work=$2
  downloads "$work/wheels"
  mkdir -p "$out"
  for wheel in "$work"/wheels/onednn_*.whl; do
    unpack "$wheel" "$work/unpacked"
  done
  cp -r "$work"/unpacked/*.data/data/. "$out"
  # The wheel holds the library three times, since wheels know no links.
  local library
  library=$(basename "$out"/lib/libdnnl.so.3.*)
  ln -sf "$library" "$out/lib/libdnnl.so.3"
  ln -sf libdnnl.so.3 "$out/lib/libdnnl.so"
}

# Debian's library has an older Protocol Buffers inside, whose symbols clash with the one that ONNX needs: this one is built
# with Debian's.
make_sentencepiece() {
  local out=$1 work=$2
  "$(system_python)" -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --no-binary=:all: \
    --dest "$work" --requirement "$root/cmake/requirements-source.txt"
  tar -xzf "$work"/sentencepiece-*.tar.gz -C "$work"
  local source
  source=$(echo "$work"/sentencepiece-*/sentencepiece)
  cmake -S "$source" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$cxx" \
    -DCMAKE_CXX_FLAGS="$cxx_flags" -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DSPM_ENABLE_SHARED=OFF -DSPM_ENABLE_TCMALLOC=OFF \
    -DSPM_PROTOBUF_PROVIDER=package >"$work/log" 2>&1 || { cat "$work/log" >&2; return 1; }
  ninja -C "$work/build" sentencepiece-static >"$work/log" || { tail -50 "$work/log" >&2; return 1; }
  mkdir -p "$out/lib" "$out/include"
  cp "$work/build/src/libsentencepiece.a" "$out/lib"
  cp "$source/src/sentencepiece_processor.h" "$out/include"
}

make_onednn-source() {
  local out=$1 work=$2
  mkdir -p "$work/crate/src"
  printf '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\nonednn-src = "=%s"\n' \
    "$onednn_crate" >"$work/crate/Cargo.toml"
  touch "$work/crate/src/lib.rs"
  (cd "$work/crate" && cargo vendor --quiet vendor >/dev/null)
  local source=$work/crate/vendor/onednn-src
  grep -q "\"package\":\"$onednn_crate_sha256\"" "$source/.cargo-checksum.json" ||
    { say "onednn-src $onednn_crate is not the one that is pinned"; return 1; }
  cmake -S "$source/oneDNN" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER="$cxx" \
    -DCMAKE_CXX_FLAGS="$cxx_flags" -DCMAKE_INSTALL_PREFIX="$out" -DCMAKE_INSTALL_LIBDIR=lib -DONEDNN_CPU_RUNTIME=OMP \
    -DONEDNN_ENABLE_WORKLOAD=INFERENCE -DONEDNN_BUILD_DOC=OFF -DONEDNN_BUILD_EXAMPLES=OFF -DONEDNN_BUILD_TESTS=OFF \
    -DONEDNN_BUILD_GRAPH=OFF >"$work/log" 2>&1 || { cat "$work/log" >&2; return 1; }
  ninja -C "$work/build" install >"$work/log" || { tail -50 "$work/log" >&2; return 1; }
}

# A virtual environment holds absolute paths: it is made in its place, and counts when its last file is written.
make_venv() {
  local out=$1
  "$(system_python)" -m venv "$out"
  "$out/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary=:all: \
    --requirement "$root/tests/requirements.txt"
}

make_node-tests() {
  fill venv
  "$(path venv)/bin/python" -W ignore "$root/tests/conformance/make_node_tests.py" "$1" >/dev/null
}

fill() {
  local name=$1 out
  out=$(path "$name")
  if [[ -e $out/.complete ]]; then return; fi
  mkdir -p "$cache"
  (
    flock 9
    if [[ -e $out/.complete ]]; then exit; fi
    say "making $out"
    work=$(mktemp -d "$cache/.$name.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    rm -rf "$out"
    if [[ $name == venv ]]; then
      make_venv "$out"
    else
      "make_${name%-1.*}" "$work/out" "$work" "${name#onnxruntime-}"
      mv "$work/out" "$out"
    fi
    touch "$out/.complete"
  ) 9>"$cache/.lock-$name"
}

case ${1:-} in
  path) path "$2" ;;
  fill) shift; for name in "$@"; do fill "$name"; done ;;
  *) sed -n '2,9p' "${BASH_SOURCE[0]}"; exit 2 ;;
esac
