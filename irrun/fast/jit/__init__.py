"""Kernels that LLVM compiles for the processor: the optional extra `jit`."""
