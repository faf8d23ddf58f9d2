"""How a model is executed: lowering to a program, passes over it, the executor, infer requests."""
