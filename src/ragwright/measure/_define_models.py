"""Definitions of measures that use a model: a judge, vectors, probabilities."""

from __future__ import annotations

from ._definition import Cutoff, Definition

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
        higher_is_better=True,
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
        low=0,
        high=1,
        higher_is_better=True,
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
        higher_is_better=True,
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
        higher_is_better=True,
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
        low=0,
        high=1,
        higher_is_better=True,
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
        name="AnswerCorrectness",
        kind="judged",
        summary="0.75 x F1 of the claims that response and reference share + 0.25 x their cosine "
        "similarity.",
        needs=("user_input", "response", "reference"),
        low=-0.25,
        high=1,
        higher_is_better=True,
        source="answer correctness of ragas (docs.ragas.io), with its weights",
        model="chat, embed",
        validated=_SCRIPTED,
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
        higher_is_better=True,
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
        higher_is_better=True,
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
        higher_is_better=True,
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
