"""Import of ONNX models as graphs of OpenVINO's operations.

`api.py` reads a file, `importer.py` walks over its graph, and `rules/` has a function for each ONNX operator, which
adds operations to a `graph.Graph`. Operators without a rule are expanded if ONNX defines them as functions of others.
"""
