"""`python -m irrun`."""

from irrun.cli import main

main()
