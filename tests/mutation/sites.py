"""Single changes to Python sources: where they are possible, and how they are applied."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

__all__ = ["OPERATORS", "Mutation", "apply_mutation", "find_mutations"]

Operator = Literal[
    "default", "comparison", "arithmetic", "boolean", "negation", "condition", "statement", "constant", "swap"
]

OPERATORS: dict[Operator, str] = {
    "default": "another default of a parameter, an attribute or an option",
    "comparison": "< and <=, > and >=, == and !=, is and is not, in and not in are exchanged",
    "arithmetic": "another arithmetic or bitwise operator",
    "boolean": "and and or are exchanged",
    "negation": "a not is removed",
    "condition": "a condition is negated",
    "statement": "a statement is replaced by pass",
    "constant": "a number plus or minus 1, or the other boolean",
    "swap": "the first two arguments of a call are exchanged",
}

COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}

ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.Pow: ("**", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.BitXor: ("^", "&"),
}

#: Calls whose arguments are texts for people, or that do not affect results.
IGNORED_CALLS = frozenset(
    {
        "warn",
        "cast",
        "TypeVar",
        "ParamSpec",
        "NewType",
        "cache",
        "lru_cache",
        "deprecated",
        "prefetch",
        "prefetch_tile",
    }
)

#: Functions for which the order of the first two arguments does not matter.
COMMUTATIVE = frozenset(
    {
        "min",
        "max",
        "maximum",
        "minimum",
        "add",
        "multiply",
        "multiply_add",
        "equal",
        "not_equal",
        "logical_and",
        "logical_or",
        "logical_xor",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "array_equal",
        "gcd",
        "lcm",
        "result_type",
        "broadcast_shapes",
        "broadcast_arrays",
        "swapaxes",
        "hypot",
        "fmax",
        "fmin",
        "may_equal",
        "match_sizes",
        "merge_shapes",
        "isclose",
        "union",
        "specializes",
        "converts",
        "has_attribute",
        "find_layers",
    }
)

#: Keyword arguments that only guard against mistakes or describe something to people.
IGNORED_KEYWORDS = frozenset(
    {"strict", "stacklevel", "help", "show_default", "metavar", "category", "maxsize", "slots"}
)

Span = tuple[int, int]


class Mutation(NamedTuple):
    """A single change to a file.

    Attributes:
        path: The file, relative to the checkout.
        line: The line of the change, from 1.
        function: The qualified name of the enclosing function or class; "" at module level.
        operator: The kind of change.
        start: The first byte that is replaced.
        end: The byte after the last one that is replaced.
        replacement: What it is replaced by.
        covering: The first and the last line of which at least one is executed by each test that the change can
            affect; None stands for any line of the file.
    """

    path: str
    line: int
    function: str
    operator: Operator
    start: int
    end: int
    replacement: str
    covering: Span | None


@dataclass(frozen=True)
class _Scope:
    """What surrounds a node.

    Attributes:
        function: The qualified name of the function or class.
        covering: As in `Mutation`.
        is_function: Whether it is the body of a function.
    """

    function: str = ""
    covering: Span | None = None
    is_function: bool = False


class _Finder:
    """Lists the mutations of one file."""

    def __init__(self, path: str, source: bytes, rng: random.Random) -> None:
        self._path = path
        self._source = source
        self._rng = rng
        self._line_starts = [0]
        for text in source.splitlines(keepends=True):
            self._line_starts.append(self._line_starts[-1] + len(text))
        self.mutations: list[Mutation] = []

    def find(self) -> list[Mutation]:
        for statement in ast.parse(self._source).body:
            self._visit_statement(statement, _Scope())
        return self.mutations

    # Positions

    def _span(self, node: ast.AST) -> Span:
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._line_starts[node.lineno - 1] + node.col_offset
        return start, self._line_starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self._source[start:end].decode()

    def _add(self, operator: Operator, span: Span, replacement: str, scope: _Scope) -> None:
        line = self._source.count(b"\n", 0, span[0]) + 1
        self.mutations.append(Mutation(self._path, line, scope.function, operator, *span, replacement, scope.covering))

    def _replace_between(
        self, operator: Operator, left: ast.AST, right: ast.AST, old: str, new: str, scope: _Scope
    ) -> None:
        """Replace the operator between two operands, which parentheses and comments may surround."""
        start, end = self._span(left)[1], self._span(right)[0]
        pattern = r"\b" + old.replace(" ", r"\s+") + r"\b" if old[0].isalpha() else re.escape(old)
        match = re.search(pattern, self._source[start:end].decode())
        if match:
            self._add(operator, (start + match.start(), start + match.end()), new, scope)

    # Statements

    def _visit_body(self, body: Sequence[ast.stmt], scope: _Scope) -> None:
        for i, statement in enumerate(body):
            if not (i == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
                self._visit_statement(statement, scope)

    def _visit_statement(self, node: ast.stmt, scope: _Scope) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self._visit_definition(node, scope)
            return
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Assert) or _is_ignored_statement(node):
            return
        blocks = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
        handlers = getattr(node, "handlers", []) + getattr(node, "cases", [])
        blocks += [handler.body for handler in handlers]
        inner = scope
        if scope.is_function:
            first = min((block[0].lineno for block in blocks if block), default=None)
            last = max(node.lineno, first - 1) if first else node.end_lineno or node.lineno
            inner = _Scope(scope.function, (node.lineno, last), True)
            self._mutate_statement(node, inner)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr) and child is not getattr(node, "annotation", None):
                self._visit_expression(child, inner)
            elif isinstance(child, ast.withitem):
                self._visit_expression(child.context_expr, inner)
        for block in blocks:
            self._visit_body(block, scope)

    def _visit_definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, scope: _Scope) -> None:
        name = f"{scope.function}.{node.name}".lstrip(".")
        if name.endswith("__repr__"):
            return
        covering = (node.body[0].lineno, node.end_lineno or node.lineno)
        if isinstance(node, ast.ClassDef):
            methods = any(isinstance(s, ast.FunctionDef) for s in node.body)
            inner = _Scope(name, covering if methods else None)  # a class without methods is executed once
            for statement in node.body:
                if isinstance(statement, ast.AnnAssign) and statement.value is not None:
                    self._mutate_default(statement.value, statement.annotation, inner)
            self._visit_body([s for s in node.body if not isinstance(s, ast.AnnAssign)], inner)
            return
        signature = _Scope(name, covering)
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call):
                self._visit_expression(decorator, signature)
        arguments = node.args
        positional = [*arguments.posonlyargs, *arguments.args]
        pairs = list(zip(positional[len(positional) - len(arguments.defaults) :], arguments.defaults, strict=True))
        pairs += [(a, d) for a, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None]
        for argument, default in pairs:
            self._mutate_default(default, argument.annotation, signature)
        self._visit_body(node.body, _Scope(name, covering, True))

    def _mutate_statement(self, node: ast.stmt, scope: _Scope) -> None:
        is_removable = (
            isinstance(node, ast.AugAssign | ast.Raise | ast.Continue | ast.Break | ast.Delete)
            or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
            or (isinstance(node, ast.Return) and node.value is None)
            or (isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name | ast.Tuple))
        )
        if is_removable:
            self._add("statement", self._span(node), "pass", scope)
        if isinstance(node, ast.If | ast.While):
            self._add("condition", self._span(node.test), f"(not ({self._text(node.test)}))", scope)
        if isinstance(node, ast.AugAssign) and type(node.op) in ARITHMETIC:
            old, new = ARITHMETIC[type(node.op)]
            self._replace_between("arithmetic", node.target, node.value, old + "=", new + "=", scope)

    # Expressions

    def _visit_expression(self, node: ast.AST, scope: _Scope) -> None:
        if isinstance(node, ast.JoinedStr):
            return
        self._mutate_expression(node, scope)
        if isinstance(node, ast.Call):
            if _get_name(node.func) in IGNORED_CALLS:
                return
            self._visit_expression(node.func, scope)
            for argument in node.args:
                if _get_name(node.func) == "reshape" and ast.unparse(argument) == "-1":
                    assert isinstance(argument, ast.UnaryOp)
                    self._add("constant", self._span(argument.operand), "(0)", scope)  # -2 means the same to NumPy
                else:
                    self._visit_expression(argument, scope)
            for keyword in node.keywords:
                if keyword.arg == "default":
                    self._mutate_default(keyword.value, None, scope)
                elif keyword.arg not in IGNORED_KEYWORDS:
                    self._visit_expression(keyword.value, scope)
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr | ast.comprehension):
                self._visit_expression(child, scope)

    def _mutate_expression(self, node: ast.AST, scope: _Scope) -> None:
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            old, new = COMPARISONS[type(node.ops[0])]
            self._replace_between("comparison", node.left, node.comparators[0], old, new, scope)
        elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC and not self._is_type(node):
            old, new = ARITHMETIC[type(node.op)]
            self._replace_between("arithmetic", node.left, node.right, old, new, scope)
        elif isinstance(node, ast.BoolOp):
            old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            self._replace_between("boolean", node.values[0], node.values[1], old, new, scope)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self._add("negation", self._span(node), f"({self._text(node.operand)})", scope)
        elif isinstance(node, ast.IfExp):
            self._add("condition", self._span(node.test), f"(not ({self._text(node.test)}))", scope)
        elif isinstance(node, ast.Constant):
            self._mutate_constant(node, scope)
        elif isinstance(node, ast.Call):
            self._mutate_call(node, scope)

    def _mutate_constant(self, node: ast.Constant, scope: _Scope) -> None:
        if isinstance(node.value, bool):
            self._add("constant", self._span(node), str(not node.value), scope)
        elif isinstance(node.value, int | float):
            step = self._rng.choice((-1, 1))
            self._add("constant", self._span(node), f"({node.value + step!r})", scope)

    def _mutate_call(self, node: ast.Call, scope: _Scope) -> None:
        name = _get_name(node.func)
        if len(node.args) < 2 or name in COMMUTATIVE | IGNORED_CALLS:
            return
        first, second = node.args[:2]
        if isinstance(first, ast.Starred) or isinstance(second, ast.Starred) or self._text(first) == self._text(second):
            return
        if name.endswith("option") and any(self._text(a).startswith(('"-', "'-")) for a in (first, second)):
            return  # names of an option and of its parameter, in any order
        (start, end), (second_start, second_end) = self._span(first), self._span(second)
        between = self._source[end:second_start].decode()
        swapped = self._text(second) + between + self._text(first)
        self._add("swap", (start, second_end), swapped, scope)

    def _mutate_default(self, node: ast.expr, annotation: ast.expr | None, scope: _Scope) -> None:
        for new in self._list_other_defaults(node, annotation):
            self._add("default", self._span(node), new, scope)
        if isinstance(node, ast.Call):
            self._visit_expression(node, scope)

    def _list_other_defaults(self, node: ast.expr, annotation: ast.expr | None) -> Iterator[str]:
        try:
            value = ast.literal_eval(node)
        except ValueError:
            return
        choices = [c.value for c in ast.walk(annotation) if isinstance(c, ast.Constant)] if annotation else []
        others = [c for c in choices if isinstance(c, str) and c != value]
        if isinstance(value, bool):
            yield str(not value)
        elif isinstance(value, int | float):
            yield repr(value + 1)
        elif isinstance(value, str) and others and "Literal" in ast.unparse(annotation or node):
            yield repr(self._rng.choice(others))
        elif isinstance(value, list | tuple) and "list[" in (ast.unparse(annotation) if annotation else "list["):
            if not all(isinstance(v, int | float) for v in value):
                return
            changed = [v + 1 for v in value] or [1]
            yield repr(changed if isinstance(value, list) else tuple(changed))

    def _is_type(self, node: ast.BinOp) -> bool:
        """Return whether `X | Y` is a union of types."""
        names = re.findall(r"[A-Za-z_.\[\]]+", self._text(node))
        builtins = ("None", "str", "int", "float", "bool", "bytes")
        return isinstance(node.op, ast.BitOr) and any(n in builtins or n.split(".")[-1][:1].isupper() for n in names)


def _get_name(function: ast.expr) -> str:
    """Return the name of a called function without its module or object."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _is_ignored_statement(node: ast.stmt) -> bool:
    """Return whether a statement contains messages or types only. Whole `raise` statements are still removed."""
    if isinstance(node, ast.If):
        return ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
    if isinstance(node, ast.Assign):
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        return any(name.startswith("__") for name in names)
    return False


