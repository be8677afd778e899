"""Judges of plug-ins: they read a row and a rubric in place of a chat model with our prompt."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache

from ..core import PluginError, RagwrightError, Row, Score, load_addition
from ..flow import Flow
from ._rubric import Rubric


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's verdict on a row.

    Attributes:
        score: On the rubric's scale; None if the judge gives none.
        reasoning: Why, or why there is no score.
    """

    score: float | None
    reasoning: str = ""


class Judge(ABC):
    """Judges rows by rubrics, such as a trained classifier or another program's judge.

    A process makes it once, for all rows.
    """

    @abstractmethod
    def judge(self, row: Row, rubric: Rubric, sample: int) -> Flow[Verdict]:
        """The verdict on a row.

        Args:
            row: The row; it has the texts that ``rubric.needs`` names.
            rubric: Task, scale and levels.
            sample: Number of this independent judgment, from 0; a judge without chance ignores it.
        """


@cache
def open_judge(name: str) -> Judge:
    """The judge of a name, made once: it may load a model.

    Raises:
        PluginError: It cannot be loaded, or is not a judge.
    """
    loaded = load_addition("judges", name, where="judge.by")
    judge = loaded() if isinstance(loaded, type) else loaded
    if not isinstance(judge, Judge):
        raise PluginError(
            f"{name!r} is not a judge", where="judge.by", hint="subclass ragwright.measure.Judge"
        )
    return judge


def ask_own_judge(row: Row, rubric: Rubric, judge: str, sample: int) -> Flow[Score]:
    """The score of a row by the judge of a plug-in.

    Returns:
        ``judge_invalid`` where its verdict has no score, or one that is not on the scale.

    Raises:
        PluginError: It cannot be loaded, fails, or is not a judge.
    """
    try:
        verdict = yield from open_judge(judge).judge(row, rubric, sample)
    except RagwrightError:
        raise
    except Exception as error:
        raise PluginError(
            f"the judge {judge!r} failed: {type(error).__name__}: {error}", where="judge.by"
        ) from error
    if not isinstance(verdict, Verdict):
        raise PluginError(
            f"the judge {judge!r} returned {type(verdict).__name__}, not a Verdict",
            where="judge.by",
        )
    if verdict.score is None:
        return Score(rubric.name, "judge_invalid", reason=verdict.reasoning or "it gave no score")
    low, high = rubric.scale
    if not math.isfinite(verdict.score) or not low <= verdict.score <= high:
        reason = f"the score {verdict.score:g} is not on the scale {low}-{high}"
        return Score(rubric.name, "judge_invalid", reason=reason)
    return Score(rubric.name, "scored", float(verdict.score), detail=verdict.reasoning)
