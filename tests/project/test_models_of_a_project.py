"""Models that a project file names by a folder of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from ragwright.models import Embedder, OnnxEmbedder, VectorRule
from ragwright.workbench import Workbench


class _Opened(Embedder):
    """Remembers what it was opened with."""

    seen: ClassVar[list[tuple[str, str | None]]] = []

    def __init__(self, source: str, options: Any) -> None:
        _Opened.seen.append((source, options.query_prefix))
        self.identity, self.dimensions = "double", 2
        self.rule = VectorRule()

    def embed_batch(self, texts: Any) -> Any:
        return np.ones((len(texts), 2), np.float32)


def test_a_relative_folder_is_opened_with_its_own_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mini").mkdir()
    (tmp_path / "ragwright.yaml").write_text(
        "embed: {model: 'onnx:mini', query_prefix: 'find: '}\n", "utf-8"
    )
    _Opened.seen.clear()
    for name in ("__init__", "embed_batch", "tokenizer"):
        monkeypatch.setattr(OnnxEmbedder, name, getattr(_Opened, name))
    with Workbench.open(tmp_path) as bench:
        assert bench.project.settings.embed.model == "onnx:mini"
        assert str(tmp_path) not in bench.project.models.embedder_identity("onnx:mini")
    assert _Opened.seen == [(str((tmp_path / "mini").resolve()), "find: ")]