def find_mutations(path: Path, root: Path, rng: random.Random) -> list[Mutation]:
    """Return every mutation of a file, in the order of the file.

    Docstrings, messages, annotations, assertions and the representations of objects are left out.

    Args:
        path: The file.
        root: The folder that paths are relative to.
        rng: Decides between alternatives.
    """
    source = path.read_bytes()
    finder = _Finder(path.relative_to(root).as_posix(), source, rng)
    finder.find()
    return [m for m in finder.mutations if not _is_inside_message(m, source)]


def _is_inside_message(mutation: Mutation, source: bytes) -> bool:
    """Return whether the mutation changes the arguments of an exception."""
    return any(start < mutation.start and mutation.end <= end for start, end in _find_messages(source))


_messages: dict[bytes, list[Span]] = {}


def _find_messages(source: bytes) -> list[Span]:
    if source not in _messages:
        finder = _Finder("", source, random.Random(0))
        raised = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Raise) and n.exc is not None]
        _messages[source] = [finder._span(node) for node in raised]
    return _messages[source]


def apply_mutation(mutation: Mutation, source: bytes) -> bytes:
    """Return the changed source.

    Raises:
        SyntaxError: The result is not valid Python.
    """
    changed = source[: mutation.start] + mutation.replacement.encode() + source[mutation.end :]
    ast.parse(changed)
    return changed
