"""The head of the card of a fine-tuned model: whether held-out questions proved it better."""

from __future__ import annotations

from pathlib import Path

CARD = "README.md"
"""File name of the card in a model's folder. No identity of a model depends on it."""

_RULE = "---"
_KEY = "ragwright_proven"
_MOST = 4096


def card_head(*, proven: bool) -> list[str]:
    """The first lines of a card, as YAML between rules."""
    return [_RULE, f"{_KEY}: {str(proven).lower()}", _RULE, ""]


def is_unproven(folder: Path) -> bool:
    """True for a folder that ``tune embedder --keep`` wrote although nothing was proven."""
    try:
        with (folder / CARD).open(encoding="utf-8", errors="replace") as file:
            head = file.read(_MOST)
    except OSError:
        return False
    rule, _, rest = head.partition("\n")
    return rule == _RULE and f"{_KEY}: false" in rest.partition(f"\n{_RULE}")[0].splitlines()
