"""What votes of readers are worth, if some are wrong and some accept without reading."""

from __future__ import annotations

import math
from dataclasses import dataclass

ASSUMED_WRONG = 0.2
"""Share of careful votes that are wrong, before people have reviewed any."""

ASSUMED_LAZY = 0.3
"""Share of readers who accept without reading, before people have reviewed any votes."""

_WEIGHT = 20
"""The assumptions count as much as this many reviewed votes on right, and on wrong answers."""

_UNDECIDED = 60
"""Up to this many times in 100, votes are said to leave the verdict open."""


@dataclass(frozen=True, slots=True)
class VoteModel:
    """Readers who vote independently of each other on whether an answer is right.

    Attributes:
        accept_right: Probability that a reader accepts a right answer.
        accept_wrong: Probability that a reader accepts a wrong answer.
        right: Share of right answers among those that are voted on.
        reviewed: Votes whose answers people have judged; 0 if the model is assumed.
    """

    accept_right: float
    accept_wrong: float
    right: float = 0.5
    reviewed: int = 0

    @classmethod
    def assumed(cls, wrong: float = ASSUMED_WRONG, lazy: float = ASSUMED_LAZY) -> VoteModel:
        """Readers of whom a share accepts unread (``lazy``) and the others err (``wrong``)."""
        return cls(lazy + (1 - lazy) * (1 - wrong), lazy + (1 - lazy) * wrong)

    @classmethod
    def of_reviews(cls, on_right: tuple[int, int], on_wrong: tuple[int, int]) -> VoteModel:
        """The assumed readers, corrected by votes whose answers people have judged.

        A Beta prior with the weight of 20 votes on right and 20 on wrong answers.

        Args:
            on_right: Accepting votes on right answers, and all votes on them.
            on_wrong: Likewise on wrong answers.
        """
        start = cls.assumed()
        shares = [
            (accepted + _WEIGHT * before) / (total + _WEIGHT)
            for (accepted, total), before in (
                (on_right, start.accept_right),
                (on_wrong, start.accept_wrong),
            )
        ]
        votes = on_right[1] + on_wrong[1]
        right = (on_right[1] + _WEIGHT / 2) / (votes + _WEIGHT)
        return cls(shares[0], shares[1], right, votes)

    def probability(self, accepted: int, rejected: int) -> float:
        """Probability that an answer with these votes is right (Bayes)."""
        log_odds = math.log(self.right / (1 - self.right))
        log_odds += accepted * math.log(self.accept_right / self.accept_wrong)
        log_odds += rejected * math.log((1 - self.accept_right) / (1 - self.accept_wrong))
        return 1 / (1 + math.exp(-max(-500.0, min(500.0, log_odds))))

    def correct(self, votes: int) -> float:
        """Probability that the more probable verdict after this many votes is the true one."""
        total = 0.0
        for accepted in range(votes + 1):
            ways = math.comb(votes, accepted)
            rejected = votes - accepted
            of_right = ways * self.accept_right**accepted * (1 - self.accept_right) ** rejected
            of_wrong = ways * self.accept_wrong**accepted * (1 - self.accept_wrong) ** rejected
            total += max(self.right * of_right, (1 - self.right) * of_wrong)
        return total

    def needed(self, share: float, most: int = 99) -> int | None:
        """Fewest votes whose verdict is the true one with this probability; None above ``most``."""
        return next((n for n in range(1, most + 1) if self.correct(n) >= share), None)

    @property
    def basis(self) -> str:
        """What the model rests on, in words."""
        if self.reviewed > 2 * _WEIGHT:
            return f"measured on {self.reviewed} votes that people reviewed here"
        assumed = (
            f"assumed: {ASSUMED_LAZY:.0%} of readers accept without reading, {ASSUMED_WRONG:.0%} "
            "of the others are wrong"
        )
        return f"{assumed}; {self.reviewed} votes reviewed so far" if self.reviewed else assumed

    def sentence(self, accepted: int, rejected: int) -> str:
        """What these votes say, for readers who know no statistics."""
        votes = accepted + rejected
        if not votes:
            return "Nobody voted on this answer."
        share = self.probability(accepted, rejected)
        times = min(99, max(1, round(100 * max(share, 1 - share))))
        state = "right" if share >= 0.5 else "wrong"
        worth = f"with such votes an answer is {state} about {times} times in 100"
        if times <= _UNDECIDED:
            worth = "such votes leave it open whether the answer is right"
        return f"{accepted} of {votes} votes accept this answer: {worth}."

    @property
    def summary(self) -> str:
        """What one vote and several votes are worth, in one sentence."""
        needed = self.needed(0.95)
        enough = "more than 99" if needed is None else str(needed)
        return (
            f"One vote is right about {round(100 * self.correct(1))} times in 100, the verdict of "
            f"five votes {round(100 * self.correct(5))} times; {enough} are needed for 95 "
            f"({self.basis})."
        )
