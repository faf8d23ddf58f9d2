"""Configurations of every operation, with which implementations of them are compared."""
