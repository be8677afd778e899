"""Scores a row by measures, always one score per measure.

Missing fields and missing models give ``not_applicable`` with the reason; an exception inside a
measure is ``errored`` for that measure alone; there is never NaN, nor 0 because there was nothing
to judge.

A measure is either computed (:data:`COMPUTED`, by kind) or uses a model (:data:`ASKED`, by name or
kind): a new one is one entry.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

from ..core import Counted, MeasureError, RagwrightError, Row, Score, StoppedError, require
from ..flow import Flow, complete, gather, run_in_pool
from ._catalogue import DECLARED, custom_function, read_declared_definition
from ._definition import Definition
from ._embedded import chunk_score, qa_distance, read_chunk_score, token_similarity
from ._judged import check_rubric, judge_measure, rubric_names
from ._measure import Measure
from ._retrieval import (
    NoGold,
    lacks_gold,
    read_mark,
    retrieval_scores,
    score_empty_answer,
    span_value,
    withheld,
)
from ._rubric import MeasureSetup, open_judge
from ._text import Found, contains, language_of, references_of, text_value
from ._words import split_plain_words


def holds_cue(response: str, cues: Sequence[str]) -> bool:
    """True if the words of at least one cue occur in the response in sequence."""
    pattern = _cue_pattern(tuple(cues))
    return pattern is not None and pattern.search(" ".join(split_plain_words(response))) is not None


@lru_cache(maxsize=16)
def _cue_pattern(cues: tuple[str, ...]) -> re.Pattern[str] | None:
    """One pattern over words separated by single spaces; None without a cue."""
    parts = [part for part in map(_cue_words, cues) if part]
    return re.compile(rf"(?<!\S)(?:{'|'.join(parts)})(?!\S)") if parts else None


def _cue_words(cue: str) -> str:
    words = []
    for word in cue.removeprefix("=").split():
        alternatives = [re.escape(" ".join(split_plain_words(text))) for text in word.split("|")]
        if nonempty := [text for text in alternatives if text]:
            words.append(nonempty[0] if len(nonempty) == 1 else f"(?:{'|'.join(nonempty)})")
    is_whole = cue.startswith("=") and words
    return rf"\A{' '.join(words)}\Z" if is_whole else " ".join(words)


def capability_value(row: Row, measure: Measure, setup: MeasureSetup) -> Found:
    """1 or 0, or the reason why the row does not test the capability.

    Each measure uses only the rows that are marked to test it: what is right for a question without
    an answer is wrong for one with an answer.
    """
    answerable = _ANSWERABLE.get(measure.name)
    if answerable is not None:
        if read_mark(row, "answerable") is not answerable:
            return NoGold(f"the row is not marked `answerable: {str(answerable).lower()}`")
        return float(is_refusal(row, setup))
    if read_mark(row, "falsified") is not True:
        return NoGold("the row is not marked `falsified: true`")
    detected = holds_cue(row.response_text, setup.error_cues)
    if measure.name == "ErrorDetection":
        return float(detected)
    if not detected and measure.parameter != "all":
        return "no error was reported"
    language = language_of(row, setup)
    results = [contains(row.response_text, text, "", language) for text in references_of(row)]
    values = [value for value in results if not isinstance(value, str)]
    return max(values) if values else results[0]


def is_refusal(row: Row, setup: MeasureSetup | None = None) -> bool:
    """True if a row's system declined to answer: it is marked ``abstained``, or says so."""
    return bool(read_mark(row, "abstained")) or holds_cue(
        row.response_text, (setup or MeasureSetup()).refusals
    )


_ANSWERABLE = {"FalseRejectionRate": True, "RejectionRate": False}
"""The rows of a refusal rate."""


