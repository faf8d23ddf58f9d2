#!/usr/bin/env bash
# Run a command as on a processor that has AVX2, but not AVX-512.
#
#   tools/avx2.sh COMMAND...             tell irrun, NumPy and OpenBLAS by environment variables
#   tools/avx2.sh --emulate COMMAND...   emulate the processor with QEMU, which takes three to thirty times as long
#
# OpenVINO's CPU plugin needs emulation: ONEDNN_MAX_CPU_ISA=AVX2 limits only some of its code, so that some kernels
# fail ("evex is invalid" in DFT) or end the process (MVN, GroupNormalization).
#
# The command is `python`, or a script of the same virtual environment such as `pytest`. Emulated programs run their
# subprocesses emulated as well, if these are started by sys.executable. QEMU_CPU names another processor.
set -euo pipefail

if [ "${1:-}" != --emulate ]; then
  [ $# -gt 0 ] || { sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2; }
  IRRUN_CPU=x86-64-v3
  OPENBLAS_CORETYPE=Haswell
  # The features that this version of NumPy can do without: others would be warnings.
  NPY_DISABLE_CPU_FEATURES=$(python -c '
import numpy
core = getattr(numpy, "_core", None) or numpy.core
print(*(f for f in core._multiarray_umath.__cpu_dispatch__ if f.startswith("AVX512") or f == "X86_V4"))')
  export IRRUN_CPU OPENBLAS_CORETYPE NPY_DISABLE_CPU_FEATURES
  exec "$@"
fi

shift
[ $# -gt 0 ] || { echo "tools/avx2.sh: --emulate needs a command" >&2; exit 2; }
version=$(qemu-x86_64 --version 2>/dev/null | sed -n 's/.*version \([0-9]*\)\..*/\1/p')
if [ "${version:-0}" -lt 10 ]; then  # 7.2 computes gathers wrongly
  echo "tools/avx2.sh: found QEMU ${version:-none}, expected qemu-x86_64 10 or later (Debian: qemu-user)" >&2
  exit 2
fi
prefix=$(python -c 'import sys; print(sys.prefix)')
[ -f "$prefix/pyvenv.cfg" ] || { echo "tools/avx2.sh: --emulate needs an active virtual environment" >&2; exit 2; }

# Zen 3, without the features that QEMU would warn about.
if [ -z "${QEMU_CPU:-}" ]; then
  QEMU_CPU=EPYC-Milan
  QEMU_CPU+=$(QEMU_CPU=EPYC-Milan qemu-x86_64 /bin/true 2>&1 | sed -n "s/.*doesn't support.*\.\([^. ]*\) \[bit.*/,-\1/p" | sort -u | tr -d '\n')
fi
export QEMU_CPU

# A virtual environment whose interpreter is a script that starts the real one in QEMU.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp "$prefix/pyvenv.cfg" "$folder/"
for name in lib lib64 share etc; do
  [ ! -e "$prefix/$name" ] || ln -s "$prefix/$name" "$folder/$name"
done
mkdir "$folder/bin"
printf '#!/bin/sh\nexec qemu-x86_64 -0 "%s" "%s" "$@"\n' "$folder/bin/python" "$prefix/bin/python" > "$folder/bin/python"
chmod +x "$folder/bin/python"
for script in "$prefix"/bin/*; do
  if [ -f "$script" ] && [ ! -L "$script" ] && head -c 200 "$script" | head -n 1 | grep -q '^#!.*python'; then
    sed "1s|.*|#!$folder/bin/python|" "$script" > "$folder/bin/${script##*/}"
    chmod +x "$folder/bin/${script##*/}"
  fi
done
VIRTUAL_ENV=$folder PATH=$folder/bin:$PATH "$@"
