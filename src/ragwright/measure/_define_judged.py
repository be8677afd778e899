"""Measures that a chat model judges, as data."""

from __future__ import annotations

from ._definition import Cutoff, Definition

_SCRIPTED = "scripted judges; not validated on people"
_OWN = "SPEC A9; rubric of our own, `data/rubrics`"


def _graded(name: str, summary: str, needs: tuple[str, ...]) -> Definition:
    """A grade from 1 to 5 by a rubric of our own."""
    return Definition(
        name=name,
        kind="judged",
        summary=summary,
        needs=needs,
        low=1,
        high=5,
        higher_is_better=True,
        source=_OWN,
        model="chat",
        validated=_SCRIPTED,
    )


def _share(
    name: str, summary: str, needs: tuple[str, ...], source: str, *, cutoff: Cutoff = "none"
) -> Definition:
    """A share from 0 to 1, or one of the two."""
    return Definition(
        name=name,
        kind="judged",
        summary=summary,
        needs=needs,
        low=0,
        high=1,
        higher_is_better=True,
        source=source,
        cutoff=cutoff,
        model="chat",
        validated=_SCRIPTED,
    )


JUDGED = (
    _graded(
        "ContextRelevance",
        "How well the retrieved passages suit the question: topic, particulars, ballast.",
        ("user_input", "retrieved_contexts"),
    ),
    _graded(
        "Faithfulness",
        "Whether the retrieved passages support everything in the response.",
        ("user_input", "retrieved_contexts", "response"),
    ),
    _graded(
        "AnswerRelevance",
        "Whether the response answers the question, the whole of it and nothing else.",
        ("user_input", "response"),
    ),
    _graded(
        "Pairwise",
        "How close the response comes to the reference; mean of both orders.",
        ("user_input", "response", "reference"),
    ),
    Definition(
        name="Comprehensive",
        kind="judged",
        summary="Mean of ContextRelevance, Faithfulness, AnswerRelevance and Pairwise (`nogold`: "
        "without Pairwise) of a row where all of them are scored.",
        needs=("user_input", "retrieved_contexts", "response", "reference"),
        instead=("user_input", "retrieved_contexts", "response"),
        low=1,
        high=5,
        higher_is_better=True,
        source="SPEC A9",
        parameters=("all", "nogold"),
        default="all",
        model="chat",
        validated=_SCRIPTED,
    ),
    _share(
        "Groundedness",
        "1 where all that matters in the response is supported by the passages, else 0.",
        ("user_input", "retrieved_contexts", "response"),
        "SPEC D7; rubric of our own",
    ),
    Definition(
        name="Rubric",
        kind="judged",
        summary="A rubric file of the project, `rubrics/name.yaml`; its scale is the file's.",
        needs=("response",),
        instead=("retrieved_contexts",),
        low=0,
        high=None,
        higher_is_better=True,
        source="SPEC D10; the file",
        parameters=("name",),
        model="chat",
        validated=_SCRIPTED,
    ),
    _share(
        "Claims",
        "Share of the claims of the response that the retrieved passages support.",
        ("user_input", "retrieved_contexts", "response"),
        "SPEC D7; supported claims / all claims, as in Min et al. 2023 (FActScore)",
    ),
    _share(
        "JudgedRecall",
        "Share of the pieces of information the question needs that the passages hold.",
        ("user_input", "retrieved_contexts"),
        "SPEC D6; the judge names the pieces, without gold",
    ),
    _share(
        "JudgedPrecision",
        "Share of the first k passages (of all, where there are fewer) that help to answer "
        "the question.",
        ("user_input", "retrieved_contexts"),
        "SPEC D6; each passage judged by itself",
        cutoff="required",
    ),
    Definition(
        name="QuestionSimilarity",
        kind="judged",
        summary="Mean cosine similarity of the question to questions written from the response "
        "and its passages.",
        needs=("user_input", "response"),
        low=-1,
        high=1,
        higher_is_better=True,
        source="SPEC D8; Es et al. 2024 (answer relevance)",
        model="chat, embed",
        validated=_SCRIPTED,
    ),
    _share(
        "Q2",
        "Questions on the informative spans of the response, answered from the passages: "
        "1 for the same answer, else by entailment, else token F1; the mean.",
        ("retrieved_contexts", "response"),
        "Honovich et al. 2021; the judge writes, answers and compares",
    ),
)
