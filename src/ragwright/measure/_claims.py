"""Check claims of an answer against its passages, and passages against the question's needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core import PromptTooLongError, Row, Score
from ..flow import Flow, gather, unpack_settled
from ._judge_call import (
    JudgeCall,
    Judged,
    Texts,
    ask_judge,
    explain_over_window,
    object_schema,
    schema_text,
    sources_of,
    texts_of,
)
from ._measure import Measure
from ._reply import ReplyForm, read_object, require_answer, require_keys, text_of
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
    verdicts = yield from check_claims(row, setup, sample)
    if isinstance(verdicts, Score):
        return replace(verdicts, measure=str(measure))
    if not verdicts:
        of_reference = measure.name == "Completeness" or measure.parameter == "reference"
        source = "reference" if of_reference else "response"
        return Score(str(measure), "not_applicable", reason=f"the {source} makes no claims")
    return share_score(str(measure), verdicts)


def check_claims(row: Row, setup: MeasureSetup, sample: int) -> Flow[Sequence[Checked] | Score]:
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
    listings = yield from fitting([listing], setup)
    if isinstance(listings, str):
        return Score("", "not_applicable", reason=listings)
    claims_listed = listings[0].value
    if claims_listed is None:
        return Score("", "judge_invalid", reason=f"listing the claims: {listings[0].why}")
    if not claims_listed:
        return ()
    judged = yield from _judge_claims(claims_listed, row, setup, sample)
    if isinstance(judged, str):
        return Score("", "not_applicable", reason=judged)
    for judgment in judged:
        if judgment.value is None:
            return Score("", "judge_invalid", reason=f"checking the claims: {judgment.why}")
    return [
        _best_verdict([judgment.value[at] for judgment in judged if judgment.value])
        for at in range(len(claims_listed))
    ]


def judge_recall(row: Row, measure: Measure, setup: MeasureSetup, sample: int) -> Flow[Score]:
    """The share of the information needed for a question that is in the passages; one call.

    The judge names the pieces from the question; they are in ``detail``. Passages that do not fit
    the window are not judged one by one, since the pieces would differ each time.

    With the parameter ``reference`` the pieces are the claims of the reference; two calls.
    """
    if measure.parameter == "reference":
        if row.reference is None or not row.reference.strip():
            reason = "the row has no reference"
            return Score(str(measure), "not_applicable", reason=reason, no_gold=True)
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


def completeness(row: Row, measure: Measure, setup: MeasureSetup, sample: int) -> Flow[Score]:
    """The share of the reference's claims that the response supports; two calls."""
    swapped = replace(row, response=row.reference, retrieved_contexts=(row.response_text,))
    return (yield from claims(swapped, measure, setup, sample))


def fitting(calls: Sequence[JudgeCall[Any]], setup: MeasureSetup) -> Flow[list[Judged[Any]] | str]:
    """Return the replies to parallel calls, or why one of them does not fit the judge's window."""
    for call in calls:
        too_long = explain_over_window(call, setup)
        if too_long:
            return too_long
    try:
        outcomes = yield from gather([ask_judge(call, setup) for call in calls], settle=True)
        return [unpack_settled(outcome) for outcome in outcomes]
    except PromptTooLongError as error:
        return error.what


def share_score(name: str, pieces: Sequence[Checked]) -> Score:
    """The supported share, with every piece and its reasoning as detail."""
    detail = "\n".join(f"{'+' if c.held else '-'} {c.text} ({c.reasoning})" for c in pieces)
    return Score(name, "scored", sum(c.held for c in pieces) / len(pieces), detail=detail)


def _judge_claims(
    claims_listed: Sequence[str], row: Row, setup: MeasureSetup, sample: int
) -> Flow[list[Judged[tuple[Checked, ...]]] | str]:
    def call(part: Row) -> JudgeCall[tuple[Checked, ...]]:
        texts: Texts = (
            *texts_of(part, ("user_input", "retrieved_contexts")),
            *((f"claim {number}", claim) for number, claim in enumerate(claims_listed, 1)),
        )
        return JudgeCall(
            prompt="verdicts",
            texts=texts,
            read=lambda text, form, finish: _read_verdicts(text, finish, claims_listed),
            schema=_VERDICTS,
            stand_in=tuple(Checked(claim, "forecast", False) for claim in claims_listed),
            values={"count": len(claims_listed)},
            sample=sample,
            sources=sources_of(part),
        )

    judged = yield from fitting([call(row)], setup)
    if isinstance(judged, str) and setup.per_passage:
        parts = [replace(row, retrieved_contexts=(text,)) for text in row.retrieved_contexts]
        judged = yield from fitting([call(part) for part in parts], setup)
    return judged


def _best_verdict(verdicts: Sequence[Checked]) -> Checked:
    """The verdict on one claim over several passages: supported if one of them supports it."""
    return next((verdict for verdict in verdicts if verdict.held), verdicts[0])


def _read_claims(text: str, form: ReplyForm, finish: str) -> tuple[str, ...]:
    entries = require_answer(read_object(text, ("claims",), finish)["claims"])
    if not isinstance(entries, list):
        raise ValueError('"claims" must be a list of texts')
    texts = tuple(" ".join(text_of(claim, "a claim").split()) for claim in entries)
    if len(set(texts)) < len(texts):
        raise ValueError("a claim occurs twice")
    return texts


def _read_verdicts(text: str, finish: str, claims_listed: Sequence[str]) -> tuple[Checked, ...]:
    entries = require_answer(read_object(text, ("verdicts",), finish)["verdicts"])
    if not isinstance(entries, list) or len(entries) != len(claims_listed):
        raise ValueError(
            f'"verdicts" must be a list of {len(claims_listed)} entries, one for each claim'
        )
    verdicts = []
    for number, (claim, entry) in enumerate(zip(claims_listed, entries, strict=True), 1):
        entry = require_keys(entry, ("claim", "reasoning", "supported"))
        if type(entry["claim"]) is not int or entry["claim"] != number:
            raise ValueError(f"entry {number} must be about claim {number}")
        verdicts.append(_checked_entry(claim, entry, "supported"))
    return tuple(verdicts)


def _read_needed(text: str, form: ReplyForm, finish: str) -> tuple[Checked, ...]:
    entries = require_answer(read_object(text, ("needed",), finish)["needed"])
    if not isinstance(entries, list) or not entries:
        raise ValueError('"needed" must be a list of at least one entry')
    verdicts = []
    for entry in entries:
        entry = require_keys(entry, ("piece", "reasoning", "held"))
        verdicts.append(_checked_entry(text_of(entry["piece"], "a piece"), entry, "held"))
    return tuple(verdicts)


def _checked_entry(text: str, entry: dict[str, Any], key: str) -> Checked:
    if not isinstance(require_answer(entry[key]), bool):
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
