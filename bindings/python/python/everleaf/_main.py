"""Refuses an import in a subinterpreter, which the extension module does by itself from Python 3.12 on."""

from __future__ import annotations

import importlib
from typing import Any

__all__: list[str] = []


def _expect_main_interpreter() -> None:
    try:
        interpreters: Any = importlib.import_module("_xxsubinterpreters")
    except ImportError:
        return
    if interpreters.get_current() != interpreters.get_main():
        raise ImportError("everleaf works in the main interpreter of a process, not in a subinterpreter")


_expect_main_interpreter()
