"""Inputs and outputs in files and as text."""
