"""All measures: built-in, of installed packages, ``module:function``, a column of the rows."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import cache
from typing import Any, TypeVar

from ..core import (
    MeasureError,
    RagwrightError,
    Row,
    addition,
    find_additions,
    load_addition,
    suggest_name,
)
from ._definition import CAPABILITY, RETRIEVAL, TEXT, Cutoff, Definition, MeasureScale, ModelUse

COLUMN = Definition(
    name="Column",
    kind="column",
    summary="The number, or true or false, in a column of the rows that ragwright does not read.",
    needs=(),
    high=None,
    source="the rows file; its scale is unknown, higher counts as better",
    parameters=("column",),
)

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
DECLARED = "declared_measure"
"""Attribute of a function that :func:`custom_measure` declared."""


def definitions() -> tuple[Definition, ...]:
    """Every measure, sorted by name: the built-in ones, and those of installed packages.

    One of a package that cannot be loaded is left out.
    """
    installed = []
    for name in find_additions("measures"):
        with suppress(RagwrightError):
            installed.append(_load_installed(name))
    return tuple(
        sorted(
            (*_DEFINITIONS, *(definition for definition in installed if definition)),
            key=lambda definition: definition.name.lower(),
        )
    )


def find(name: str) -> Definition | None:
    """The measure with this name, None if there is none; ``module:function`` is not imported.

    Raises:
        PluginError: It is one of an installed package, and cannot be loaded.
        MeasureError: It is one of an installed package, and not a declared measure.
    """
    if ":" in name:
        return _unread(name)
    return _BY_NAME.get(name) or _load_installed(name)


def custom_measure(
    *,
    needs: Sequence[str] = (),
    low: float = 0.0,
    high: float | None = None,
    higher_is_better: bool = True,
    summary: str = "",
    source: str = "",
    model: ModelUse = "none",
) -> Callable[[FunctionT], FunctionT]:
    """Decorator that declares a function as a measure.

    It takes a row and returns a number, true, false, or None if the row has no value. With a
    ``model`` it is a flow of row and :class:`MeasureSetup`; a text it returns is why it has none.

    Args:
        needs: Fields that a row must have; without them the state is ``not_applicable``.
        low: Smallest value.
        high: Largest value; None if it is unbounded.
        higher_is_better: Direction.
        summary: One sentence for a report; by default that of the docstring.
        source: Where the formula comes from.
        model: Kind of model that it uses.

    Raises:
        MeasureError: A field is unknown, or the scale is empty.
    """
    if isinstance(needs, str):
        said = f"needs must be a tuple of fields, not {needs!r}"
        raise MeasureError(said, hint='write ("response",)')
    known = {field.name for field in fields(Row)}
    unknown = [name for name in needs if name not in known]
    if unknown:
        raise MeasureError(
            f"a row has no field {unknown[0]!r}", hint=suggest_name(unknown[0], known)
        )
    if not math.isfinite(low) or (high is not None and not low < high < math.inf):
        raise MeasureError(
            f"low {low}, high {high} is not a scale",
            where="measures",
            hint="set low to a number, and high, if it is set, to a larger one",
        )

    def declare(function: FunctionT) -> FunctionT:
        definition = Definition(
            name=function.__name__,
            kind="custom",
            summary=summary or (function.__doc__ or "A function of your own.").partition("\n")[0],
            needs=tuple(needs),
            low=low,
            high=high,
            higher_is_better=higher_is_better,
            source=source or f"{function.__module__}:{function.__qualname__}",
            model=model,
            validated="",
        )
        setattr(function, DECLARED, definition)
        return function

    return declare


def read_declared_definition(definition: Definition) -> Definition:
    """The definition that a custom measure declares, for one known by its address alone."""
    if definition.kind != "custom":
        return definition
    declared = getattr(custom_function(definition.name), DECLARED, None)
    return definition if declared is None else replace(declared, name=definition.name)


def custom_function(name: str) -> Callable[..., Any]:
    """The function of a custom measure: at ``module:function``, or of an installed package.

    Raises:
        PluginError: No such module or function.
        MeasureError: It cannot be called with a row.
    """
    function = load_addition("measures", name, where="measures")
    hint = "write def name(row): ... that returns a number, true, false or None"
    if not callable(function) or inspect.isclass(function):
        raise MeasureError(f"{name} is not a function", where="measures", hint=hint)
    if inspect.iscoroutinefunction(function):
        raise MeasureError(f"{name} is async", where="measures", hint=hint)
    checked: Callable[..., Any] = function
    return checked


def custom_scale(name: str) -> MeasureScale | None:
    """The scale that a function declares with :func:`custom_measure`; None if it does not.

    Raises:
        PluginError: No such module or function.
    """
    declared: Definition | None = getattr(custom_function(name), DECLARED, None)
    return None if declared is None else declared.scale


@cache
def _load_installed(name: str) -> Definition | None:
    known = addition("measures", name)
    if known is None:
        return None
    declared = getattr(custom_function(name), DECLARED, None)
    if not isinstance(declared, Definition):
        raise MeasureError(
            f"{known.address} of the package {known.package} is not a declared measure",
            where="measures",
            hint="put @custom_measure(...) of ragwright.measure above the function",
        )
    return replace(declared, name=name, source=declared.source)


@cache
def _unread(address: str) -> Definition:
    return Definition(
        name=address,
        kind="custom",
        summary="A function of your own.",
        needs=(),
        high=None,
        source=address,
        validated="",
    )


_SCRIPTED = "scripted judges; not validated on people"
_GRADED = "reasoning before the grade as in G-Eval (Liu et al. 2023)"
_OWN = f"rubric of our own, `data/rubrics`; {_GRADED}"


def _grade_definition(name: str, summary: str, needs: tuple[str, ...]) -> Definition:
    """A grade from 1 to 5 by one of ragwright's rubrics."""
    return Definition(
        name=name,
        kind="judged",
        summary=summary,
        needs=needs,
        low=1,
        high=5,
        source=_OWN,
        model="chat",
        validated=_SCRIPTED,
    )


