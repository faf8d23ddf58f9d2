"""Algorithms that the operations on text share; kernels are in `irrun.ops.text`."""
