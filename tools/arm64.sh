#!/usr/bin/env bash
# Run Python as on a 64-bit ARM processor, emulated with QEMU, which takes 10 to 30 times as long.
#
#   tools/arm64.sh pytest tests/fast                     run a script of the environment, such as pytest or irrun
#   tools/arm64.sh python program.py                     run Python
#   tools/arm64.sh -m irrun model.xml --input x.npy      the same with Python's options
#   tools/arm64.sh --folder FOLDER COMMAND...            keep the environment in FOLDER, not in the user's cache folder
#
# The first run takes minutes: it unpacks Python for ARM from this machine's release of Debian, and installs what the
# tests need, except OpenVINO. It needs pip 22.3 or later for `python3`, and root only to install QEMU. Delete the folder
# to make the environment anew.
#
# Emulated programs run their subprocesses emulated as well, if these are started by sys.executable or by a script of
# the environment, so binfmt_misc is not needed. QEMU_CPU names a processor: by default neoverse-n1, which has dot
# products, as cortex-a72 has not. With max, which has all features that QEMU knows, OpenBLAS uses SME, and some of its
# products are NaN.
set -euo pipefail

project=$(realpath "$(dirname "$0")/..")
folder=${XDG_CACHE_HOME:-$HOME/.cache}/irrun/arm64
if [ "${1:-}" = --folder ] && [ $# -gt 1 ]; then
  folder=$(realpath -m "$2")
  shift 2
fi
[ $# -gt 0 ] || { sed -n '2,16s/^# \{0,1\}//p' "$0" >&2; exit 2; }

# Packages of Debian for ARM: resolved and downloaded by apt in a state of its own, and unpacked without installation.
unpack_python() {
  mkdir -p "$folder"/apt/{lists,archives}/partial "$folder/root"
  : > "$folder/apt/status"
  cat > "$folder/apt.conf" <<END
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Install-Recommends "false";
APT::Sandbox::User "$(id -un)";
Debug::NoLocking "true";
Dir::State "$folder/apt";
Dir::State::status "$folder/apt/status";
Dir::Cache "$folder/apt";
END
  APT_CONFIG=$folder/apt.conf apt-get -qq update
  APT_CONFIG=$folder/apt.conf apt-get -qq -y install --download-only python3 libstdc++6
  for package in "$folder"/apt/archives/*.deb; do
    dpkg -x "$package" "$folder/root"
  done
  rm -r "$folder/apt" "$folder/apt.conf"
  # Libraries that read the file of this machine, such as onnxruntime, would fail; NumPy asks the processor.
  mkdir -p "$folder/root/proc"
  printf '%s\n' 'processor : 0' 'Features : fp asimd' 'CPU implementer : 0x41' 'CPU architecture: 8' 'CPU variant : 0x0' \
    'CPU part : 0xd03' 'CPU revision : 4' > "$folder/root/proc/cpuinfo"
}

# A virtual environment whose interpreter is a script that starts the real one in QEMU.
make_environment() {
  local python version
  python=$(readlink -f "$folder"/root/usr/bin/python3)
  version=${python##*/python}
  mkdir -p "$folder/bin" "$folder/lib/python$version/site-packages"
  printf 'home = %s\nversion = %s\n' "$folder/root/usr/bin" "$version" > "$folder/pyvenv.cfg"
  printf '#!/bin/sh\nexec "%s" -L "%s" -0 "%s" "%s" "$@"\n' "$qemu" "$folder/root" "$folder/bin/python" "$python" \
    > "$folder/bin/python"
  chmod +x "$folder/bin/python"
  ln -sf python "$folder/bin/python3"
}

install_packages() {
  "$folder/bin/python" -c '
import sys, tomllib
with open(sys.argv[1], "rb") as file:
    extras = tomllib.load(file)["project"]["optional-dependencies"]
print(*(line for line in extras["test"] if "openvino" not in line), sep="\n")' "$project/pyproject.toml" \
    > "$folder/requirements.txt"
  python3 -m pip --python "$folder/bin/python" install -q --no-compile -r "$folder/requirements.txt" -e "$project[jit]"
}

if [ ! -e "$folder/complete" ]; then
  qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64 || true)
  if [ -z "$qemu" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get -qq update && apt-get -qq -y install qemu-user-static
    qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64)
  fi
  if [ -z "$qemu" ] || ! command -v apt-get >/dev/null; then
    echo "tools/arm64.sh: found no QEMU for ARM, expected Debian with the package qemu-user-static" >&2
    exit 2
  fi
  rm -rf "$folder"
  unpack_python
  make_environment
  install_packages
  touch "$folder/complete"
fi

case $1 in
  -*) set -- python "$@" ;;
esac
# This checkout, also if another one made the environment. Tests take longer than pyproject.toml allows.
export PYTHONPATH="$project${PYTHONPATH:+:$PYTHONPATH}" PYTEST_TIMEOUT=${PYTEST_TIMEOUT:-3600}
export QEMU_CPU=${QEMU_CPU:-neoverse-n1}
VIRTUAL_ENV=$folder PATH=$folder/bin:$PATH exec "$@"
