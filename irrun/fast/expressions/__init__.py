"""Elementwise functions of f32, each written once as an expression in the primitives of a machine.

- `table`: how expressions are declared, and how an operation is bound to one.
- `machine`: what a machine computes.
- `functions`, `quantization`: the expressions.
- `numpy`: the machine that computes arrays in place; `llvm`: the machine that computes vectors.
"""
