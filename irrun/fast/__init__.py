"""Faster implementations of operations, which replace the kernels of `ops/` where they apply.

Each module registers specializers (see `specialization`) for some operations. A specializer gets a call site, which
holds everything known about an instruction when a model is compiled, and returns a kernel for it, or None to keep the
plain kernel. tests/fast validates every entry against `ops/`.
"""
