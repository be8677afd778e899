"""What every model that transformers opens shares."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragwright.core import ConfigError
from ragwright.models import Models, no_progress_bars


@pytest.mark.slow
@pytest.mark.needs_torch
def test_progress_bars_of_others_come_back_when_a_model_is_open_or_has_failed() -> None:
    from transformers.utils import logging as bars

    bars.enable_progress_bar()  # a test before this one may have opened a model of the hub

    def fail() -> None:
        with no_progress_bars("a test"):
            assert not bars.is_progress_bar_enabled()
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        with no_progress_bars("a test"):
            pass
        assert not bars.is_progress_bar_enabled()  # whoever switched them off finds them so
    finally:
        bars.enable_progress_bar()


@pytest.mark.parametrize(
    ("file", "body"),
    [
        ("modules.json", [{"idx": 0, "name": "0", "path": "", "type": "planted.Layer"}]),
        ("0_Router/router_config.json", {"types": {"a": "planted.Layer"}, "structure": {}}),
    ],
)
@pytest.mark.needs_torch
def test_a_folder_that_names_classes_of_its_own_is_refused_and_none_of_its_code_runs(
    tmp_path: Path, file: str, body: object
) -> None:
    hit = tmp_path / "HIT"
    (tmp_path / "model" / "0_Router").mkdir(parents=True)
    (tmp_path / "model" / "planted.py").write_text(f"open({str(hit)!r}, 'w').write('ran')\n")
    (tmp_path / "model" / file).write_text(json.dumps(body))
    models = Models(root=tmp_path)
    with pytest.raises(ConfigError, match="code of its own"):
        models.embedder("st:model")
    assert not hit.exists()
