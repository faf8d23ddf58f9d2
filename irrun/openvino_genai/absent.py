"""Classes of OpenVINO GenAI that irrun does not have, which programs may import without using them."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["make_absent_class"]


class _AbsentClass(type):
    """The class of classes without attributes and instances."""

    def _refuse(cls) -> NoReturn:
        raise RuntimeError(f"irrun does not provide openvino_genai.{cls.__name__}")

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        cls._refuse()

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        cls._refuse()


def make_absent_class(name: str) -> type:
    """Return a class that can be subclassed and compared, but whose use raises a RuntimeError that names it."""
    return _AbsentClass(name, (), {"__doc__": "Not provided by irrun.", "__module__": "irrun.openvino_genai"})