def perplexity(row: Row, measure: Measure, setup: MeasureSetup) -> Flow[Score]:
    """The exponential of the mean negative log-probability of the response's tokens, 1 or more.

    The server echoes the response as a prompt with its log-probabilities and writes nothing. The
    first token has no probability, since nothing precedes it.

    Raises:
        MeasureError: The server does not echo the prompt, or gives impossible numbers.
    """
    reply = yield from complete(
        setup.completer,
        row.response_text,
        {"echo": True, "max_tokens": 0, "temperature": 0},
        logprobs=0,
    )
    if not reply.text.startswith(row.response_text) or reply.dropped:
        raise MeasureError(
            f"{setup.completer} does not echo a prompt with its log-probabilities",
            hint="Perplexity needs a /completions server with `echo` and `logprobs`",
        )
    # A server that must write something adds tokens: only those of the response count.
    written = len(reply.text) - len(row.response_text)
    tokens = list(reply.tokens)
    while tokens and written > 0:
        written -= len(tokens.pop()[0])
    if not tokens:
        return Score(str(measure), "not_applicable", reason="the response is a single token")
    scores = [score for _, score in tokens]
    if not all(math.isfinite(score) and score <= 0 for score in scores):
        raise MeasureError(
            f"{setup.completer} sent invalid log-probabilities",
            hint="each must be a finite number not above 0",
        )
    return Score(str(measure), "scored", math.exp(-math.fsum(scores) / len(scores)))


JudgedScorer: TypeAlias = Callable[[Row, Measure, MeasureSetup], Flow[Score]]
"""Flow of a measure that uses a model."""

_MODEL_FIELDS = {
    "chat": ("model",),
    "chat, embed": ("model", "embedder"),
    "complete": ("completer",),
    "embed": ("embedder",),
    "tokens": ("token_model",),
}
_EXTRA_MODULES = {"measures": "sacrebleu", "torch": "transformers"}
_SLOW = frozenset({"capability", "custom", "text"})
"""Kinds whose cost grows with the texts or is unknown: computed on the pool, not on the loop."""

_OF_RESPONSE = frozenset({"text", "embedding", "judged", "logprob"})


def score_row(
    row: Row, measures: Sequence[Measure], setup: MeasureSetup | None = None
) -> Flow[tuple[Score, ...]]:
    """Score one row by every measure, in order; those that use a model run side by side.

    Args:
        row: The row to score.
        measures: Of any kind.
        setup: Models, language and cues.

    Returns:
        One score per measure; failures become states. Only stops (a budget, Ctrl-C) are raised.
    """
    chosen = setup or MeasureSetup()

    def unasked() -> list[Score | None]:
        return [_compute_score(row, measure, chosen) for measure in measures]

    slow = any(measure.definition.kind in _SLOW for measure in measures)
    scores = (yield from run_in_pool(unasked)) if slow else unasked()
    open_ = [at for at, score in enumerate(scores) if score is None]
    if open_:
        outcomes = yield from gather(
            [_asking(measures[at])(row, measures[at], chosen) for at in open_], settle=True
        )
        for at, outcome in zip(open_, outcomes, strict=True):
            if isinstance(outcome, StoppedError):
                raise outcome
            scores[at] = (
                _make_errored(measures[at], outcome)
                if isinstance(outcome, Exception)
                else _finite(outcome)
            )
    return tuple(score for score in scores if score is not None)


def score_rows(
    rows: Iterable[Row], measures: Sequence[Measure], setup: MeasureSetup | None = None
) -> Iterator[tuple[Score, ...]]:
    """Score rows by measures without a model, one after the other, one in memory at a time.

    Raises:
        MeasureError: A measure needs a model; raised before the first row is read.
    """
    chosen = setup or MeasureSetup()
    asking = [str(measure) for measure in measures if _definition(measure).model != "none"]
    if asking:
        raise MeasureError(
            f"{', '.join(asking)} needs a model", hint="run score_row as a flow for these"
        )
    return (
        tuple(filter(None, (_compute_score(row, measure, chosen) for measure in measures)))
        for row in rows
    )


def check_setup(measures: Iterable[Measure], setup: MeasureSetup, rows: Iterable[Row] = ()) -> None:
    """Check before a run that every measure can be scored.

    ``rows`` are those to be scored, if known: a measure whose values are stored in some of them
    needs no model. They are read once for each measure that lacks one.

    Raises:
        MeasureError: A measure's model is not set.
        MissingExtraError: A measure's extra is not installed.
        MeasureError: There is no rubric of that name.
        PluginError: There is no such ``module:function``, or no such judge.
    """
    for measure in measures:
        definition = _definition(measure)
        if definition.kind == "custom":
            custom_function(measure.name)
        lacking = _no_model(definition, setup, measure)
        if lacking and not any(_holds_value(row, measure) for row in rows):
            raise MeasureError(f"{measure}: {lacking}", hint="set it, or leave the measure out")
        check_rubric(measure, setup)
        if _uses_own_judge(definition, setup, measure):
            open_judge(setup.by)
        if definition.extra:
            require(_EXTRA_MODULES[definition.extra], definition.extra, str(measure))


