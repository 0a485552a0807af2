"""Reads and parses the source of applications before their start. A stranger may have written it.

The commands that read it run outside of a zone, so that each of these ends in an error:

| source | bound |
| --- | --- |
| a pipe, a device, a directory | only regular files are read, without waiting |
| a large file | `MOST_BYTES` |
| deep nesting, null bytes | `SyntaxError`, as for other text that is not Python |
| text that costs much to examine | `MOST_MEMORY` and `MOST_SECONDS` of the process, see `bound` |
"""

from __future__ import annotations

import ast
import os
import resource
import signal
import stat
import warnings
from pathlib import Path
from typing import Any

MOST_BYTES = 4 << 20
MOST_MEMORY = 1 << 30

# Processor time.
MOST_SECONDS = 10

# The process is killed if it does not end itself in these further seconds.
_GRACE_SECONDS = 5

# Characters without a glyph that `str.isprintable` accepts (Unicode 16, `Default_Ignorable_Code_Point`, and blanks).
_IGNORABLE = frozenset(
    [
        *(0x34F, 0x2800, 0x3164, 0xFFA0, 0xFFFC, 0x1D159),
        *range(0x115F, 0x1161),
        *range(0x17B4, 0x17B6),
        *range(0x180B, 0x1810),
        *range(0xFE00, 0xFE10),
        *range(0xE0000, 0xE1000),
    ]
)


class TooCostly(Exception):
    """A source takes too much processor time."""


def read(file: Path) -> bytes:
    """Returns the content of a regular file.

    Raises `OSError` if the file is of another kind, cannot be read, or is longer than `MOST_BYTES`.
    """
    # Without O_NONBLOCK, the open of a pipe would wait for a writer.
    with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise OSError("it is not a regular file; name the file of an app (app.py)")
        content = opened.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise OSError(f"it is longer than {MOST_BYTES >> 20} MiB; move its data into other files")
    return content


def text(file: Path) -> str:
    """Returns the text of a file.

    Raises `OSError` like `read`, or `UnicodeDecodeError`.
    """
    return read(file).decode()


def parse(source: str | bytes, name: str) -> ast.Module:
    """Returns the syntax tree of a source.

    Raises `SyntaxError` if the source is not Python, or too deep for Python.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python prints them with the source as it is
            return ast.parse(source, name)
    except (RecursionError, MemoryError):
        raise _syntax_error("it is nested too deeply, or too long; divide it") from None
    except ValueError as error:  # null bytes, before Python 3.12
        raise _syntax_error(str(error)) from None


def _syntax_error(message: str) -> SyntaxError:
    error = SyntaxError(message)
    error.lineno = 1
    return error


def shown(message: object) -> str:
    """Returns text for a terminal: hidden characters of it, line breaks among them, are escaped."""
    return "".join(it if it.isprintable() and ord(it) not in _IGNORABLE else _escaped(it) for it in str(message))


def _escaped(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"


def bound() -> None:
    """Bounds the memory and the processor time of this process. At the bound it raises `MemoryError` or `TooCostly`."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS + _GRACE_SECONDS))
    signal.signal(signal.SIGXCPU, _too_slow)


def _too_slow(_number: int, _frame: Any) -> None:
    raise TooCostly
