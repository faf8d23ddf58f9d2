"""Arithmetic operations, one module per family."""
