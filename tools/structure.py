"""Measure how many places know the same fact about an operation, and how modules depend on each other.

Run `python tools/structure.py` for a table, or with `--json` for programs, or with `--list ROW` for the places behind a
row. Only the syntax tree is read; nothing is imported. What counts:

- *operation files*: files of `irrun/` (without `openvino/` and `ir/legacy/`) with a string literal that is the type of
  the operation, alone or with a version ("MatMul", "MatMul-1"). Docstrings do not count.
- *tables*: assignments to names of a module whose value contains at least two different types of operations, in all
  files; `__all__`, the generated tables of modules and patterns of rules do not count. Tables of packages that
  translate names of another format (`export/`, `onnx_import/`, `openvino/`, `ir/legacy/`) are counted a second time, so
  that they can be subtracted. Generated cases (`conformance/`) count nowhere: a generator names the operation that it
  generates.
- *type comparisons*: comparisons of an expression that ends in `.type` with a literal that is the type of an operation
  (in any case), with a collection that contains one, or with a constant of the module, such as a table. Types of other
  things ("i8" of a value of LLVM, "dir" of a completion) do not count, nor do comparisons with a variable, which know
  no operation.
- *bindings*: different lists of parameters of methods named `bind` and `prepare`, and calls of `hasattr` for these
  names or for variable ones.
- *body recursions*: functions of `runtime/` and `rewrite/` that iterate over the bodies of instructions or layers.
- *trip of the program*: files that the calls starting at `optimize` enter with a `Program`, in the order of the code,
  and returns to a file that was left. Calls are followed by the names of functions with a parameter of this type.
- *caches by hand*: functions that rebind a variable of an enclosing function (`nonlocal`), and uses of
  `threading.local`.
- *circles of imports*: strongly connected modules. Imports inside functions and those for type checkers count; imports
  by name (`importlib`, the tables of `_lazy.py`) do not.
- *imports that run back up*: pairs of modules, where the package of the first one is not above the package of the
  other one in the order that `docs/design.md` states. Inside a package, the imports that close a circle between the
  files and folders of one folder, even if no files import each other: of each circle, the fewest between two of them.
- *lines* and *code lines*: of all .py files; code lines have tokens other than comments and docstrings.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "irrun"
#: Operations whose number of files is reported.
SAMPLES = ("FakeQuantize", "MatMul", "Convolution", "Gather", "LSTMSequence")
#: Folders that translate names of another format.
TRANSLATORS = ("export", "onnx_import", "openvino", "ir/legacy")
#: The folder of generated cases, which name what they generate.
CASES = "conformance/"
#: Files that `tests/ops/kernel_table.py` writes.
GENERATED = ("ops/_support/kernel_modules.py", "fast/modules.py")
#: Names of tables that list modules or public names.
NOT_TABLES = {"__all__", "MODULES_OF_TYPES"}


class Source:
    """A file of the package and its syntax tree.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.relative_to(PACKAGE).as_posix()
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        self.docstrings = set(find_docstrings(self.tree))

    def find_literals(self, node: ast.AST | None = None) -> Iterator[ast.Constant]:
        """Yield the string literals below a node, without docstrings."""
        for child in ast.walk(node or self.tree):
            if isinstance(child, ast.Constant) and isinstance(child.value, str) and id(child) not in self.docstrings:
                yield child

    @property
    def translates(self) -> bool:
        """Whether the file translates names of another format."""
        return self.name.startswith(tuple(f"{folder}/" for folder in TRANSLATORS))


