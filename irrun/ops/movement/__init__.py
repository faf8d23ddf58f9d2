"""Data movement operations, one module per family."""
