"""Write `irrun/export/kernel_types.txt`: the element types that onnxruntime's CPU kernels of operations support."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import onnx
from onnxruntime.capi import onnxruntime_pybind11_state as state

OPSET = 21
#: The last version of a kernel without an end. onnxruntime uses it only if the operation has not changed since.
OPEN = (1 << 31) - 1
NAMES = {
    "float": "f32", "double": "f64", "float16": "f16", "bfloat16": "bf16", "bool": "boolean", "string": "string",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "int4": "i4",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "uint4": "u4",
    "float8e4m3fn": "f8e4m3", "float8e5m2": "f8e5m2",
}  # fmt: skip
#: Types that kernels accept and then refuse.
EXCLUDED = {("LSTM", "f64"), ("GRU", "f64")}


def find_schemas() -> dict[str, onnx.defs.OpSchema]:
    """Return the newest schema of each operation in the opset."""
    schemas: dict[str, onnx.defs.OpSchema] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        newest = schemas.get(schema.name)
        is_used = schema.domain == "" and schema.since_version <= OPSET and not schema.deprecated
        if is_used and (newest is None or schema.since_version > newest.since_version):
            schemas[schema.name] = schema
    return schemas


def main() -> None:
    """Write the table."""
    schemas = find_schemas()
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for kernel in state.get_all_opkernel_def():
        schema = schemas.get(kernel.op_name)
        if schema is None or kernel.provider != "CPUExecutionProvider" or kernel.domain not in ("", "ai.onnx"):
            continue
        first, last = kernel.version_range
        if schema.since_version != first and (last == OPEN or not first < schema.since_version <= last):
            continue
        for variable, texts in kernel.type_constraints.items():
            for text in texts:
                name = text.removeprefix("tensor(").removesuffix(")")
                if name in NAMES and (kernel.op_name, NAMES[name]) not in EXCLUDED:
                    found[kernel.op_name][variable].add(NAMES[name])
    every = set(NAMES.values()) - {"f16"}
    lines = []
    for name, variables in sorted(found.items()):
        allowed = {c.type_param_str: set(c.allowed_type_strs) for c in schemas[name].type_constraints}
        row = {}
        for variable, types in sorted(variables.items()):
            schema_types = {
                NAMES[t[7:-1]] for t in allowed.get(variable, ()) if t.startswith("tensor(") and t[7:-1] in NAMES
            }
            if schema_types - types - {"f16"}:  # onnxruntime inserts conversions for f16 by itself
                row[variable] = " ".join(sorted(types | ({"f16"} & schema_types)))
            elif every - schema_types:
                row[variable] = " ".join(sorted(schema_types))
        lines += [f"{name} {variable} {types}".rstrip() + "\n" for variable, types in row.items()]
    path = Path(__file__).resolve().parent.parent / "irrun" / "export" / "kernel_types.txt"
    path.write_text("".join(lines))


if __name__ == "__main__":
    main()
