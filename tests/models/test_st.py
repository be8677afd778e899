"""What every model that transformers opens shares."""

from __future__ import annotations

import pytest

from ragwright.models import no_progress_bars


@pytest.mark.slow
def test_progress_bars_of_others_come_back_when_a_model_is_open_or_has_failed() -> None:
    bars = pytest.importorskip("transformers.utils.logging")
    assert bars.is_progress_bar_enabled()

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
