"""What the data sets of benchmarks are made from."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.data_sets import printed_strings, scifact_beir


def test_printed_arrays_are_read_back() -> None:
    text = "['It\\'s one.'\n \"Two's [here].\" 'tab\\t']"
    assert printed_strings(text) == ["It's one.", "Two's [here].", "tab\t"]
    with pytest.raises(ValueError, match="printed array"):
        printed_strings("['a' ... 'b']")


def test_a_converter_without_its_data_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="scifact"):
        scifact_beir(tmp_path / "made", tmp_path / "no data")
    assert not (tmp_path / "made").exists()
