"""The Python code of the guide and of the package's page runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[3]
PAGES = ["docs/guide/python.md", "bindings/python/README.md"]


def blocks():
    for page in PAGES:
        text = (TOP / page).read_text()
        for found in re.finditer(r"^```python\n(.*?)^```$", text, re.M | re.S):
            line = text.count("\n", 0, found.start()) + 2
            yield pytest.param(found.group(1), id=f"{page}:{line}")


@pytest.mark.parametrize("code", list(blocks()))
def test_code_of_a_page_runs(code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "page", "exec"), {"__name__": "page"})


def test_each_page_has_code():
    assert len(list(blocks())) >= 5
