"""Execution of models: lowering to a program, passes that rewrite it, the executor, and infer requests."""
