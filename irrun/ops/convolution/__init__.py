"""Convolution operations, one module per family."""
