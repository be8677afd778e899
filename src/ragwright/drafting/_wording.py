"""The texts of a drafting prompt: the shipped ones, or those of a custom file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..core import Mapped, PromptError, load_shipped_mapping, read_mapping, render

_KEYS = ("system", "example", "request", "under", "between", "from")
_BLANK_LINES = re.compile(r"\n{3,}")


def read_wording(file: str = "") -> Mapped:
    """Read the prompt's texts in a YAML file, the shipped ones for an empty name.

    Raises:
        PromptError: The file is wrong, with file and line.
    """
    shipped = load_shipped_mapping("answer", "prompts/draft.yaml")
    if not file:
        return shipped
    data = read_mapping(Path(file))
    data.check_keys(_KEYS, "a prompt file for drafts")
    for key in data.values:
        data.text(key)
    return data


def render_wording(wording: Mapped, key: str, values: Mapping[str, Any]) -> str:
    """Render a text of the wording; missing ones are the shipped ones.

    Raises:
        PromptError: The template fails, with its file and line.
    """
    data = wording if key in wording.values else read_wording()
    try:
        text = render(data.text(key), values)
    except PromptError as error:
        raise PromptError(
            f"{key!r}: {error.what}", where=data.place(key), hint=error.hint
        ) from error
    return _BLANK_LINES.sub("\n\n", "\n".join(line.rstrip() for line in text.split("\n")))
