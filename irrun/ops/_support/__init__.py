"""Support for kernels: registry, numerics, axes and indices, windows, boxes, matrix products, special functions."""
