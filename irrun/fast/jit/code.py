"""Functions in LLVM's intermediate representation.

A `Function` appends instructions to its text. Values are in static single assignment form; variables that loops
change are on the stack, and LLVM's optimizer moves them to registers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Union

__all__ = ["Function", "Value", "Variable", "format_float", "make_module"]

Operand = Union["Value", int, float]

#: Names of LLVM's instructions for each operator, of floats and of integers.
OPERATORS = {"+": ("fadd", "add"), "-": ("fsub", "sub"), "*": ("fmul", "mul"), "/": ("fdiv", "sdiv")}


@dataclass(frozen=True, eq=False)
class Value:
    """A value of a function.

    Attributes:
        function: The function.
        type: Its type in LLVM: "i64", "float", "<16 x float>", "ptr".
        name: Its name, or a literal.
    """

    function: Function
    type: str
    name: str

    @property
    def is_float(self) -> bool:
        """Whether it is a float or a vector of floats."""
        return "float" in self.type

    @property
    def lanes(self) -> int:
        """The number of elements of a vector, 0 for a scalar."""
        return int(self.type[1:].split()[0]) if self.type[0] == "<" else 0

    def _apply(self, operator: str, other: Operand) -> Value:
        right = self.function.coerce(other, self.type)
        return self.function.emit(self.type, f"{OPERATORS[operator][not self.is_float]} {self.type} {self}, {right}")

    def __str__(self) -> str:
        return self.name

    def __add__(self, other: Operand) -> Value:
        return self._apply("+", other)

    def __sub__(self, other: Operand) -> Value:
        return self._apply("-", other)

    def __rsub__(self, other: Operand) -> Value:
        return self.function.coerce(other, self.type) - self

    def __mul__(self, other: Operand) -> Value:
        return self._apply("*", other)

    def __truediv__(self, other: Operand) -> Value:
        return self._apply("/", other)

    def __neg__(self) -> Value:
        return self.function.emit(self.type, f"fneg {self.type} {self}")

    def __rtruediv__(self, other: Operand) -> Value:
        return self.function.coerce(other, self.type) / self

    def __and__(self, other: Operand) -> Value:
        return self._emit_bitwise("and", other)

    def __or__(self, other: Operand) -> Value:
        return self._emit_bitwise("or", other)

    def __xor__(self, other: Operand) -> Value:
        return self._emit_bitwise("xor", other)

    def __lshift__(self, other: Operand) -> Value:
        return self._emit_bitwise("shl", other)

    def __rshift__(self, other: Operand) -> Value:
        return self._emit_bitwise("lshr", other)

    def _emit_bitwise(self, instruction: str, other: Operand) -> Value:
        right = self.function.coerce(other, self.type)
        return self.function.emit(self.type, f"{instruction} {self.type} {self}, {right}")


@dataclass(frozen=True)
class Variable:
    """A variable on the stack, which loops may change."""

    function: Function
    type: str
    pointer: str

    def get(self) -> Value:
        """Return the current value."""
        return self.function.emit(self.type, f"load {self.type}, ptr {self.pointer}")

    def set(self, value: Operand) -> None:
        """Change the value."""
        self.function.append(f"store {self.type} {self.function.coerce(value, self.type)}, ptr {self.pointer}")

    def add(self, value: Operand) -> None:
        """Add to the value."""
        self.set(self.get() + value)


class Function:
    """A function under construction.

    Attributes:
        name: Its name.
        lanes: The number of f32 in a vector of the processor.
        parameters: Its parameters by name.
        declarations: Declarations of the functions that it calls.
    """

    def __init__(self, name: str, parameters: Sequence[tuple[str, str]], lanes: int) -> None:
        self.name = name
        self.lanes = lanes
        self.signature = tuple(type_ for _, type_ in parameters)
        self.parameters = {key: Value(self, type_, f"%{key}") for key, type_ in parameters}
        self._lines: list[str] = []
        self._entry: list[str] = []
        self.declarations: set[str] = set()
        self._block = "entry"
        self._count = 0

    # Text

    def get_text(self) -> str:
        """Return the module that contains the function and its entry."""
        return make_module([self], self._get_entry_text())

    def get_definition(self) -> str:
        """Return the function."""
        shown = ", ".join(f"{value.type} {value}" for value in self.parameters.values())
        body = "\n".join(("entry:", *self._entry, *self._lines, "  ret void"))
        return f"define void @{self.name}({shown}) #0 {{\n{body}\n}}\n"

    def _get_entry_text(self) -> str:
        """Return the entry: a function that calls this function with arguments from an array of i64.

        Each argument takes two elements: the number of the base to add, and the argument.
        """
        lines, arguments = [], []
        for i, type_ in enumerate(self.signature):
            lines += [
                f"%p{i} = getelementptr inbounds i64, ptr %arguments, i64 {2 * i}",
                f"%q{i} = getelementptr inbounds i64, ptr %arguments, i64 {2 * i + 1}",
                f"%n{i} = load i64, ptr %p{i}",
                f"%b{i} = getelementptr inbounds i64, ptr %bases, i64 %n{i}",
                f"%x{i} = load i64, ptr %b{i}",
                f"%y{i} = load i64, ptr %q{i}",
                f"%z{i} = add i64 %x{i}, %y{i}",
            ]
            if type_ == "ptr":
                lines.append(f"%a{i} = inttoptr i64 %z{i} to ptr")
            elif type_ == "float":
                lines += [f"%t{i} = trunc i64 %z{i} to i32", f"%a{i} = bitcast i32 %t{i} to float"]
            arguments.append(f"{type_} %{'z' if type_ == 'i64' else 'a'}{i}")
        body = "\n".join(f"  {line}" for line in lines)
        call = f"  call void @{self.name}({', '.join(arguments)})\n  ret void"
        return f"define void @{self.name}.entry(ptr %arguments, ptr %bases) {{\n{body}\n{call}\n}}\n"

    def append(self, line: str) -> None:
        """Append an instruction without result."""
        self._lines.append(f"  {line}")

    def emit(self, type_: str, text: str) -> Value:
        """Append an instruction and return its result."""
        name = self._make_name()
        self._lines.append(f"  {name} = {text}")
        return Value(self, type_, name)

    def _make_name(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def coerce(self, value: Operand, type_: str) -> Value:
        """Convert a value to a type; scalars and Python numbers are repeated in vectors."""
        if isinstance(value, Value):
            if value.type == type_:
                return value
            if type_.startswith("<") and value.type == type_.split()[-1][:-1]:
                return self.splat(value, type_)
            raise TypeError(f"expected {type_}, found {value.type}")
        scalar = type_.split()[-1][:-1] if type_.startswith("<") else type_
        literal = format_float(value) if scalar == "float" else str(int(value))
        if not type_.startswith("<"):
            return Value(self, type_, literal)
        lanes = int(type_[1:].split()[0])
        return Value(self, type_, "<" + ", ".join([f"{scalar} {literal}"] * lanes) + ">")

    def splat(self, value: Value, type_: str) -> Value:
        """Return a vector that repeats a scalar."""
        first = self.emit(type_, f"insertelement {type_} poison, {value.type} {value}, i32 0")
        lanes = int(type_[1:].split()[0])
        return self.emit(type_, f"shufflevector {type_} {first}, {type_} poison, <{lanes} x i32> zeroinitializer")

    def shuffle(self, vectors: Sequence[Value], numbers: Sequence[int]) -> Value:
        """Return a vector of selected elements of two vectors. Numbers of the second vector follow the first's."""
        a, b = vectors
        shown = ", ".join(f"i32 {number}" for number in numbers)
        text = f"shufflevector {a.type} {a}, {b.type} {b}, <{len(numbers)} x i32> <{shown}>"
        return self.emit(f"<{len(numbers)} x {a.type.split()[-1][:-1]}>", text)

    # Types and calls

    @property
    def vector(self) -> str:
        """The type of a vector of f32."""
        return f"<{self.lanes} x float>"

    def integers(self, bits: int = 32) -> str:
        """Return the type of a vector of integers with as many elements as a vector of f32."""
        return f"<{self.lanes} x i{bits}>"

    def call(self, name: str, type_: str, *arguments: Value) -> Value:
        """Call an intrinsic function."""
        types = ", ".join(argument.type for argument in arguments)
        self.declarations.add(f"{type_} @{name}({types})")
        shown = ", ".join(f"{argument.type} {argument}" for argument in arguments)
        return self.emit(type_, f"call {type_} @{name}({shown})")

    def call_math(self, name: str, value: Value, *others: Operand) -> Value:
        """Call an intrinsic whose arguments and result have the same type: "llvm.fmuladd" and the like."""
        suffix = f"v{value.lanes}f32" if value.lanes else "f32"
        if not value.is_float:
            bits = value.type.split("i")[-1].rstrip(">")
            suffix = f"v{value.lanes}i{bits}" if value.lanes else f"i{bits}"
        arguments = [self.coerce(other, value.type) for other in others]
        return self.call(f"llvm.{name}.{suffix}", value.type, value, *arguments)

    def multiply_add(self, a: Value, b: Operand, c: Operand) -> Value:
        """Return a * b + c, rounded once where the processor can."""
        return self.call_math("fmuladd", a, b, c)

    def scale_by_power(self, value: Value, exponent: Value) -> Value:
        """Return value * 2^exponent for f32 vectors with whole exponents, on AVX-512."""
        name, type_ = f"llvm.x86.avx512.mask.scalef.ps.{32 * self.lanes}", self.vector
        mask, rounding = ("i16", ", i32 4") if self.lanes == 16 else ("i8", "")
        self.declarations.add(f"{type_} @{name}({type_}, {type_}, {type_}, {mask}{', i32 immarg' * bool(rounding)})")
        arguments = f"{type_} {value}, {type_} {exponent}, {type_} zeroinitializer, {mask} -1{rounding}"
        return self.emit(type_, f"call {type_} @{name}({arguments})")

    def convert(self, instruction: str, value: Value, type_: str) -> Value:
        """Convert to a type by "sext", "zext", "trunc", "bitcast", "sitofp", "uitofp", "fptosi" and so on."""
        return self.emit(type_, f"{instruction} {value.type} {value} to {type_}")

    def compare(self, condition: str, a: Value, b: Operand) -> Value:
        """Return whether "olt", "ogt", "uno" (floats) or "slt", "eq" (integers) holds."""
        right = self.coerce(b, a.type)
        result = f"<{a.lanes} x i1>" if a.lanes else "i1"
        return self.emit(result, f"{'fcmp' if a.is_float else 'icmp'} {condition} {a.type} {a}, {right}")

    def select(self, condition: Value, a: Value, b: Operand) -> Value:
        """Return a where the condition holds, and b elsewhere."""
        other = self.coerce(b, a.type)
        return self.emit(a.type, f"select {condition.type} {condition}, {a.type} {a}, {a.type} {other}")

    def min(self, a: Value, b: Operand) -> Value:
        """Return the smaller of two integers."""
        right = self.coerce(b, a.type)
        return self.select(self.compare("slt", a, right), a, right)

    def max(self, a: Value, b: Operand) -> Value:
        """Return the larger of two integers."""
        right = self.coerce(b, a.type)
        return self.select(self.compare("sgt", a, right), a, right)

    def integer(self, value: int) -> Value:
        """Return a literal of type i64."""
        return Value(self, "i64", str(value))

    def variable(self, type_: str, value: Operand) -> Variable:
        """Return a new variable with an initial value."""
        pointer = self._make_name()
        self._entry.append(f"  {pointer} = alloca {type_}")
        variable = Variable(self, type_, pointer)
        variable.set(value)
        return variable

    # Memory

    def offset(self, pointer: Value, index: Operand, type_: str = "float") -> Value:
        """Return the address of an element."""
        shown = self.coerce(index, "i64")
        return self.emit("ptr", f"getelementptr inbounds {type_}, ptr {pointer}, i64 {shown}")

    def load(self, pointer: Value, type_: str = "float", mask: Value | None = None, is_aligned: bool = True) -> Value:
        """Load a scalar or a vector; elements outside the mask are 0."""
        scalar = type_.split()[-1].rstrip(">")
        align = {"float": 4, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "ptr": 8}[scalar] if is_aligned else 1
        if mask is None:
            return self.emit(type_, f"load {type_}, ptr {pointer}, align {align}")
        lanes = type_[1:].split()[0]
        kind = {"float": "f32"}.get(scalar, scalar)
        name = f"llvm.masked.load.v{lanes}{kind}.p0"
        zero = "zeroinitializer"
        self.declarations.add(f"{type_} @{name}(ptr, i32 immarg, {mask.type}, {type_})")
        return self.emit(type_, f"call {type_} @{name}(ptr {pointer}, i32 {align}, {mask.type} {mask}, {type_} {zero})")

    def store(self, value: Value, pointer: Value, mask: Value | None = None) -> None:
        """Store a scalar or a vector; elements outside the mask keep their values."""
        scalar = value.type.split()[-1].rstrip(">")
        align = {"float": 4, "i64": 8, "i32": 4, "i16": 2, "i8": 1}[scalar]
        if mask is None:
            self.append(f"store {value.type} {value}, ptr {pointer}, align {align}")
            return
        kind = {"float": "f32"}.get(scalar, scalar)
        name = f"llvm.masked.store.v{value.lanes}{kind}.p0"
        self.declarations.add(f"void @{name}({value.type}, ptr, i32 immarg, {mask.type})")
        self.append(f"call void @{name}({value.type} {value}, ptr {pointer}, i32 {align}, {mask.type} {mask})")

    def prefetch(self, pointer: Value, level: int = 2, is_written: bool = False) -> None:
        """Prefetch a cache line into the L2 or L1 cache, to read or write it; the address may be invalid."""
        self.declarations.add("void @llvm.prefetch.p0(ptr nocapture readonly, i32 immarg, i32 immarg, i32 immarg)")
        self.append(f"call void @llvm.prefetch.p0(ptr {pointer}, i32 {int(is_written)}, i32 {4 - level}, i32 1)")

    def gather(self, pointer: Value, offsets: Value, mask: Value, is_aligned: bool = True) -> Value:
        """Load the f32 at offsets (a vector of i64) from an address; elements outside the mask are 0."""
        align = 4 if is_aligned else 1
        pointers = f"<{self.lanes} x ptr>"
        addresses = self.emit(pointers, f"getelementptr float, ptr {pointer}, {offsets.type} {offsets}")
        name = f"llvm.masked.gather.v{self.lanes}f32.v{self.lanes}p0"
        self.declarations.add(f"{self.vector} @{name}({pointers}, i32 immarg, {mask.type}, {self.vector})")
        return self.emit(
            self.vector,
            f"call {self.vector} @{name}({pointers} {addresses}, i32 {align}, {mask.type} {mask}, "
            f"{self.vector} zeroinitializer)",
        )

    def lane_numbers(self) -> Value:
        """Return the vector 0, 1, 2, ... of i32."""
        return Value(self, self.integers(), "<" + ", ".join(f"i32 {i}" for i in range(self.lanes)) + ">")

    def mask_range(self, start: Operand, stop: Operand) -> Value:
        """Return the mask of the elements from `start` to before `stop`, both i64 relative to the vector."""
        limit = self.integers()
        numbers = self.lane_numbers()
        upper = self.compare("slt", numbers, self._clip_lane(stop, limit))
        if isinstance(start, int) and start <= 0:
            return upper
        lower = self.compare("sge", numbers, self._clip_lane(start, limit))
        return self.emit(upper.type, f"and {upper.type} {upper}, {lower}")

    def _clip_lane(self, index: Operand, type_: str) -> Value:
        value = self.coerce(index, "i64")
        clipped = self.max(self.min(value, self.lanes), 0)
        return self.splat(self.convert("trunc", clipped, "i32"), type_)

    # Control flow

    @contextmanager
    def loop(self, start: Operand, stop: Operand, step: Operand = 1) -> Iterator[Value]:
        """Repeat the body with i64 from `start` to before `stop`."""
        first, last = self.coerce(start, "i64"), self.coerce(stop, "i64")
        stride = self.coerce(step, "i64")
        self._count += 1
        label = f"loop{self._count}"
        before = self._block
        index = Value(self, "i64", f"%i{self._count}")
        following = f"%n{self._count}"
        self.append(f"br label %{label}.head")
        self._start_block(f"{label}.head")
        self.append(f"{index} = phi i64 [ {first}, %{before} ], [ {following}, %{label}.latch ]")
        condition = self.compare("slt", index, last)
        self.append(f"br i1 {condition}, label %{label}.body, label %{label}.exit")
        self._start_block(f"{label}.body")
        yield index
        self.append(f"br label %{label}.latch")
        self._start_block(f"{label}.latch")
        self.append(f"{following} = add nsw i64 {index}, {stride}")
        self.append(f"br label %{label}.head")
        self._start_block(f"{label}.exit")

    @contextmanager
    def repeat(self, holds: Callable[[], Value]) -> Iterator[None]:
        """Repeat the body while a condition holds. The condition is computed before each iteration."""
        self._count += 1
        label = f"repeat{self._count}"
        self.append(f"br label %{label}.head")
        self._start_block(f"{label}.head")
        self.append(f"br i1 {holds()}, label %{label}.body, label %{label}.exit")
        self._start_block(f"{label}.body")
        yield
        self.append(f"br label %{label}.head")
        self._start_block(f"{label}.exit")

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Run the body if a condition holds."""
        self._count += 1
        label = f"when{self._count}"
        self.append(f"br i1 {condition}, label %{label}.body, label %{label}.exit")
        self._start_block(f"{label}.body")
        yield
        self.append(f"br label %{label}.exit")
        self._start_block(f"{label}.exit")

    def choose(self, condition: Value, on_true: Callable[[], None], on_false: Callable[[], None]) -> None:
        """Run one of two bodies."""
        self._count += 1
        label = f"choose{self._count}"
        self.append(f"br i1 {condition}, label %{label}.true, label %{label}.false")
        for name, body in (("true", on_true), ("false", on_false)):
            self._start_block(f"{label}.{name}")
            body()
            self.append(f"br label %{label}.exit")
        self._start_block(f"{label}.exit")

    def _start_block(self, label: str) -> None:
        self._lines.append(f"{label}:")
        self._block = label


def make_module(functions: Sequence[Function], others: str = "") -> str:
    """Return the module of functions for vectors of one size.

    Args:
        functions: The functions.
        others: The text of further functions.
    """
    bits = functions[0].lanes * 32
    declarations = sorted(set().union(*(function.declarations for function in functions)))
    return (
        "".join(function.get_definition() for function in functions)
        + others
        + "".join(f"declare {declaration}\n" for declaration in declarations)
        + f'attributes #0 = {{ nounwind noinline "no-builtins" "prefer-vector-width"="{bits}" '
        + f'"min-legal-vector-width"="{bits}" "denormal-fp-math"="ieee,ieee" }}\n'
    )


def format_float(value: float) -> str:
    """Return an f32 literal: the bits of the double with the same value."""
    rounded = struct.unpack("f", struct.pack("f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"