def model_fields(definition: Definition) -> tuple[str, ...]:
    """Fields of a setup that name the models which a measure asks."""
    return _MODEL_FIELDS.get(definition.model, ())


def missing_fields(row: Row, definition: Definition) -> tuple[str, ...]:
    """Fields that a measure needs and a row lacks; none if either set is complete."""
    due = [definition.needs, *([definition.instead] if definition.instead else [])]
    lacking = [
        tuple(name for name in names if not _present(row, name, definition)) for names in due
    ]
    return min(lacking, key=len)


def _compute_score(row: Row, measure: Measure, setup: MeasureSetup) -> Score | None:
    """The score by a measure that needs no model for this row; None if it needs one."""
    try:
        blocked = _find_block(row, measure, setup)
        if blocked is not None or _definition(measure).model != "none":
            return blocked
        value = COMPUTED[measure.definition.kind](row, measure, setup)
    except Exception as error:
        return _make_errored(measure, error)
    if isinstance(value, str):
        return Score(
            str(measure), "not_applicable", reason=str(value), no_gold=isinstance(value, NoGold)
        )
    return _finite(
        Score(str(measure), "scored", value, counted=choose_counted(row, measure.definition))
    )


def choose_counted(row: Row, definition: Definition) -> Counted:
    """What a measure of retrieval counts in a row: gold spans where it has some, else documents.

    Empty for measures of other kinds.
    """
    if definition.kind == "span":
        return "spans"
    if definition.kind != "retrieval":
        return ""
    spans = definition.instead
    return (
        "spans" if spans and all(_present(row, name, definition) for name in spans) else "documents"
    )


def _find_block(row: Row, measure: Measure, setup: MeasureSetup) -> Score | None:
    """Why a row cannot be scored by a measure, None if it can."""
    definition = _definition(measure)
    lacking = missing_fields(row, definition)
    if lacking:
        reason = f"the row has no {' and no '.join(lacking)}"
        return Score(
            str(measure), "not_applicable", reason=reason, no_gold=lacks_gold(row, definition)
        )
    if definition.kind in _OF_RESPONSE and "response" in definition.needs:
        score = withheld(row, str(measure))
        if score is not None:
            return score
    no_model = _no_model(definition, setup, measure)
    if no_model and not _holds_value(row, measure):
        return Score(str(measure), "not_applicable", reason=no_model)
    return score_empty_answer(row, measure)


def _holds_value(row: Row, measure: Measure) -> bool:
    return measure.name == "ChunkScore" and read_chunk_score(row) is not None


def _uses_own_judge(definition: Definition, setup: MeasureSetup, measure: Measure) -> bool:
    return bool(setup.by and definition.kind == "judged" and rubric_names(measure))


def _no_model(definition: Definition, setup: MeasureSetup, measure: Measure) -> str:
    if _uses_own_judge(definition, setup, measure):
        return ""
    for key in _MODEL_FIELDS.get(definition.model, ()):
        if not getattr(setup, key):
            return f"no model is set for it (`judge.{key}`)"
    return ""


_SEARCHED = frozenset({"retrieved_context_ids", "retrieved_spans"})


def _present(row: Row, name: str, definition: Definition) -> bool:
    value = getattr(row, name)
    searched = name in _SEARCHED or (
        name == "retrieved_contexts"
        and definition.model == "none"
        and not definition.reads("response")
    )
    if name == "response":
        return value is not None  # an empty answer is one
    if searched and row.metadata.get("retrieved") is True:
        return True  # a search that found nothing is a ranking too, the worst one
    return bool(value.strip() if isinstance(value, str) else value)


def _definition(measure: Measure) -> Definition:
    """The definition; of a custom measure that which its function declares, if it can be loaded."""
    try:
        return read_declared_definition(measure.definition)
    except RagwrightError:
        return measure.definition