def find_docstrings(tree: ast.AST) -> Iterator[int]:
    """Yield the ids of docstrings and of strings that document assignments."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else []:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                yield id(statement.value)


def read_operation_types(sources: list[Source]) -> set[str]:
    """Return the types of all operations that kernels and lowering register."""
    types = set()
    for source in sources:
        families = {
            statement.targets[0].id
            for statement in source.tree.body
            if isinstance(statement, ast.Assign)
            and isinstance(statement.targets[0], ast.Name)
            and is_family(statement.value)
        }
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.Call):
                continue
            arguments = node.args[1:] if is_family(node) else node.args
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if (is_family(node) or name in ("op", "StructuralOperation", *families)) and arguments:
                first = arguments[0]
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    types.add(first.value)
    return types


def is_family(node: ast.AST) -> bool:
    """Return whether a value is `partial(op, ...)`, which states what the cards of several kernels share."""
    return (
        isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "partial"
        and bool(node.args)
        and getattr(node.args[0], "id", "") == "op"
    )


def get_type(text: str, types: set[str]) -> str | None:
    """Return the operation that a literal names, or None."""
    name = re.sub(r"-\d+$", "", text)
    return name if name in types else None


def list_operation_files(sources: list[Source], types: set[str]) -> dict[str, list[str]]:
    """Return the files that name each sample operation."""
    files: dict[str, list[str]] = {sample: [] for sample in SAMPLES}
    for source in sources:
        if source.translates:
            continue
        names = {get_type(literal.value, types) for literal in source.find_literals() if source.name not in GENERATED}
        for sample in SAMPLES:
            if sample in names:
                files[sample].append(source.name)
    return files


def list_tables(sources: list[Source], types: set[str]) -> list[tuple[str, int]]:
    """Return the module-level tables of operations and the number of names in each."""
    tables = []
    for source in sources:
        if source.name in GENERATED:
            continue
        for statement in source.tree.body:
            if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
                continue
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            name = next((t.id for t in targets if isinstance(t, ast.Name)), "?")
            if name in NOT_TABLES:
                continue
            named = [get_type(literal.value, types) for literal in source.find_literals(statement.value)]
            named = [n for n in named if n is not None]
            if len(set(named)) >= 2 and not is_pattern(statement.value):
                tables.append((f"{source.name}:{statement.lineno} {name}", len(named)))
    return tables


def is_pattern(node: ast.AST) -> bool:
    """Return whether a value describes one computation that a rule looks for."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Pattern"


def list_comparisons(sources: list[Source], types: set[str]) -> list[str]:
    """Return the comparisons with the types of operations."""
    names = {name.lower() for name in types}
    found = []
    for source in sources:
        if source.translates:
            continue
        for node in ast.walk(source.tree):
            if not isinstance(node, ast.Compare) or not ends_in_type(node.left):
                continue
            literals = {literal.value.lower() for c in node.comparators for literal in source.find_literals(c)}
            if literals & names or any(is_module_constant(c) for c in node.comparators):
                found.append(f"{source.name}:{node.lineno} {ast.unparse(node)[:90]}")
    return found


def ends_in_type(node: ast.AST) -> bool:
    """Return whether an expression is the type of an operation or layer."""
    return isinstance(node, ast.Attribute) and node.attr == "type"


def is_module_constant(node: ast.AST) -> bool:
    """Return whether an expression is a name in upper case, perhaps of another module."""
    name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
    return bool(name) and name.isupper()


def list_bindings(sources: list[Source]) -> list[str]:
    """Return the different signatures of `bind` and `prepare`, and the calls of `hasattr` that look for them."""
    found = set()
    for source in sources:
        if not source.name.startswith(("fast/", "kernels/", "runtime/", "rewrite/")):
            continue
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ClassDef):
                for method in node.body:
                    if isinstance(method, ast.FunctionDef) and method.name in ("bind", "prepare"):
                        parameters = ", ".join(a.arg for a in method.args.args + method.args.kwonlyargs)
                        found.add(f"{method.name}({parameters})")
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "hasattr" and may_find_binding(node):
                found.add(f"{source.name}:{node.lineno} {ast.unparse(node)}")
    return sorted(found)


def may_find_binding(call: ast.Call) -> bool:
    """Return whether a call of `hasattr` may look for a method named `bind` or `prepare`."""
    name = call.args[1]
    return not isinstance(name, ast.Constant) or name.value in ("bind", "prepare")


def list_recursions(sources: list[Source]) -> list[str]:
    """Return the functions that iterate over bodies."""
    found = []
    for source in sources:
        if not source.name.startswith(("runtime/", "rewrite/")):
            continue
        for function in ast.walk(source.tree):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                iterations = [n.iter for n in ast.walk(function) if isinstance(n, (ast.For, ast.comprehension))]
                if any(re.search(r"\.bodies\b(?!\.keys)", ast.unparse(i)) for i in iterations):
                    found.append(f"{source.name}:{function.lineno} {function.name}")
    return found


