"""How a model is executed: lowering to a Program, passes over it, the executor, requests."""
