"""What serves the kernels: registry, numerics, axes and index arithmetic, windows, boxes, products, functions."""
