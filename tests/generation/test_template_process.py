"""The process that renders chat templates, called in this one."""

from __future__ import annotations

import io
import json
import os
import resource
import signal
import sys
from pathlib import Path

import pytest

from irrun.generation import template_worker
from irrun.generation.template_worker import make_environment, render

pytest.importorskip("jinja2")


@pytest.mark.parametrize(
    ("template", "variables", "answer"),
    [
        ("{% for m in messages %}\n  {% if m %}\n[{{ m }}]\n  {% endif %}\n{% endfor %}", {"messages": [1, 0, 2]},
         {"text": "[1]\n[2]\n"}),
        ("{% for i in [1, 2, 3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", {}, {"text": "1"}),
        ("{{ x | tojson }}", {"x": {"ä": [1, "<"]}}, {"text": '{"ä": [1, "<"]}'}),
        ("{{ x | tojson(indent=1, ensure_ascii=true, other=3) }}", {"x": ["ä"]}, {"text": '[\n "\\u00e4"\n]'}),
        ("{{ raise_exception('no  roles') }}", {}, {"refused": "TemplateError: no roles"}),
        ("{{ strftime_now('%%|%Y')[:3] }}", {}, {"text": "%|2"}),
        ("{{ ''.__class__.__mro__ }}", {}, {"refused": "SecurityError: access to attribute '__class__' of 'str' object "
                                                      "is unsafe."}),
        ("{{ x.append(1) }}", {"x": []}, {"refused": "SecurityError: access to attribute 'append' of 'list' object is "
                                                     "unsafe."}),
        ("{{ raise_exception('a' * 284) }}", {}, {"refused": "TemplateError: " + "a" * 284}),
        ("{{ raise_exception('a' * 290) }}", {}, {"refused": "TemplateError: " + "a" * 285 + "..."}),
        ("{{ raise_exception('a' * 10 + ' ' * 900 + 'b') }}", {}, {"refused": "TemplateError: " + "a" * 10}),
        ("{{ 'a' * 16777216 }}", {}, {"text": "a" * 16777216}),
        ("{{ 'a' * 16777217 }}", {},
         {"refused": "the text has 16777217 characters, expected at most 16777216"}),
    ],
    ids=str(list(range(13)))[1:-1].split(", "),
)  # fmt: skip
def test_requests_are_answered(template, variables, answer):
    assert render(make_environment(), template, variables) == answer


def test_templates_that_take_all_memory_are_refused():
    class Environment:
        def from_string(self, template):
            raise MemoryError

    assert render(Environment(), "", {}) == {"refused": "it takes more than 512 MiB"}


@pytest.mark.parametrize("is_installed", [True, False])
def test_each_line_is_a_request(is_installed, monkeypatch, capsys):
    handlers, limits = [], []
    request = json.dumps({"template": "{{ a }}ä", "variables": {"a": 1}})
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{request}\n{request}\n"))
    monkeypatch.setattr(signal, "signal", lambda *arguments: handlers.append(arguments))
    monkeypatch.setattr(template_worker, "limit_memory", lambda: limits.append(1))
    if not is_installed:
        monkeypatch.setitem(sys.modules, "jinja2.sandbox", None)
    template_worker.main()
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"text": "1ä"} if is_installed else {"missing": True}
    ] * 2
    assert handlers == [(signal.SIGINT, signal.SIG_IGN)]
    assert limits == [1]


@pytest.mark.parametrize(
    ("hard", "limit"),
    [(resource.RLIM_INFINITY, None), (1 << 20, 1 << 20), (1 << 60, None)],
    ids=["unlimited", "low", "high"],
)
def test_memory_is_limited(hard, limit, monkeypatch):
    pages, found = 1000, []
    monkeypatch.setattr(Path, "read_text", lambda path, encoding: f"{pages} 5 6\n")
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (0, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, values: found.append((kind, values)))
    template_worker.limit_memory()
    used = pages * os.sysconf("SC_PAGE_SIZE")
    assert found == [(resource.RLIMIT_AS, (limit or used + (512 << 20), hard))]


def test_memory_is_not_limited_where_the_system_cannot(monkeypatch):
    calls = []

    def fail(path, encoding):
        calls.append(str(path))
        raise OSError

    monkeypatch.setattr(Path, "read_text", fail)
    monkeypatch.setattr(resource, "setrlimit", lambda *arguments: calls.append(arguments))
    template_worker.limit_memory()
    assert calls == ["/proc/self/statm"]