def list_caches(sources: list[Source]) -> list[str]:
    """Return the functions that keep what they computed in a variable of an enclosing function or of the thread."""
    found = []
    for source in sources:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Nonlocal):
                found.append(f"{source.name}:{node.lineno} nonlocal {', '.join(node.names)}")
            if isinstance(node, ast.Attribute) and ast.unparse(node) == "threading.local":
                found.append(f"{source.name}:{node.lineno} threading.local")
    return found


def list_circles(sources: list[Source]) -> list[list[str]]:
    """Return the groups of modules that import each other."""
    modules = {name_module(source): source for source in sources}
    edges = {name: sorted(find_imports(source, modules) - {name}) for name, source in modules.items()}
    return [sorted(group) for group in find_components(edges) if len(group) > 1]


def list_back_imports(sources: list[Source]) -> list[str]:
    """Return the imports against the order of packages, and those that close a circle inside a package."""
    modules = {name_module(source): source for source in sources}
    order = read_order()
    found = set()
    # Folder -> file or folder in it -> file or folder that it imports -> the imports.
    arrows: dict[str, dict[str, dict[str, list[str]]]] = {}
    for name, source in modules.items():
        for target in find_imports(source, modules) - {name}:
            place = f"{source.name} -> {modules[target].name}"
            a, b = source.name.split("/"), modules[target].name.split("/")
            depth = next(i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y)
            if depth:
                folder = arrows.setdefault("/".join(a[:depth]), {})
                folder.setdefault(a[depth], {}).setdefault(b[depth], []).append(place)
                folder.setdefault(b[depth], {})
            elif a != ["__main__.py"] and name_room(b) not in order.get(name_room(a), {"ground"}):
                found.add(place)
    for folder in arrows.values():
        while circles := [group for group in find_components({a: sorted(folder[a]) for a in folder}) if group[1:]]:
            pairs = [(a, b) for a in circles[0] for b in folder[a] if b in circles[0]]
            a, b = min(pairs, key=lambda pair: len(folder[pair[0]][pair[1]]))
            found.update(folder[a].pop(b))
    return sorted(found)


def name_room(parts: list[str]) -> str:
    """Return what `docs/design.md` calls the package of a file, from the parts of its path."""
    return parts[0] if len(parts) > 1 else {"__init__.py": "irrun"}.get(parts[0], "ground")


def read_order() -> dict[str, set[str]]:
    """Return the packages that each package may import, from the arrows in `docs/design.md`."""
    text = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    below: dict[str, set[str]] = {}
    for line in text.partition("Imports point in one direction:")[2].split("\n\n")[1].splitlines():
        groups = [[name.strip() for name in group.split(",")] for group in line.split("->")]
        for group, others in pairwise(groups):
            for name in group:
                below.setdefault(name, set()).update(others)
    for _ in below:
        for others in below.values():
            others.update(*(below.get(other, ()) for other in tuple(others)))
    return below


def name_module(source: Source) -> str:
    """Return the qualified name of a module."""
    return ".".join(["irrun", *Path(source.name).with_suffix("").parts]).removesuffix(".__init__")


def find_imports(source: Source, modules: dict[str, Source]) -> set[str]:
    """Return the modules that a module imports anywhere in its code."""
    imported: set[str] = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            imported.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                qualified = f"{node.module}.{alias.name}"
                imported.add(qualified if qualified in modules else node.module)
    return imported & modules.keys()


