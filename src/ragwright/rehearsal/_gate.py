"""Gates of rehearsals: the largest shares that a change may reach."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..core import ConfigError, near
from ._records import AnswerChange, Rehearsal

RehearsalState: TypeAlias = Literal["passed", "failed", "untrusted"]

_RULE = re.compile(r"(?P<name>[a-z_]+)\s*<=\s*(?P<bound>\d*\.?\d+)\s*(?P<percent>%?)")
_HINT = 'write a rule as  --gate "lost_citations<=2%, worse<=1%"'


@dataclass(frozen=True, slots=True)
class RehearsalRule:
    """A bound: a share from 0 to 1 of the questions, or of the citations."""

    name: str
    bound: float

    def __str__(self) -> str:
        """The text that parses back."""
        return f"{self.name}<={100 * self.bound:g}%"


@dataclass(frozen=True, slots=True)
class RehearsalCheck:
    """One rule, the share that was reached (None if there is nothing to count), and of how many."""

    rule: str
    share: float | None
    of: int
    state: RehearsalState


@dataclass(frozen=True, slots=True)
class RehearsalVerdict:
    """The outcome of a gate; ``untrusted`` if a rule has nothing to count."""

    state: RehearsalState
    checks: tuple[RehearsalCheck, ...]


def parse_rehearsal_gate(text: str) -> tuple[RehearsalRule, ...]:
    """Rules separated by commas, such as ``lost_citations<=2%, worse<=0.01``.

    Raises:
        ConfigError: There is none, or one cannot be read, has an unknown name or a bound above
            100 %.
    """
    if not text.strip():
        raise ConfigError("the gate has no rule", where="--gate", hint=_HINT)
    rules = []
    for part in (part.strip() for part in text.split(",")):
        match = _RULE.fullmatch(part)
        if match is None:
            raise ConfigError(f"{part!r} is not a rule", where="--gate", hint=_HINT)
        if match["name"] not in _SHARES:
            hint = f"{near(match['name'], _SHARES)}; {_HINT}".removeprefix("; ")
            raise ConfigError(f"unknown name {match['name']!r}", where="--gate", hint=hint)
        bound = float(match["bound"]) / (100 if match["percent"] else 1)
        if bound > 1:
            raise ConfigError(
                f"the bound of {part!r} is above 100 %",
                where="--gate",
                hint="write a share such as 0.02, or a percentage such as 2%",
            )
        rules.append(RehearsalRule(match["name"], bound))
    return tuple(rules)


def gate_rehearsal(rehearsal: Rehearsal, rules: Sequence[RehearsalRule]) -> RehearsalVerdict:
    """Apply rules to a rehearsal; a served question counts as often as it was asked."""
    shares = rehearsal_shares(rehearsal)
    checks = []
    for rule in rules:
        part, whole = shares[rule.name]
        share = part / whole if whole else None
        state: RehearsalState = (
            "untrusted" if share is None else "passed" if share <= rule.bound else "failed"
        )
        checks.append(RehearsalCheck(str(rule), share, whole, state))
    states = {check.state for check in checks}
    outcome: RehearsalState = (
        "failed" if "failed" in states else "untrusted" if "untrusted" in states else "passed"
    )
    return RehearsalVerdict(outcome, tuple(checks))


def rehearsal_shares(rehearsal: Rehearsal) -> Mapping[str, tuple[int, int]]:
    """(part, whole) of every share that a gate can bound."""
    return {name: share(rehearsal.changes) for name, (share, _) in _SHARES.items()}


def share_meanings() -> Mapping[str, str]:
    """What each share counts."""
    return {name: meaning for name, (_, meaning) in _SHARES.items()}


def _of_questions(
    counts: Callable[[AnswerChange], bool],
    among: Callable[[AnswerChange], bool] = lambda change: not change.before.error,
) -> Callable[[Sequence[AnswerChange]], tuple[int, int]]:
    def share(changes: Sequence[AnswerChange]) -> tuple[int, int]:
        whole = [change for change in changes if among(change)]
        return (
            sum(change.question.asked for change in whole if counts(change)),
            sum(change.question.asked for change in whole),
        )

    return share


def _citations(changes: Sequence[AnswerChange]) -> tuple[int, int]:
    answered = [change for change in changes if not change.before.error]
    return (
        sum(
            len(change.before.citations if change.after.error else change.lost)
            * change.question.asked
            for change in answered
        ),
        sum(len(change.before.citations) * change.question.asked for change in answered),
    )


def _scored(change: AnswerChange) -> bool:
    return bool(change.before.scores) and not change.before.error


_SHARES: Mapping[str, tuple[Callable[[Sequence[AnswerChange]], tuple[int, int]], str]] = {
    "changed": (
        _of_questions(lambda change: change.changed),
        "questions whose answer, citations or passages change",
    ),
    "lost_citations": (_citations, "citations of present answers that are lost"),
    "worse": (
        _of_questions(lambda change: bool(change.worse) or bool(change.after.error), _scored),
        "questions with gold that become worse by a measure",
    ),
    "abstaining": (
        _of_questions(
            lambda change: change.after.abstained,
            lambda change: not (change.before.error or change.before.abstained),
        ),
        "answered questions that would be answered no longer",
    ),
    "failed": (
        _of_questions(lambda change: bool(change.after.error)),
        "questions that would fail",
    ),
}
