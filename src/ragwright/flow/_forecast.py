"""Dry run: calls, tokens, money and time of a job before any of it is paid for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..core import Usage
from ._handlers import SendHandler
from ._requests import (
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
    Vector,
)

if TYPE_CHECKING:
    from ._calls import Caller, Key
    from ._verbs import Branch

Name = Literal["low", "expected", "high"]


@dataclass(frozen=True, slots=True)
class Range:
    """A number as low, expected and high; all three are equal where nothing branches."""

    low: float
    expected: float
    high: float

    @property
    def exact(self) -> bool:
        """True where the three agree."""
        return self.low == self.expected == self.high


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a job would do.

    Attributes:
        calls: Distinct calls that would be made (known replies are not called again).
        reused: Requests that are answered from the reply store.
        prompt_tokens: Estimated with each model's learned ratio of characters to tokens.
        completion_tokens: Low and expected by past replies, high by ``max_tokens``.
        cost: Money, None where a model that costs has no price.
        seconds: Time at each model's past latency and its limit; None without past calls.
        models: Expected calls per model.
        uncertain: Flows that could not go on with a stand-in reply: counts are then a floor.
    """

    calls: Range
    reused: int
    prompt_tokens: Range
    completion_tokens: Range
    cost: Range | None
    seconds: Range | None
    models: Mapping[str, int]
    uncertain: int = 0


@dataclass(slots=True)
class _Planned:
    """One call that would be made."""

    handler: SendHandler[Any, Any]
    request: Request
    lane: str


@dataclass(slots=True)
class Scenario:
    """One of the three walks through the branches, collecting distinct calls."""

    name: str
    planned: dict[Any, _Planned] = field(default_factory=dict)
    branched: bool = False
    uncertain: int = 0
    reused: int = 0
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

    def forecast(
        self, caller: Caller, handler: SendHandler[Any, Any], request: Request, key: Key | None
    ) -> Reply:
        """Note a call and return a stand-in for its reply."""
        name: Any = key.text if key is not None else request
        if name not in self.planned:
            self.planned[name] = _Planned(handler, request, handler.lane(request))
        self._touched.append(name)
        return _stand_in(request)


def _stand_in(request: Request) -> Reply:

    if isinstance(request, Chat):
        return ChatReply("forecast", finish="forecast")
    if isinstance(request, Complete):
        return CompleteReply("forecast", finish="forecast")
    if isinstance(request, Rerank):
        return RerankReply((0.0,) * len(request.passages))
    if isinstance(request, Embed):
        vectors: Vector = np.zeros((len(request.texts), 1), dtype=np.float32)
        return EmbedReply(vectors)
    if isinstance(request, Fetch):
        return FetchReply(request.url, 200, {}, b"")
    raise TypeError(f"{type(request).__name__} is never forecast")


def forecast_of(scenarios: Mapping[str, Scenario], caller: Caller) -> Forecast:
    """Sum the three scenarios."""
    sums = {name: _sum(name, scenario, caller) for name, scenario in scenarios.items()}

    def across(what: str) -> Range:
        return Range(*(float(getattr(sums[name], what)) for name in ("low", "expected", "high")))

    models: dict[str, int] = {}
    for plan in scenarios["expected"].planned.values():
        models[plan.lane] = models.get(plan.lane, 0) + 1
    priced = all(s.priced for s in sums.values())
    timed = all(s.timed for s in sums.values())
    return Forecast(
        calls=across("calls"),
        reused=scenarios["expected"].reused,
        prompt_tokens=across("prompt"),
        completion_tokens=across("completion"),
        cost=across("cost") if priced else None,
        seconds=across("seconds") if timed else None,
        models=dict(sorted(models.items())),
        uncertain=max(s.uncertain for s in scenarios.values()),
    )


@dataclass(slots=True)
class _Sums:
    calls: int = 0
    prompt: int = 0
    completion: float = 0.0
    cost: float = 0.0
    seconds: float = 0.0
    priced: bool = True
    timed: bool = True


def _sum(name: str, scenario: Scenario, caller: Caller) -> _Sums:
    sums = _Sums()
    lane_seconds: dict[str, float] = {}
    for plan in scenario.planned.values():
        facts = caller.facts(plan.lane)
        limit = caller.completion_limit(plan.request)
        learned = facts.completion_tokens / facts.calls if facts.calls else limit / 2
        completion = float(limit) if name == "high" else min(learned, float(limit))
        prompt = caller.prompt_tokens(plan.lane, plan.request)
        sums.calls += 1
        sums.prompt += prompt
        sums.completion += completion
        if plan.handler.paid(plan.request):
            price = plan.handler.price(plan.request, Usage(1, prompt, round(completion)))
            sums.priced = sums.priced and price is not None
            sums.cost += price or 0.0
        if facts.calls:
            places = caller.lane(plan.handler, plan.request).limit
            seconds = facts.seconds / facts.calls / places
            lane_seconds[plan.lane] = lane_seconds.get(plan.lane, 0.0) + seconds
        else:
            sums.timed = False
    sums.seconds = max(lane_seconds.values(), default=0.0)
    return sums
