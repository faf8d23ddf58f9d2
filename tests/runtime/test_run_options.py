"""Options of functions that run models."""

import pytest

from irrun.errors import InputError
from irrun.runtime.options import RunSettings


def test_options_are_fields_of_settings():
    assert RunSettings.choose({}) == RunSettings()
    assert RunSettings.choose({"precision": "f64", "timeout": 2, "settings": None}) == RunSettings("f64", timeout=2)
    assert RunSettings.choose({"jit": False}, compiles=True) == RunSettings(jit=False)
    with pytest.raises(InputError, match="timeout"):
        RunSettings.choose({"timeout": -1})


def test_complete_settings_replace_single_options():
    settings = RunSettings(threads=3)
    assert RunSettings.choose({"settings": settings, "threads": 2}) is settings


@pytest.mark.parametrize("name", ["jit", "thread", "optimize"])
def test_other_keyword_arguments_are_refused(name):
    expected = (
        f"unexpected keyword argument '{name}', expected one of memory, precision, threads, timeout, weights_memory"
    )
    with pytest.raises(TypeError, match=expected):
        RunSettings.choose({name: None})
