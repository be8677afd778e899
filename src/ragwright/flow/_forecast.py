"""Dry run: calls, tokens, money and time of a job before any of it is paid for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from ..core import Usage
from ._calls import CallRunner, Estimate
from ._requests import Chat, Complete, Request
from ._verbs import Scenario


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

    def __add__(self, other: Range) -> Range:
        """Both together."""
        return Range(self.low + other.low, self.expected + other.expected, self.high + other.high)

    def scaled(self, factor: float, margin: float) -> Range:
        """The number times a factor, its ends moved out by a share of themselves (0 to 1)."""
        low, high = self.low * factor * (1 - margin), self.high * factor * (1 + margin)
        return Range(low, self.expected * factor, high)

    def rounded(self) -> Range:
        """The same in whole numbers."""
        return Range(round(self.low), round(self.expected), round(self.high))


@dataclass(frozen=True, slots=True)
class Forecast:
    """A forecast of a job: calls, tokens, cost and time.

    Attributes:
        calls: Distinct calls that would be made (known replies are not called again).
        reused: Requests that are answered from the reply store.
        prompt_tokens: Estimated with each model's learned ratio of characters to tokens, low and
            high with a margin of a tenth; before its first reply with the ratio of prose.
        completion_tokens: Low and expected by what a request says of its reply, else by past
            replies; high by ``max_tokens``.
        cost: Money, None where a model that costs has no price.
        seconds: Time at each model's past latency and its limit; None without past calls.
        models: Expected calls per model.
        uncertain: Flows that failed on a stand-in reply: counts are then lower bounds.
    """

    calls: Range
    reused: int
    prompt_tokens: Range
    completion_tokens: Range
    cost: Range | None
    seconds: Range | None
    models: Mapping[str, int]
    uncertain: int = 0

    @property
    def known_cost(self) -> Range | None:
        """The cost; None where it is unknown, also for a server of this machine without a price."""
        priced = self.cost is not None and (self.cost.high or not self.calls.high)
        return self.cost if priced else None

    def __add__(self, other: Forecast) -> Forecast:
        """The sum of two jobs run one after the other; calls that both need are counted twice."""
        models = dict(self.models)
        for name, calls in other.models.items():
            models[name] = models.get(name, 0) + calls
        return Forecast(
            self.calls + other.calls,
            self.reused + other.reused,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            None if self.cost is None or other.cost is None else self.cost + other.cost,
            None if self.seconds is None or other.seconds is None else self.seconds + other.seconds,
            dict(sorted(models.items())),
            self.uncertain + other.uncertain,
        )

    def scaled(self, factor: float, margin: float) -> Forecast:
        """The forecast of the whole job, of which this is a sample; see :meth:`Range.scaled`."""
        return Forecast(
            self.calls.scaled(factor, margin).rounded(),
            round(self.reused * factor),
            self.prompt_tokens.scaled(factor, margin).rounded(),
            self.completion_tokens.scaled(factor, margin).rounded(),
            self.cost and self.cost.scaled(factor, margin),
            self.seconds and self.seconds.scaled(factor, margin),
            {name: round(calls * factor) for name, calls in self.models.items()},
            round(self.uncertain * factor),
        )


def forecast_of(scenarios: Mapping[Estimate, Scenario], caller: CallRunner) -> Forecast:
    """Sum the three scenarios."""
    sums = [_sum(name, scenarios[name], caller) for name in ("low", "expected", "high")]
    calls, prompt, completion, cost, seconds = zip(*sums, strict=True)
    expected = scenarios["expected"]
    return Forecast(
        calls=Range(*calls),
        reused=expected.reused,
        prompt_tokens=Range(*prompt),
        completion_tokens=Range(*completion),
        cost=None if None in cost else Range(*cost),
        seconds=None if None in seconds else Range(*seconds),
        models=dict(sorted(Counter(plan.lane for plan in expected.planned.values()).items())),
        uncertain=max(s.uncertain for s in scenarios.values()),
    )


def _sum(
    name: Estimate, scenario: Scenario, caller: CallRunner
) -> tuple[float, float, float, float | None, float | None]:
    """Calls, tokens of prompts and of replies, cost and seconds; None for what is unknown."""
    prompts = completions = cost = 0.0
    priced = timed = True
    lane_seconds: defaultdict[str, float] = defaultdict(float)
    for plan in scenario.planned.values():
        facts = caller.facts(plan.lane)
        limit = caller.completion_limit(plan.handler, plan.request)
        completion = float(limit)
        if name != "high":
            learned = facts.completion_tokens / facts.calls if facts.calls else limit / 2
            completion = min(_likely(name, plan.request, learned), completion)
        prompt = caller.prompt_tokens(plan.lane, plan.request, name)
        prompts += prompt
        completions += completion
        if plan.handler.paid(plan.request):
            price = plan.handler.price(plan.request, Usage(1, prompt, round(completion)))
            priced = priced and price is not None
            cost += price or 0.0
        timed = timed and facts.calls > 0
        if facts.calls:
            places = caller.lane(plan.handler, plan.request).limit
            lane_seconds[plan.lane] += facts.seconds / facts.calls / places
    seconds = max(lane_seconds.values(), default=0.0)
    calls = float(len(scenario.planned))
    return calls, prompts, completions, cost if priced else None, seconds if timed else None


def _likely(name: Estimate, request: Request, learned: float) -> float:
    """Tokens of a reply: by its request, else the mean of the lane's past replies."""
    likely = request.likely if isinstance(request, Chat | Complete) else None
    if likely is None:
        return learned
    return float(likely[0] if name == "low" else likely[1])
