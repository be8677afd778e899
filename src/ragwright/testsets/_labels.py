"""The log of a review: every decision of every person, and how far people agree."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..core import Row, TestsetError, appending
from ..measure import clopper_pearson, krippendorff, resampled
from .rows import objects_of
from .suites import gold_answer

_KEPT = {"accepted": 1.0, "edited": 1.0, "rejected": 0.0}
"""Decisions as labels: whether the row stays in the testset."""

_SUFFIX = ".reviews.jsonl"

_TEXTS = ("row", "by", "at", "decision")


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision of one person on one row.

    Attributes:
        row: Id of the row.
        by: The person.
        at: ISO 8601.
        decision: ``accepted``, ``edited``, ``rejected``, or ``undone``.
        before: Question, gold answer and review before it; ``after`` the same after it.
    """

    row: str
    by: str
    at: str
    decision: str
    before: Mapping[str, Any] = field(default_factory=dict, hash=False)
    after: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class ReviewAgreement:
    """How far people agree which rows belong into a testset.

    Accepting and editing both keep a row. With three people or more, every pair counts.

    Attributes:
        people: Those who decided, by name.
        rows: Rows that two or more people decided on.
        same: Rows among them on which all agree; ``low`` and ``high`` are the 95 % interval of
            its share (Clopper and Pearson 1934). None without rows.
        alpha: Krippendorff's alpha (2011), nominal: 1 is perfect agreement, 0 is chance. None
            where it is undefined, such as where nobody rejected a row; ``alpha_low`` and
            ``alpha_high`` are its 95 % interval.
        disputed: Ids of the rows on which they do not agree.
    """

    people: tuple[str, ...]
    rows: int
    same: int
    low: float | None = None
    high: float | None = None
    alpha: float | None = None
    alpha_low: float | None = None
    alpha_high: float | None = None
    disputed: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """It in one sentence."""
        if not self.rows:
            return "No row has been reviewed by two people yet."
        known = "" if self.alpha is None else f"; Krippendorff's alpha is {self.alpha:.2f}"
        if self.alpha_low is not None:
            known += f" (95 % interval {self.alpha_low:.2f} to {self.alpha_high:.2f})"
        rows = "row" if self.rows == 1 else "rows"
        return f"{len(self.people)} people agree on {self.same} of {self.rows} {rows}{known}."


@dataclass(frozen=True, slots=True)
class ReviewLabels:
    """The decisions in force: row id -> person -> decision."""

    by_row: Mapping[str, Mapping[str, str]]

    def of(self, person: str) -> Mapping[str, str]:
        """Decisions of one person by row id."""
        found = self.by_row.items()
        return {row: given[person] for row, given in found if person in given}

    def agreement(self, seed: int = 0) -> ReviewAgreement:
        """How far the people agree."""
        units = {row: [_KEPT[d] for d in given.values()] for row, given in self.by_row.items()}
        several = {row: labels for row, labels in units.items() if len(labels) > 1}
        people = sorted({person for given in self.by_row.values() for person in given})
        if not several:
            return ReviewAgreement(tuple(people), 0, 0)
        disputed = tuple(row for row, labels in several.items() if len(set(labels)) > 1)
        same = len(several) - len(disputed)
        low, high = clopper_pearson(same, len(several))
        alpha = resampled(krippendorff([*several.values()], "nominal"), len(several), seed)
        return ReviewAgreement(
            tuple(people),
            len(several),
            same,
            low,
            high,
            alpha.value,
            alpha.low,
            alpha.high,
            disputed,
        )


class ReviewLog:
    """The log beside a testset, ``NAME.reviews.jsonl``; lines are only ever added.

    Args:
        testset: The testset.
    """

    def __init__(self, testset: Path) -> None:
        self.path = testset.with_suffix(_SUFFIX)

    def decisions(self) -> list[Decision]:
        """Decisions in force, oldest first; undone ones are left out.

        Raises:
            TestsetError: A line is not a decision; with file and line.
        """
        found: list[Decision] = []
        if not self.path.exists():
            return found
        for where, value in objects_of(self.path):
            if any(not isinstance(value.get(name), str) for name in _TEXTS):
                raise TestsetError(
                    "not a decision of a review",
                    where=where,
                    hint="only ragwright writes this log; restore it from version control",
                )
            texts = {name: value[name] for name in _TEXTS}
            one = Decision(**texts, before=value.get("before", {}), after=value.get("after", {}))
            if one.decision != "undone":
                found.append(one)
                continue
            last = next((d for d in reversed(found) if (d.row, d.by) == (one.row, one.by)), None)
            if last is not None:
                found.remove(last)
        return found

    def labels(self) -> ReviewLabels:
        """The last decision of each person on each row."""
        by_row: dict[str, dict[str, str]] = {}
        for one in self.decisions():
            by_row.setdefault(one.row, {})[one.by] = one.decision
        return ReviewLabels(by_row)

    def last(self, by: str) -> Decision | None:
        """The last decision of a person that is in force."""
        return next((one for one in reversed(self.decisions()) if one.by == by), None)

    @contextmanager
    def adding(
        self, row: str, by: str, decision: str, before: Mapping[str, Any], after: Mapping[str, Any]
    ) -> Iterator[None]:
        """Add a decision, which stays in the log only if the block ends without error.

        Raises:
            TestsetError: The log cannot be written.
        """
        body = {"row": row, "by": by, "at": _now(), "decision": decision}
        with self._appending({**body, "before": dict(before), "after": dict(after)}):
            yield

    @contextmanager
    def undoing(self, last: Decision) -> Iterator[None]:
        """Note that a decision is undone, as :meth:`adding` does.

        Raises:
            TestsetError: The log cannot be written.
        """
        body = {"row": last.row, "by": last.by, "at": _now(), "decision": "undone"}
        with self._appending(body):
            yield

    @contextmanager
    def _appending(self, body: Mapping[str, Any]) -> Iterator[None]:
        text = json.dumps(body, ensure_ascii=False) + "\n"
        try:
            with appending(self.path, text.encode("utf-8", "backslashreplace")):
                yield
        except OSError as error:
            raise TestsetError(
                f"the decision cannot be logged: {error.strerror}", where=str(self.path)
            ) from error


def holds_reviews(path: Path) -> bool:
    """True for the name of a log of reviews."""
    return path.name.endswith(_SUFFIX)


def answer_in_evidence(row: Row) -> bool | None:
    """True if the gold passages hold every part of the gold answer in its words.

    A reader may still have to judge: an answer in other words is not found. None without a gold
    answer or gold passages.
    """
    gold = gold_answer(row)
    evidence = "\n".join([*(span.text for span in row.reference_spans), *row.reference_contexts])
    if gold is None or not evidence.strip():
        return None
    return all(gold.held(evidence))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
