"""The process that renders chat templates. Templates are programs from untrusted files.

It is a script, not a module of irrun, so that it starts fast. Each line of standard input is a request in JSON, and
each line of standard output the answer: {"text": ...}, {"refused": ...}, or {"missing": true} without Jinja.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    del sys.path[0]  # the folder of this file; its modules have common names

import datetime
import json
import signal
from typing import Any

#: Memory limit of a template in bytes.
MEMORY = 512 << 20
#: Maximum length of the text in characters.
MAX_TEXT = 1 << 24
#: Maximum length of an error message in characters.
MAX_MESSAGE = 300


def main() -> None:
    """Answer requests until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that waits for the answer is interrupted
    try:
        environment = make_environment()
    except ImportError:
        environment = None
    limit_memory()
    for line in sys.stdin:
        answer = {"missing": True} if environment is None else render(environment, **json.loads(line))
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def make_environment() -> Any:
    """Return the environment of templates.

    Raises:
        ImportError: Jinja is not installed.
    """
    from jinja2.exceptions import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> None:
        raise TemplateError(message)

    def to_json(value: Any, indent: int | None = None, ensure_ascii: bool = False, **_: Any) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return environment


def limit_memory() -> None:
    """Limit the memory of this process, if the system supports it."""
    try:
        import resource
        from pathlib import Path

        used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        limit = used + MEMORY if hard == resource.RLIM_INFINITY else min(used + MEMORY, hard)
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    except (ImportError, OSError, ValueError):
        return


def render(environment: Any, template: str, variables: dict[str, Any]) -> dict[str, str]:
    """Return the answer to a request."""
    try:
        text: str = environment.from_string(template).render(variables)
        if len(text) > MAX_TEXT:
            return {"refused": f"the text has {len(text)} characters, expected at most {MAX_TEXT}"}
    except MemoryError:
        return {"refused": f"it takes more than {MEMORY >> 20} MiB"}
    except Exception as error:  # whatever a template raises
        message = " ".join(f"{type(error).__name__}: {error}"[: 2 * MAX_MESSAGE].split())
        return {"refused": message if len(message) <= MAX_MESSAGE else message[:MAX_MESSAGE] + "..."}
    return {"text": text}


if __name__ == "__main__":
    main()