def _share_definition(
    name: str, summary: str, needs: tuple[str, ...], source: str, *, cutoff: Cutoff = "none"
) -> Definition:
    """A share from 0 to 1, or either end."""
    return Definition(
        name=name,
        kind="judged",
        summary=summary,
        needs=needs,
        source=source,
        cutoff=cutoff,
        model="chat",
        validated=_SCRIPTED,
    )


JUDGED = (
    _grade_definition(
        "ContextRelevance",
        "How well the retrieved passages fit the question: topic, details, irrelevant text.",
        ("user_input", "retrieved_contexts"),
    ),
    _grade_definition(
        "Faithfulness",
        "Whether the retrieved passages support everything in the response.",
        ("user_input", "retrieved_contexts", "response"),
    ),
    _grade_definition(
        "AnswerRelevance",
        "Whether the response answers the whole question and nothing else.",
        ("user_input", "response"),
    ),
    _grade_definition(
        "Pairwise",
        "How close the response comes to the reference; mean of both orders.",
        ("user_input", "response", "reference"),
    ),
    Definition(
        name="Comprehensive",
        kind="judged",
        summary="Mean of ContextRelevance, Faithfulness, AnswerRelevance and Pairwise (`nogold`: "
        "without Pairwise) of a row, if all of them are scored.",
        needs=("user_input", "retrieved_contexts", "response", "reference"),
        instead=("user_input", "retrieved_contexts", "response"),
        low=1,
        high=5,
        source="of our own: unweighted mean of the four grades of a row",
        parameters=("all", "nogold"),
        default="all",
        model="chat",
        validated=_SCRIPTED,
    ),
    _share_definition(
        "Groundedness",
        "1 if everything important in the response is supported by the passages, else 0.",
        ("user_input", "retrieved_contexts", "response"),
        "rubric of our own, `data/rubrics`; attribution to sources as in Rashkin et al. 2023 (AIS)",
    ),
    Definition(
        name="Rubric",
        kind="judged",
        summary="A rubric file of the project, `rubrics/name.yaml`; its scale is defined in the "
        "file.",
        needs=("response",),
        instead=("retrieved_contexts",),
        low=0,
        high=None,
        source=f"the rubric file; {_GRADED}",
        parameters=("name",),
        model="chat",
        validated=_SCRIPTED,
    ),
    _share_definition(
        "Claims",
        "Share of the claims of the response that the retrieved passages support.",
        ("user_input", "retrieved_contexts", "response"),
        "supported claims / all claims, as in Min et al. 2023 (FActScore)",
    ),
    _share_definition(
        "Completeness",
        "Share of the claims of the reference that the response supports.",
        ("user_input", "response", "reference"),
        "recall of the reference's facts, as in Pradeep et al. 2024, with its claims as the facts",
    ),
    Definition(
        name="JudgedRecall",
        kind="judged",
        summary="Share of the pieces of information the question needs that the passages hold; "
        "with `reference`, of the claims of the reference.",
        needs=("user_input", "retrieved_contexts"),
        source="pieces named by the judge, without gold, as in Pradeep et al. 2024; `reference`: "
        "context recall of ragas (docs.ragas.io)",
        parameters=("question", "reference"),
        default="question",
        model="chat",
        validated=_SCRIPTED,
    ),
    _share_definition(
        "JudgedPrecision",
        "Share of the first k passages (of all, if there are fewer) that help to answer the "
        "question.",
        ("user_input", "retrieved_contexts"),
        "P@k with the judge's verdicts in place of qrels, each passage judged by itself, as in "
        "Thomas et al. 2024",
        cutoff="required",
    ),
    _share_definition(
        "JudgedAveragePrecision",
        "Mean of the precision at each useful passage among the first k (among all without k); 0 "
        "where none is useful.",
        ("user_input", "retrieved_contexts"),
        "context precision of ragas (docs.ragas.io): average precision of verdicts; the verdicts "
        "are those of JudgedPrecision",
        cutoff="optional",
    ),
    Definition(
        name="QuestionSimilarity",
        kind="judged",
        summary="Mean cosine similarity of the question to questions written from the response "
        "and its passages.",
        needs=("user_input", "response"),
        low=-1,
        high=1,
        source="answer relevance of Es et al. 2024 (ragas)",
        model="chat, embed",
        validated=_SCRIPTED,
    ),
    _share_definition(
        "Q2",
        "Mean over questions about informative spans of the response, answered from the "
        "passages: 1 for the same answer, else by entailment, else token F1.",
        ("retrieved_contexts", "response"),
        "Honovich et al. 2021; the judge writes, answers and compares",
    ),
)

