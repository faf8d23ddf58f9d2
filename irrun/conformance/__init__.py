"""Configurations of every operation, for comparing implementations."""
