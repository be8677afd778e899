"""A walk through the branches of flows in a dry run, collecting the calls it would make."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core import RagwrightError, text_hash
from ._handlers import SendHandler
from ._requests import (
    AskSystem,
    Chat,
    ChatReply,
    Complete,
    CompleteReply,
    Embed,
    EmbedReply,
    Fetch,
    FetchReply,
    Reply,
    Request,
    Rerank,
    RerankReply,
    SystemReply,
    Vector,
)
from ._verbs import Branch


@dataclass(slots=True)
class Planned:
    """One call that would be made."""

    handler: SendHandler[Any, Any]
    request: Request
    lane: str


@dataclass(slots=True)
class Scenario:
    """One of the three walks through the branches, collecting distinct calls.

    ``refused`` is the first error of a request that cannot be carried out.
    """

    name: str
    planned: dict[Any, Planned] = field(default_factory=dict)
    branched: bool = False
    uncertain: int = 0
    reused: int = 0
    refused: RagwrightError | None = None
    _reused_before: int = 0
    _touched: list[Any] = field(default_factory=list)

    def begin(self) -> int:
        """Start the next flow."""
        self.branched = False
        self._touched = []
        self._reused_before = self.reused
        return self.uncertain

    def branch(self, step: Branch) -> int:
        """The count this scenario takes."""
        self.branched = True
        count: int = getattr(step, self.name)
        return count

    def adopt(self, other: Scenario, uncertain_before: int) -> None:
        """Take over the calls of a flow that does not branch."""
        for key in other._touched:
            self.planned[key] = other.planned[key]
        self.uncertain += other.uncertain - uncertain_before
        self.reused += other.reused - other._reused_before

    def forecast(self, handler: SendHandler[Any, Any], request: Request, key: str | None) -> Reply:
        """Note a call and return a stand-in for its reply; equal keys are one call."""
        name: Any = request if key is None else key
        if name not in self.planned:
            self.planned[name] = Planned(handler, request, handler.lane(request))
        self._touched.append(name)
        return _stand_in(request, str(name), handler.dimensions(request))


def _stand_in(request: Request, name: str, dimensions: int | None) -> Reply:
    # Different requests get different texts, so that calls about them stay different.
    if isinstance(request, Chat):
        return ChatReply(f"forecast {text_hash(name)[:12]}", finish="forecast")
    if isinstance(request, Complete):
        return CompleteReply(f"forecast {text_hash(name)[:12]}", finish="forecast")
    if isinstance(request, Rerank):
        return RerankReply((0.0,) * len(request.passages))
    if isinstance(request, Embed):
        width = dimensions or 1
        vectors: Vector = np.full((len(request.texts), width), width**-0.5, dtype=np.float32)
        return EmbedReply(vectors)
    if isinstance(request, Fetch):
        return FetchReply(request.url, 200, {}, b"")
    if isinstance(request, AskSystem):
        text = f"forecast {text_hash(name)[:12]}"
        return SystemReply(text, (text,), ("forecast",))
    raise TypeError(f"{type(request).__name__} is never forecast")