EMBEDDING = (
    Definition(
        name="ChunkScore",
        kind="embedding",
        summary="Mean cosine similarity of the question to the retrieved passages.",
        needs=("user_input", "retrieved_contexts"),
        low=-1.0,
        high=1.0,
        source="of our own: mean of the cosine similarity of dense retrieval (Karpukhin et al. "
        "2020); the number `chunk_score` kept with the row where there is one",
        model="embed",
    ),
    Definition(
        name="QADistance",
        kind="embedding",
        summary="1 - cosine of question and response; read it with its null baselines.",
        needs=("user_input", "response"),
        low=0.0,
        high=2.0,
        higher_is_better=False,
        source="of our own, on sentence vectors (Reimers and Gurevych 2019); it rewards repeating "
        "the question's words",
        model="embed",
    ),
    Definition(
        name="BERTScore",
        kind="embedding",
        summary="Each token of one text is matched to the most similar one of the other: F1, or "
        "the mean over the response (precision) or the reference (recall).",
        needs=("response", "reference"),
        low=-1.0,
        high=1.0,
        source="Zhang et al. 2020, last layer, no idf weights, no rescaling; texts beyond the "
        "model's window in several windows",
        parameters=("F1", "precision", "recall"),
        default="F1",
        model="tokens",
        extra="torch",
        validated="bert-score on random and real texts",
    ),
    Definition(
        name="MoverScore",
        kind="embedding",
        summary="1 - the least mean distance for moving the response's tokens onto the "
        "reference's.",
        needs=("response", "reference"),
        low=-1.0,
        high=1.0,
        source="Zhao et al. 2019: unigrams of the last layer, equal weights, Euclidean distance "
        "of unit vectors, exact transport",
        model="tokens",
        extra="torch",
        validated="cases computed by hand and the assignment problem",
    ),
)

LOGPROB = (
    Definition(
        name="Perplexity",
        kind="logprob",
        summary="Exponential of the mean negative log-probability of the response's tokens.",
        needs=("response",),
        low=1.0,
        high=None,
        higher_is_better=False,
        source="Jelinek et al. 1977; without the first token, which has no context",
        model="complete",
        validated="scripted log-probabilities",
    ),
)

_DEFINITIONS = (*RETRIEVAL, *TEXT, *EMBEDDING, *LOGPROB, *CAPABILITY, *JUDGED, COLUMN)

_BY_NAME = {definition.name: definition for definition in _DEFINITIONS}
