"""Helpers that kernels share; docs/design.md lists the modules."""
