"""Rewrites of a Program, one idea per file, each of them optional."""
