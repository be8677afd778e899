"""A model folder that does not exist is named, without the words of the library."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragwright.core import ConfigError
from ragwright.models import EmbedOptions, SparseTransformer


@pytest.mark.needs_torch
def test_a_missing_model_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        _ = SparseTransformer(str(tmp_path / "gone"), EmbedOptions()).identity
    assert caught.value.what == "no such model folder"
    assert "hf:ORG/NAME" in (caught.value.hint or "")
