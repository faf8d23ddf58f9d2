"""Details of files and graphs: how much of a document is checked, copies of weights, and graphs under construction."""

from __future__ import annotations

import pickle
from contextvars import ContextVar
from typing import Any, ClassVar

import pytest

from irrun.errors import ModelError
from irrun.ir import xml
from irrun.ir.building import GraphBuilder
from irrun.ir.weights import Weights


def test_only_the_start_of_a_document_is_checked_for_a_dtd():
    """What follows the root element is checked by the parser that reads the document."""
    xml._check_prolog(b"<?xml version='1.0'?><!-- a --><net></nut><!DOCTYPE x>", None)
    with pytest.raises(ModelError, match="DTDs are not allowed in model files, found <!DOCTYPE x>"):
        xml._check_prolog(b"<?xml version='1.0'?><!DOCTYPE x><net/>", None)
    with pytest.raises(ModelError, match="not well-formed XML: "):
        xml._check_prolog(b"text<net/>", None)
    long = b"<?xml version='1.0'?><!--" + b"-a" * xml.CHUNK_SIZE + b"--><!DOCTYPE y><net/>"
    with pytest.raises(ModelError, match="found <!DOCTYPE y>"):
        xml._check_prolog(long, None)


class Builder(GraphBuilder):
    current: ClassVar[ContextVar[Any]] = ContextVar("graph", default=None)
    scope = "outer"


def test_graphs_are_current_inside_their_blocks():
    first, second = Builder(), Builder()
    with first.activate() as active:
        assert active is first
        with second.activate():
            assert Builder.current.get() is second
        assert Builder.current.get() is first
        with pytest.raises(KeyError), second.activate():
            raise KeyError
        assert Builder.current.get() is first
    assert Builder.current.get() is None


def test_scopes_are_those_of_their_blocks():
    graph = Builder()
    with graph.rename("inner"):
        assert graph.scope == "inner"
        with pytest.raises(KeyError), graph.rename("innermost"):
            raise KeyError
        assert graph.scope == "inner"
    assert graph.scope == "outer"


def test_mapped_weights_are_pickled_by_their_path_and_others_by_their_bytes(tmp_path, monkeypatch):
    path = tmp_path / "model.bin"
    path.write_bytes(b"abcd")
    monkeypatch.chdir(tmp_path)
    mapped = Weights.open("model.bin")
    _, arguments = mapped.__reduce__()
    assert arguments == (path,)
    assert bytes(pickle.loads(pickle.dumps(mapped))._buffer) == b"abcd"
    named = Weights(b"efgh", path)
    assert named.__reduce__()[1] == (b"efgh", path, None, None)
    copy = pickle.loads(pickle.dumps(named))
    assert (bytes(copy._buffer), copy.path) == (b"efgh", path)
    mapped.path = None
    assert mapped.__reduce__()[1] == (b"abcd", None, None, None)
