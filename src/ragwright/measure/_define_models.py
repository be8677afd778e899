"""Definitions of measures that use a model's vectors or probabilities."""

from __future__ import annotations

from ._definition import Definition

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
