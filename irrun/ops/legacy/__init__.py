"""Kernels of layers of IR v2 to v7 that no operation of today, nor a few of them, stand for."""
