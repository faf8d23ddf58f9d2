"""The entry point of `python -m irrun`."""

from irrun.cli import main

main()
