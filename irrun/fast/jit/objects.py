"""Load object code that LLVM has compiled, without LLVM: importing it takes longer than loading all kernels of a model.

Only object files of ELF for x86-64 are supported, as LLVM writes them for kernels: code and constants that refer to
each other. `irrun.fast.jit.compiler` lets LLVM load all others, such as kernels that call functions of the C library.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import sys
from collections.abc import Collection
from typing import Any, NamedTuple

__all__ = ["load_object"]

#: The start of ELF files of 64 bits, little-endian, and the numbers of relocatable files and of x86-64 in their header.
MAGIC, RELOCATABLE, X86_64 = b"\x7fELF\x02\x01\x01", 1, 62
#: Types of sections: tables of symbols, relocations, and memory that is zero.
SYMBOLS, RELOCATIONS, ZEROS = 2, 4, 8
#: Flags of sections: loaded, and own for each thread.
LOADED, THREAD_LOCAL = 2, 0x400

#: The symbol of the table of addresses, and the size of an address.
TABLE_NAME, ADDRESS_SIZE = "_GLOBAL_OFFSET_TABLE_", 8
#: The largest alignment of a section in bytes: a page.
MAX_ALIGNMENT = 4096

#: Loaded code, which stays in the process.
_loaded: list[mmap.mmap] = []


class _UnsupportedError(Exception):
    """The object code needs LLVM to be loaded."""


class _Section(NamedTuple):
    """A header of a section, in the order of the fields of the file; `sort` is its type."""

    name: int
    sort: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class _Symbol(NamedTuple):
    """A symbol: its name, and its section and the offset in it."""

    name: str
    section: int
    value: int


def load_object(code: bytes, names: Collection[str]) -> dict[str, int] | None:
    """Load object code, which stays loaded.

    Args:
        code: The file.
        names: The functions to find.

    Returns:
        The addresses of the functions, or None if only LLVM can load the file, or the system does not allow it.
    """
    if not sys.platform.startswith("linux"):
        return None
    try:
        return _Loader(code).load(names)
    except (_UnsupportedError, struct.error, IndexError, KeyError, ValueError, OSError):
        return None


class _Loader:
    """Loads a file.

    Raises:
        _UnsupportedError: LLVM has to load it.
    """

    def __init__(self, code: bytes) -> None:
        kind, machine = struct.unpack_from("<HH", code, 16)
        if not code.startswith(MAGIC) or (kind, machine) != (RELOCATABLE, X86_64):
            raise _UnsupportedError
        self._code = code
        (start,) = struct.unpack_from("<Q", code, 0x28)
        size, count = struct.unpack_from("<HH", code, 0x3A)
        self._sections = [_Section(*struct.unpack_from("<IIQQQQIIQQ", code, start + i * size)) for i in range(count)]
        self._symbols = self._read_symbols()
        self._table: dict[int, int] = {}  # symbol -> offset of its address in the table

    def _get_content(self, section: _Section) -> bytes:
        content = self._code[section.offset : section.offset + section.size]
        if len(content) != section.size:
            raise _UnsupportedError
        return content

    def _read_symbols(self) -> list[_Symbol]:
        (table,) = (section for section in self._sections if section.sort == SYMBOLS)
        names = self._get_content(self._sections[table.link])
        symbols = []
        for name, _, _, section, value, _ in struct.iter_unpack("<IBBHQQ", self._get_content(table)):
            symbols.append(_Symbol(names[name : names.index(0, name)].decode(), section, value))
        return symbols

    def load(self, names: Collection[str]) -> dict[str, int]:
        """Return the addresses of functions."""
        relocations = self._read_relocations()
        offsets, size = self._place_sections(len(self._table) * ADDRESS_SIZE)
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for number, offset in offsets.items():
            section = self._sections[number]
            if section.sort != ZEROS:
                memory[offset : offset + section.size] = self._get_content(section)
        places = [start + offsets[s.section] + s.value if s.section in offsets else 0 for s in self._symbols]
        for number, offset in self._table.items():
            struct.pack_into("<Q", memory, offset, _check_place(places[number]))
        for own, offset, number, kind, addend in relocations:
            place = offsets[own] + offset
            if offset + ADDRESS_SIZE > self._sections[own].size:
                raise _UnsupportedError
            if kind == _GOTPC64:
                target = start
            else:
                target = start + self._table[number] if kind == _GOT64 else _check_place(places[number])
            origin = start + place if kind in (_PC64, _GOTPC64) else start
            struct.pack_into("<q", memory, place, target + addend - origin)
        result = {}
        for symbol, place in zip(self._symbols, places, strict=True):
            if symbol.name in names:
                result[symbol.name] = _check_place(place)
        if len(result) != len(set(names)):
            raise _UnsupportedError
        _make_executable(start, len(memory))
        _loaded.append(memory)
        return result

    def _read_relocations(self) -> list[tuple[int, int, int, int, int]]:
        """Return relocations: section, offset, symbol, type and addend. Reserve the addresses that they refer to."""
        relocations = []
        for section in self._sections:
            if section.sort != RELOCATIONS or not self._sections[section.info].flags & LOADED:
                continue
            for offset, information, addend in struct.iter_unpack("<QQq", self._get_content(section)):
                symbol, kind = information >> 32, information & 0xFFFFFFFF
                is_table = self._symbols[symbol].name == TABLE_NAME
                if kind not in _KINDS or is_table != (kind == _GOTPC64):
                    raise _UnsupportedError
                if kind == _GOT64:
                    self._table.setdefault(symbol, len(self._table) * ADDRESS_SIZE)
                relocations.append((section.info, offset, symbol, kind, addend))
        return relocations

    def _place_sections(self, start: int) -> tuple[dict[int, int], int]:
        """Return the offset of each loaded section after the table of addresses, and the size of all."""
        offsets = {}
        for number, section in enumerate(self._sections):
            if not section.flags & LOADED or not section.size:
                continue
            alignment = max(1, section.alignment)
            if section.flags & THREAD_LOCAL or alignment > MAX_ALIGNMENT or alignment & (alignment - 1):
                raise _UnsupportedError
            start = -(-start // alignment) * alignment
            offsets[number] = start
            start += section.size
        return offsets, start


#: Relocations: the differences of a symbol, its address in the table, or the table, to the place or to the table.
_PC64, _GOTOFF64, _GOT64, _GOTPC64 = 24, 25, 27, 29
_KINDS = frozenset({_PC64, _GOTOFF64, _GOT64, _GOTPC64})


def _check_place(place: int) -> int:
    """Return the address of a symbol.

    Raises:
        _UnsupportedError: It is 0, because the object code does not define the symbol.
    """
    if not place:
        raise _UnsupportedError
    return place


def _make_executable(start: int, size: int) -> None:
    """Make memory executable, and read-only.

    Raises:
        OSError: The system does not allow it.
    """
    protect: Any = ctypes.CDLL(None).mprotect
    if protect(ctypes.c_void_p(start), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_EXEC):
        raise OSError("the memory cannot be executable")
