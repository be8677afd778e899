"""Checks claims of an answer against its passages, and passages against the question's needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core import PromptTooLongError, Row, Score
from ..flow import Flow, gather, settled
from ._judge_call import (
    JudgeCall,
    Judged,
    Texts,
    asked,
    object_schema,
    over_window,
    schema_text,
    sources_of,
    texts_of,
)
from ._measure import Measure
from ._reply import ReplyForm, answered, ordered, read_object, text_of
from ._setup import MeasureSetup

_CLAIMS = schema_text({"claims": {"type": ["array", "null"], "items": {"type": "string"}}})


@dataclass(frozen=True, slots=True)
class Checked:
    """One claim or piece of information, and whether the passages support it."""

    text: str
    reasoning: str
    held: bool


def claims(row: Row, measure: Measure, setup: MeasureSetup, sample: int) -> Flow[Score]:
    """Supported claims over all claims of the response; two calls.

    Claims and verdicts are in ``detail``, one per line, with ``+`` before supported ones. If the
    passages are judged one by one, a claim supported by one of them is supported.
    """
    found = yield from checked_claims(row, setup, sample)
    if isinstance(found, Score):
        return replace(found, measure=str(measure))
    if not found:
        said = "reference" if measure.parameter == "reference" else "response"
        return Score(str(measure), "not_applicable", reason=f"the {said} makes no claims")
    return share_score(str(measure), found)


def checked_claims(row: Row, setup: MeasureSetup, sample: int) -> Flow[Sequence[Checked] | Score]:
    """Every claim of the response and whether the passages support it, or why that is not known.

    Without claims nothing is checked.
    """
    listing: JudgeCall[tuple[str, ...]] = JudgeCall(
        prompt="claims",
        texts=texts_of(row, ("user_input", "response")),
        read=_read_claims,
        schema=_CLAIMS,
        stand_in=("forecast",),
        values={},
        sample=sample,
        sources=sources_of(row),
    )
    listed = yield from fitting([listing], setup)
    if isinstance(listed, str):
        return Score("", "not_applicable", reason=listed)
    found = listed[0].value
    if found is None:
        return Score("", "judge_invalid", reason=f"listing the claims: {listed[0].why}")
    if not found:
        return ()
    judged = yield from _verdicts(found, row, setup, sample)
    if isinstance(judged, str):
        return Score("", "not_applicable", reason=judged)
    for each in judged:
        if each.value is None:
            return Score("", "judge_invalid", reason=f"checking the claims: {each.why}")
    return [_best([each.value[at] for each in judged if each.value]) for at in range(len(found))]


def judged_recall(row: Row, measure: Measure, setup: MeasureSetup, sample: int) -> Flow[Score]:
    """The share of the information needed for a question that is in the passages; one call.

    The judge names the pieces from the question; they are in ``detail``. Passages that do not fit
    the window are not judged one by one, since the pieces would differ each time.

    With the parameter ``reference`` the pieces are the claims of the reference; two calls.
    """
    if measure.parameter == "reference":
        if row.reference is None or not row.reference.strip():
            why = "the row has no reference"
            return Score(str(measure), "not_applicable", reason=why, no_gold=True)
        gold = replace(row, response=row.reference)
        return (yield from claims(gold, measure, setup, sample))
    call: JudgeCall[tuple[Checked, ...]] = JudgeCall(
        prompt="needed",
        texts=texts_of(row, ("user_input", "retrieved_contexts")),
        read=_read_needed,
        schema=_NEEDED,
        stand_in=(Checked("forecast", "forecast", False),),
        values={},
        sample=sample,
        sources=sources_of(row),
    )
    judged = yield from fitting([call], setup)
    if isinstance(judged, str):
        return Score(str(measure), "not_applicable", reason=judged)
    if judged[0].value is None:
        return Score(str(measure), "judge_invalid", reason=judged[0].why)
    return share_score(str(measure), judged[0].value)


def fitting(calls: Sequence[JudgeCall[Any]], setup: MeasureSetup) -> Flow[list[Judged[Any]] | str]:
    """Replies to parallel calls, or why one of them does not fit the judge's window."""
    for call in calls:
        too_long = over_window(call, setup)
        if too_long:
            return too_long
    try:
        outcomes = yield from gather([asked(call, setup) for call in calls], settle=True)
        return [settled(outcome) for outcome in outcomes]
    except PromptTooLongError as error:
        return error.what


