"""`irrun info --plan`."""

from __future__ import annotations

import importlib.util
import json

import pytest
from ir_text import chain, write

from irrun.cli import main


def test_plan_lists_fused_layers_and_implementations(tmp_path, capsys):
    path = str(write(tmp_path, chain("Relu", "Sigmoid", "ShapeOf")))
    main(["info", path, "--plan", "--json"])
    first, second = json.loads(capsys.readouterr().out)["plan"]
    assert first["layers"] == ["layer1", "layer2"]
    assert first["operations"] == ["Relu", "Sigmoid"]
    assert first["implementation"] == "chain of 2 operations, by tiles"
    assert second["operations"] == ["ShapeOf"]
    assert second["implementation"] == "return the same array for the same shape"
    main(["info", path, "--plan"])
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["layers", "operations", "implementation"]
    assert table[1].startswith("layer2 and 1 more  Relu+Sigmoid  chain of 2 operations")
    assert table[2].startswith("layer3             ShapeOf       return the same array")


def test_plan_states_why_other_methods_do_not_apply(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("IRRUN_JIT", "off")
    attributes = 'eps="1e-6" across_channels="true"'
    text = chain("MVN", "Sin", "MVN", shape=(2, 3, 4), versions=["opset2"] * 3, data=[attributes, "", attributes])
    path = str(write(tmp_path, text))
    main(["info", path, "--plan", "--json"])
    first, *_, last = json.loads(capsys.readouterr().out)["plan"]
    reason = "use products with ones: only for the last axis, of at most 4,096 elements"
    for entry in (first, last):
        assert entry["implementation"].startswith("sums along the axes: all others")
        assert entry["refused"] == [reason]
    main(["info", path, "--plan"])
    assert capsys.readouterr().out.splitlines()[-1].split("  ") == ["layer2 and 1 more", reason]


@pytest.mark.skipif(importlib.util.find_spec("llvmlite") is None, reason="llvmlite is not installed")
def test_plan_describes_compiled_kernels(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("IRRUN_JIT", "on")
    path = str(write(tmp_path, chain("Relu", "Sigmoid", shape=(64, 64))))
    main(["info", path, "--plan", "--json"])
    (entry,) = json.loads(capsys.readouterr().out)["plan"]
    assert entry["operations"] == ["Relu", "Sigmoid"]
    assert entry["implementation"] == "compiled: elementwise, one pass over the data"


def test_plan_cannot_be_combined_with_layers(tmp_path, capsys):
    with pytest.raises(SystemExit) as exit_info:
        main(["info", str(write(tmp_path, chain("Relu"))), "--plan", "--layers", "*"])
    assert exit_info.value.code == 2
    assert "--plan cannot be combined with --layers" in capsys.readouterr().err
