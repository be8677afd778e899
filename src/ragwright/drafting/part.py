"""Drafts and other outputs, as a part of the program."""

from __future__ import annotations

from ..core import Part

PART = Part(
    "drafting",
    promoted={
        "records": "ragwright.drafting:promoted_declarations",
    },
    commands={
        "draft": "ragwright.app._draft:command",
        "outputs": "ragwright.app._outputs:group",
    },
    sentences={
        "draft": "Write texts from records in a client's style.",
        "outputs": "Show, export and measure stored texts.",
    },
)