def share_score(name: str, checked: Sequence[Checked]) -> Score:
    """The supported share, with every piece and its reasoning as detail."""
    detail = "\n".join(f"{'+' if c.held else '-'} {c.text} ({c.reasoning})" for c in checked)
    return Score(name, "scored", sum(c.held for c in checked) / len(checked), detail=detail)


def _verdicts(
    found: Sequence[str], row: Row, setup: MeasureSetup, sample: int
) -> Flow[list[Judged[tuple[Checked, ...]]] | str]:
    def call(part: Row) -> JudgeCall[tuple[Checked, ...]]:
        shown: Texts = (
            *texts_of(part, ("user_input", "retrieved_contexts")),
            *((f"claim {number}", claim) for number, claim in enumerate(found, 1)),
        )
        return JudgeCall(
            prompt="verdicts",
            texts=shown,
            read=lambda text, form, finish: _read_verdicts(text, finish, found),
            schema=_VERDICTS,
            stand_in=tuple(Checked(claim, "forecast", False) for claim in found),
            values={"count": len(found)},
            sample=sample,
            sources=sources_of(part),
        )

    judged = yield from fitting([call(row)], setup)
    if isinstance(judged, str) and setup.per_passage:
        parts = [replace(row, retrieved_contexts=(text,)) for text in row.retrieved_contexts]
        judged = yield from fitting([call(part) for part in parts], setup)
    return judged


def _best(verdicts: Sequence[Checked]) -> Checked:
    """The verdict on one claim over several passages: supported if one of them supports it."""
    return next((verdict for verdict in verdicts if verdict.held), verdicts[0])


def _read_claims(text: str, form: ReplyForm, finish: str) -> tuple[str, ...]:
    found = answered(read_object(text, ("claims",), finish)["claims"])
    if not isinstance(found, list):
        raise ValueError('"claims" must be a list of texts')
    said = tuple(" ".join(text_of(claim, "a claim").split()) for claim in found)
    if len(set(said)) < len(said):
        raise ValueError("a claim occurs twice")
    return said


def _read_verdicts(text: str, finish: str, found: Sequence[str]) -> tuple[Checked, ...]:
    entries = answered(read_object(text, ("verdicts",), finish)["verdicts"])
    if not isinstance(entries, list) or len(entries) != len(found):
        raise ValueError(f'"verdicts" must be a list of {len(found)} entries, one for each claim')
    checked = []
    for number, (claim, entry) in enumerate(zip(found, entries, strict=True), 1):
        entry = ordered(entry, ("claim", "reasoning", "supported"))
        if type(entry["claim"]) is not int or entry["claim"] != number:
            raise ValueError(f"entry {number} must be about claim {number}")
        checked.append(_checked(claim, entry, "supported"))
    return tuple(checked)


def _read_needed(text: str, form: ReplyForm, finish: str) -> tuple[Checked, ...]:
    entries = answered(read_object(text, ("needed",), finish)["needed"])
    if not isinstance(entries, list) or not entries:
        raise ValueError('"needed" must be a list of at least one entry')
    checked = []
    for entry in entries:
        entry = ordered(entry, ("piece", "reasoning", "held"))
        checked.append(_checked(text_of(entry["piece"], "a piece"), entry, "held"))
    return tuple(checked)


def _checked(text: str, entry: dict[str, Any], key: str) -> Checked:
    if not isinstance(answered(entry[key]), bool):
        raise ValueError(f'"{key}" must be true or false')
    return Checked(text, text_of(entry["reasoning"], "a reasoning"), entry[key])


def _list_schema(name: str, kinds: Mapping[str, str | list[str]]) -> str:
    entry = object_schema({key: {"type": kind} for key, kind in kinds.items()})
    return schema_text({name: {"type": ["array", "null"], "items": entry}})


_NEEDED = _list_schema(
    "needed", {"piece": "string", "reasoning": "string", "held": ["boolean", "null"]}
)
_VERDICTS = _list_schema(
    "verdicts", {"claim": "integer", "reasoning": "string", "supported": ["boolean", "null"]}
)
