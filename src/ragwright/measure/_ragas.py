"""Names of other tools: those with the definition of one of our measures, and those without.

Several of its names are spelt as measures of ours that are something else: its ``faithfulness``
is a share of claims, our ``Faithfulness`` a grade from 1 to 5. So names are never matched by
likeness.
"""

from __future__ import annotations

from collections.abc import Mapping

OURS: Mapping[str, str] = {
    "answer_correctness": "AnswerCorrectness",
    "answer_relevancy": "QuestionSimilarity",
    "AnswerRelevancy": "QuestionSimilarity",
    "context_precision": "JudgedAveragePrecision",
    "context_recall": "JudgedRecall(reference)",
    "ContextPrecision": "JudgedAveragePrecision",
    "ContextRecall": "JudgedRecall(reference)",
    "exact_match": "ExactMatch",
    "faithfulness": "Claims",
    "llm_context_precision_without_reference": "JudgedAveragePrecision",
    "LLMContextPrecisionWithoutReference": "JudgedAveragePrecision",
    "LLMContextRecall": "JudgedRecall(reference)",
    "response_relevancy": "QuestionSimilarity",
    "ResponseRelevancy": "QuestionSimilarity",
}
"""A name of ragas -> the text of our measure with the same definition."""

OF_TOOLS: Mapping[str, str] = {
    "ap": "MAP",
    "average_precision": "MAP",
    "em": "ExactMatch",
    "f1": "TokenF1",
    "hit": "HitRate",
    "hits": "HitRate",
    "hit_rate": "HitRate",
    "levenshtein": "EditDistance",
    "map_cut": "MAP",
    "mean_average_precision": "MAP",
    "mean_reciprocal_rank": "MRR",
    "ndcg_cut": "nDCG",
    "p": "Precision",
    "r": "Recall",
    "recip_rank": "MRR",
    "rr": "MRR",
    "success": "HitRate",
    "token_f1": "TokenF1",
}
"""A name of trec_eval, ir_measures or SQuAD, in lower case -> our measure of that definition."""

NEAREST: Mapping[str, str] = {
    "answer_similarity": "AnswerCorrectness, a quarter of which it is",
    "context_entity_recall": "JudgedRecall(reference)",
    "context_relevance": "ContextRelevance, a grade from 1 to 5",
    "context_relevancy": "ContextRelevance, a grade from 1 to 5",
    "context_utilization": "JudgedAveragePrecision",
    "factual_correctness": "AnswerCorrectness, three quarters of which it is",
    "noise_sensitivity": "Claims",
    "response_groundedness": "Groundedness",
    "semantic_similarity": "AnswerCorrectness, a quarter of which it is",
}
"""A name of ragas that no measure of ours has the definition of -> the nearest one."""

_THEIRS = {
    "AnswerCorrectness": "answer_correctness",
    "Claims": "faithfulness",
    "JudgedAveragePrecision": "context_precision",
    "JudgedRecall(reference)": "context_recall",
    "QuestionSimilarity": "answer_relevancy",
}


def name_in_ragas(measure: str) -> str:
    """The name of a measure in ragas, by its text without a cutoff; empty where it has none."""
    return _THEIRS.get(measure.partition("@")[0], "")
