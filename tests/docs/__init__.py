"""Tests of the documentation: every block of code runs, and every output is what the program prints."""
