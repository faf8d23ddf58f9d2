"""What the processes of the tests of pools do: some end, some hang."""

from __future__ import annotations

import os
import time
from multiprocessing.connection import Connection

from irrun.conformance.worker import Outcome, WorkerSettings

__all__ = ["end_at_once", "work"]


def work(connection: Connection, settings: WorkerSettings) -> None:
    """Agree in all cases but these.

    1 ends the process, 2 hangs, 3 ends it if another case ran before, and 4 ends it while the reference is asked.
    """
    done = 0
    for task in iter(connection.recv, None):
        for number in task.numbers:
            connection.send(("device", number))
            if number == 1 or (number == 3 and done):
                settings.log.write_text("first line\nlast line\n")
                os._exit(7)
            if number == 2:
                time.sleep(60)
            if number == 4 and task.asks_reference:
                connection.send(("reference", number))
                os._exit(7)
            connection.send(Outcome(number, "agree", str(os.getpid())))
            done += 1
        connection.send(None)


def end_at_once(connection: Connection, settings: WorkerSettings) -> None:
    """End before the first case."""
    settings.log.write_text("cannot start")
    os._exit(3)
