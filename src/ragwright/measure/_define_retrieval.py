"""Definitions of measures of retrieval."""

from __future__ import annotations

from ._definition import Cutoff, Definition

_SPANS = ("retrieved_spans", "reference_spans")


def _ranking_definition(
    name: str,
    summary: str,
    source: str,
    *,
    cutoff: Cutoff = "required",
    binary: bool = True,
    spans: bool = True,
) -> Definition:
    """A measure from 0 to 1 of a ranking against gold spans, or graded documents.

    ``norel=0`` counts a judged topic without relevant documents as 0, as trec_eval does;
    ``norel=skip`` leaves it out.
    """
    return Definition(
        name=name,
        kind="retrieval",
        summary=summary,
        needs=("retrieved_context_ids", "reference_ids"),
        low=0.0,
        high=1.0,
        higher_is_better=True,
        source=source,
        cutoff=cutoff,
        parameters=("rel=N", "norel=skip", "rel=N,norel=skip") if binary else ("norel=skip",),
        default="rel=1,norel=0" if binary else "norel=0",
        instead=_SPANS if spans else (),
        validated="trec_eval's own test files and ir_measures; spans: a slow second implementation",
    )


def _character_definition(name: str, summary: str, source: str) -> Definition:
    return Definition(
        name=name,
        kind="span",
        summary=summary,
        needs=_SPANS,
        low=0.0,
        high=1.0,
        higher_is_better=True,
        source=source,
        cutoff="required",
        validated="a slow second implementation on chunking_eval",
    )


RETRIEVAL = (
    Definition(
        name="AnswerRecall",
        kind="text",
        summary="1 if one of the first k passages contains the words of the reference in sequence, "
        "else 0; of a reference of more than 5 words, the largest share of its content words and "
        "numbers in one passage. It needs no gold passage, only the answer.",
        needs=("retrieved_contexts", "reference"),
        low=0.0,
        high=1.0,
        higher_is_better=True,
        source="top-k retrieval accuracy of DPR (Karpukhin et al. 2020, `has_answer`), words as "
        "ExactMatch; dpr: the tokens of its code, long references word for word too; of several "
        "references the best. A passage may contain the words and not the answer (yes, a year)",
        cutoff="required",
        parameters=("words", "dpr"),
        default="words",
        validated="a slow second implementation, and DPR's rule on XQuAD",
    ),
    _ranking_definition(
        "HitRate",
        "1 if a relevant document, or a gold span, is among the first k, else 0.",
        "success_k of trec_eval",
    ),
    _ranking_definition(
        "MAP",
        "Precision at the rank of each relevant document, averaged over all relevant ones.",
        "Buckley and Voorhees 2000; map and map_cut_k of trec_eval",
        cutoff="optional",
        spans=False,
    ),
    _ranking_definition(
        "MRR",
        "1 / rank of the first relevant document or span, 0 if the first k contain none.",
        "Voorhees 1999; recip_rank of trec_eval, with a cutoff",
        cutoff="optional",
    ),
    _ranking_definition(
        "Precision",
        "Share of the first k places with a relevant document, or a gold span not covered before.",
        "P_k of trec_eval: the divisor is k, however few documents were returned",
    ),
    _ranking_definition(
        "Recall",
        "Share of the relevant documents, or gold spans, that are among the first k.",
        "recall_k of trec_eval",
    ),
    _ranking_definition(
        "nDCG",
        "Grades discounted by log2(rank + 1), over the same sum for the ideal order.",
        "Järvelin and Kekäläinen 2002 with linear gain; ndcg and ndcg_cut_k of trec_eval: "
        "the ideal ranks all judged documents, grades below 0 count as 0; spans: gain 1 each, "
        "further spans of a hit take the next places",
        cutoff="optional",
        binary=False,
    ),
    *(
        Definition(
            name=f"Citation{part}",
            kind="text",
            summary=f"Share of the {of}, by gold spans or else documents.",
            needs=("response", "retrieved_context_ids", "reference_ids"),
            instead=("response", *_SPANS),
            low=0.0,
            high=1.0,
            higher_is_better=True,
            source="ALCE (Gao et al. 2023), with gold in place of entailment; a mark [n] is the "
            "nth passage of the row, and a mark without a passage is wrong",
        )
        for part, of in (
            (
                "Precision",
                "cited passages that are gold, where one that was not retrieved is not",
            ),
            ("Recall", "gold that the cited passages hold"),
        )
    ),
    _character_definition(
        "SpanPrecision",
        "Share of the characters of the first k passages that belong to a gold span.",
        "Smith and Troynikov 2024, overlapping passages counted once",
    ),
    _character_definition(
        "SpanIoU",
        "Characters shared by the first k passages and the gold spans, over the characters of "
        "either.",
        "Smith and Troynikov 2024, overlapping passages counted once",
    ),
)
