"""Chat templates: messages as one text, as the model was trained to read them."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from typing import Any

from irrun.errors import IrrunError

__all__ = ["ChatTemplateError", "render_chat"]


class ChatTemplateError(IrrunError):
    """A chat template is invalid or refuses messages, or Jinja is not installed."""


def render_chat(
    template: str, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool, variables: Mapping[str, Any]
) -> str:
    """Return messages as one text.

    Args:
        template: A template of Jinja.
        messages: Messages such as `{"role": "user", "content": "Hello"}`.
        add_generation_prompt: Whether what precedes an answer is appended.
        variables: Further variables, such as "bos_token".

    Raises:
        ChatTemplateError: See the class.
    """
    try:
        from jinja2.exceptions import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        raise ChatTemplateError("chat templates require Jinja: pip install irrun[text]") from None
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )

    def refuse(message: str) -> None:
        raise TemplateError(message)

    def to_json(value: Any, indent: int | None = None, ensure_ascii: bool = False, **_: Any) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent)

    environment.filters["tojson"] = to_json
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    try:
        return environment.from_string(template).render(
            **{**variables, "messages": messages, "add_generation_prompt": add_generation_prompt}
        )
    except (TemplateError, TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        raise ChatTemplateError(f"{type(error).__name__}: {error}") from error