def _asking(measure: Measure) -> JudgedScorer:
    return ASKED.get(measure.name) or ASKED[measure.definition.kind]


def _make_errored(measure: Measure, error: Exception) -> Score:
    reason = error.what if isinstance(error, RagwrightError) else str(error)
    return Score(str(measure), "errored", reason=f"{type(error).__name__}: {reason}")


def _finite(score: Score) -> Score:
    """The score, or an error if its value is not a number, which must not be averaged."""
    if score.value is None or math.isfinite(score.value):
        return score
    return Score(score.measure, "errored", reason=f"the value {score.value} is not a number")


def _ranking(row: Row, measure: Measure, setup: MeasureSetup) -> Found:
    if choose_counted(row, measure.definition) == "spans":
        return span_value(row, measure, setup)
    known = row.metadata.get("ranked_documents")
    ranking = known if isinstance(known, tuple) else row.retrieved_context_ids
    score = retrieval_scores(measure, ranking, row.reference_ids)
    return NoGold(score.reason) if score.value is None else score.value


def custom_value(row: Row, measure: Measure, setup: MeasureSetup) -> float | str:
    """What a function returns for a row, or why the row has no value.

    Raises:
        MeasureError: It returned something that is not a number, or is off its scale.
    """
    function = custom_function(measure.name)
    return _number_of(function(row), function, measure.name)


def custom_score(row: Row, measure: Measure, setup: MeasureSetup) -> Flow[Score]:
    """The score by a custom measure that uses a model.

    Raises:
        MeasureError: It is not a flow, or returned something that is neither number nor text.
    """
    function = custom_function(measure.name)
    flow = function(row, setup)
    if not isinstance(flow, Generator):
        raise MeasureError(
            f"{measure} declares a model, but is not a flow", hint="write `yield from chat(...)`"
        )
    value = yield from flow
    number = value if isinstance(value, str) else _number_of(value, function, measure.name)
    if isinstance(number, str):
        return Score(measure.name, "not_applicable", reason=number)
    return Score(measure.name, "scored", number)


def _number_of(value: Any, function: Any, name: str) -> float | str:
    """A returned number on the scale that its function declares, or why there is none."""
    if value is None:
        return f"{name} returned None"
    if isinstance(value, str | bytes) or not hasattr(value, "__float__"):
        raise MeasureError(f"{name} returned {value!r:.80}, not a number, true, false or None")
    number, declared = float(value), getattr(function, DECLARED, None)
    if declared is None:
        return number
    if number < declared.low or (declared.high is not None and number > declared.high):
        raise MeasureError(f"{name} returned {number:g}, off its scale of {declared.scale}")
    return number


def column_value(row: Row, measure: Measure, setup: MeasureSetup) -> float | str:
    """The number in a column of a row, or why there is none.

    Raises:
        MeasureError: The column holds something that is not a number.
    """
    column = measure.parameter
    value = row.metadata.get(column)
    if value is None or (isinstance(value, str) and not value.strip()):
        return f"the row has no value in the column {column!r}"
    if isinstance(value, int | float):
        number = float(value)
    elif isinstance(value, str):
        number = _number(value.strip())
    else:
        number = math.nan
    if not math.isfinite(number):
        raise MeasureError(
            f"the column {column!r} holds {value!r:.80}, not a number, true or false"
        )
    return number


def _number(text: str) -> float:
    try:
        return _WORDS[text.lower()] if text.lower() in _WORDS else float(text)
    except ValueError:
        return math.nan


_WORDS = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}


COMPUTED: Mapping[str, Callable[[Row, Measure, MeasureSetup], Found]] = {
    "capability": capability_value,
    "column": column_value,
    "custom": custom_value,
    "retrieval": _ranking,
    "span": span_value,
    "text": text_value,
}
"""Kind -> function of measures without a model; a string is the reason for a missing value."""

ASKED: Mapping[str, JudgedScorer] = {
    "custom": custom_score,
    "judged": judge_measure,
    "BERTScore": token_similarity,
    "ChunkScore": chunk_score,
    "MoverScore": token_similarity,
    "Perplexity": perplexity,
    "QADistance": qa_distance,
}
"""Name or kind -> flow of measures that use a model."""
