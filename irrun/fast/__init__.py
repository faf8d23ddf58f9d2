"""Faster implementations of operations, which replace the kernels of `ops/` where they apply.

Each module registers specializers (see `specialization`) for some operations. A specializer gets a call site,
the facts about an instruction when a model is compiled, and returns a kernel for it, or None where the
plain definition stays. Every entry is validated against `ops/` by tests/fast.
"""