def find_components(edges: dict[str, list[str]]) -> list[list[str]]:
    """Return the strongly connected components of a graph (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in edges[node]:
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            position = stack.index(node)
            components.append(stack[position:])
            del stack[position:]

    sys.setrecursionlimit(10_000)
    for node in edges:
        if node not in index:
            visit(node)
    return components


def follow_program(sources: list[Source]) -> list[str]:
    """Return the files that a program enters on its way through `optimize`, in order."""
    functions: dict[tuple[str, str], ast.FunctionDef] = {}
    files: dict[str, list[str]] = {}
    for source in sources:
        if source.name.startswith(("runtime/", "rewrite/", "fast/", "kernels/")):
            for node in ast.walk(source.tree):
                if isinstance(node, ast.FunctionDef) and takes_program(node):
                    functions[source.name, node.name] = node
                    files.setdefault(node.name, []).append(source.name)
    trip: list[str] = []
    entered: set[tuple[str, str]] = set()

    def enter(file: str, name: str) -> None:
        entered.add((file, name))
        for call in sorted(find_calls(functions[file, name]), key=lambda c: (c.lineno, c.col_offset)):
            if not trip or trip[-1] != file:
                trip.append(file)
            target = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
            # A name that several files define, such as that of the entry of a phase, leads to all of them.
            for other in [file] if (file, target) in functions else files.get(target, []):
                if (other, target) not in entered:
                    enter(other, target)
        if not trip or trip[-1] != file:
            trip.append(file)

    enter(next(file for file in files["optimize"]), "optimize")
    return trip


def takes_program(function: ast.FunctionDef) -> bool:
    """Return whether a function has a parameter of the type Program."""
    arguments = [*function.args.args, *function.args.kwonlyargs]
    return any(a.annotation is not None and re.search(r"\bProgram\b", ast.unparse(a.annotation)) for a in arguments)


def find_calls(function: ast.FunctionDef) -> list[ast.Call]:
    """Return the calls in a function."""
    return [node for node in ast.walk(function) if isinstance(node, ast.Call)]


def count_lines(sources: list[Source]) -> tuple[int, int]:
    """Return the number of lines and of code lines."""
    total = code = 0
    for source in sources:
        total += source.text.count("\n")
        lines: set[int] = set()
        documented: set[int] = set()
        for node in ast.walk(source.tree):
            if id(node) in source.docstrings and isinstance(node, ast.Constant):
                documented.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
            if token.type not in (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT):
                lines.update(range(token.start[0], token.end[0] + 1))
        code += len(lines - documented)
    return total, code


def measure() -> dict[str, Any]:
    """Return the figures of the table and the places behind them."""
    sources = [Source(path) for path in sorted(PACKAGE.rglob("*.py"))]
    knowing = [source for source in sources if not source.name.startswith(CASES)]
    types = read_operation_types(knowing)
    files = list_operation_files(knowing, types)
    tables = list_tables(knowing, types)
    translated = list_tables([source for source in sources if source.translates], types)
    trip = follow_program(sources)
    total, code = count_lines(sources)
    places: dict[str, Any] = {
        **{f"files that name {sample}": found for sample, found in files.items()},
        "tables of operations": [f"{place}: {count}" for place, count in tables],
        "comparisons with a type": list_comparisons(knowing, types),
        "signatures of bind and prepare, uses of hasattr": list_bindings(sources),
        "recursions into bodies": list_recursions(sources),
        "caches by hand": list_caches(sources),
        "circles of imports": [" ".join(group) for group in list_circles(sources)],
        "imports that run back up": list_back_imports(sources),
    }
    figures = {row: len(found) for row, found in places.items()}
    figures["files with tables of operations"] = len({place.partition(":")[0] for place, _ in tables})
    figures["names in tables of operations"] = sum(count for _, count in tables)
    figures["tables of operations in translators"] = len(translated)
    figures["names in tables of translators"] = sum(count for _, count in translated)
    figures["files on the trip of the program"] = len(set(trip))
    figures["returns on the trip of the program"] = len(trip) - len(set(trip))
    figures["lines"], figures["code lines"] = total, code
    return {"figures": figures, "places": places}


def main() -> None:
    """Print the figures, or the places behind one of them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--list", metavar="ROW", help="print the places of rows whose name contains this text")
    options = parser.parse_args()
    result = measure()
    if options.json:
        print(json.dumps(result, indent=1))
    elif options.list:
        for row, found in result["places"].items():
            if options.list in row:
                print(f"{row}: {len(found)}", *(f"  {place}" for place in found), sep="\n")
    else:
        for row, figure in result["figures"].items():
            print(f"{figure:>7,}  {row}")


if __name__ == "__main__":
    main()
