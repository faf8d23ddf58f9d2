"""Elementwise functions of f32, each written once as an expression in the primitives of a machine.

- `table`: the declarations of expressions, and how operations are bound to them.
- `machine`: the primitives of machines.
- `functions`, `quantization`: the expressions.
- `numpy`: the machine that computes arrays in place. `irrun.fast.jit.vectors` is the machine that computes vectors.
"""
