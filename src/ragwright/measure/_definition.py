"""Definitions of measures, before anything is computed: of retrieval, and of texts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal[
    "retrieval", "span", "text", "embedding", "judged", "logprob", "capability", "custom", "column"
]
Cutoff: TypeAlias = Literal["required", "optional", "none"]
ModelUse: TypeAlias = Literal["none", "chat", "embed", "chat, embed", "complete", "tokens"]
"""Kind of model that a measure uses: ``tokens`` is a local one with one vector per token."""


@dataclass(frozen=True, slots=True)
class MeasureScale:
    """The range of a measure and its direction.

    ``str(scale)`` is its form in table headers: ``1-5``, ``from 0``.
    """

    low: float
    high: float | None
    higher_is_better: bool = True

    def __str__(self) -> str:
        """Both ends, or the lower one if there is no upper one."""
        return f"from {self.low:g}" if self.high is None else f"{self.low:g}-{self.high:g}"

    @property
    def ends(self) -> tuple[float, float | None]:
        """Smallest and largest value."""
        return self.low, self.high

    @property
    def worst(self) -> float | None:
        """The worst value; None if the scale is unbounded there."""
        end = self.low if self.higher_is_better else self.high
        return None if end is None or math.isinf(end) else end

    @property
    def width(self) -> float | None:
        """Largest difference of two values; None if the scale is unbounded."""
        if self.high is None or math.isinf(self.high - self.low):
            return None
        return self.high - self.low


@dataclass(frozen=True, slots=True)
class Definition:
    """Definition of a measure; the reference page and the checks are generated from it.

    Attributes:
        name: As written before bracket and cutoff.
        kind: Which family of functions computes it.
        summary: One sentence for the reader of a report.
        needs: Fields of a row that it reads.
        source: Where the formula comes from.
        low: Smallest value; ``high``, None if unbounded, the largest.
        higher_is_better: Direction.
        cutoff: Whether ``@k`` must, may or must not be given.
        parameters: Allowed parameters in brackets; ``N`` is a whole number from 1.
        default: Default parameter, several with commas; not written out. Without a default, a
            parameter is required.
        instead: Alternative fields to ``needs``, read first if a row has both.
        model: Kind of model that it uses.
        extra: Extra of ragwright that it needs, empty if the core is enough.
        validated: What its numbers are compared with in the tests.
    """

    name: str
    kind: Kind
    summary: str
    needs: tuple[str, ...]
    source: str
    low: float = 0.0
    high: float | None = 1.0
    higher_is_better: bool = True
    cutoff: Cutoff = "none"
    parameters: tuple[str, ...] = ()
    default: str = ""
    instead: tuple[str, ...] = ()
    model: ModelUse = "none"
    extra: str = ""
    validated: str = "cases worked by hand"

    @property
    def scale(self) -> MeasureScale:
        """Range and direction together."""
        return MeasureScale(self.low, self.high, self.higher_is_better)

    @property
    def states_scale(self) -> bool:
        """False where the scale is in a rubric file or a function, or nowhere."""
        unread = self.kind == "column" or (self.kind == "custom" and ":" in self.name)
        return "name" not in self.parameters and not unread

    def reads(self, field: str) -> bool:
        """True where the measure looks at a field of a row; a custom one may look at any."""
        return self.kind == "custom" or field in (*self.needs, *self.instead)

    @property
    def form(self) -> str:
        """How to write it, with optional parts in square brackets: ``Recall[(rel=N)]@k``."""
        brackets = f"({'|'.join(self.parameters)})" if self.parameters else ""
        if brackets and self.default:
            brackets = f"[{brackets}]"
        return (
            self.name + brackets + {"required": "@k", "optional": "[@k]", "none": ""}[self.cutoff]
        )

    @property
    def example(self) -> str:
        """A name that can be used as it is: ``Recall@10``, ``BLEU(4)``."""
        needed = "" if self.default or not self.parameters else f"({self.parameters[0]})"
        return self.name + needed.replace("(N)", "(4)") + ("" if self.cutoff == "none" else "@10")


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
        source=source,
        cutoff=cutoff,
        parameters=("rel=N", "norel=skip", "rel=N,norel=skip") if binary else ("norel=skip",),
        default="rel=1,norel=0" if binary else "norel=0",
        instead=_SPANS if spans else (),
        validated="trec_eval's own test files and ir_measures; spans: a slow second implementation",
    )


RETRIEVAL = (
    Definition(
        name="AnswerRecall",
        kind="text",
        summary="1 if one of the first k passages contains the words of the reference in sequence, "
        "else 0; of a reference of more than 5 words, the largest share of its content words and "
        "numbers in one passage. It needs no gold passage, only the answer.",
        needs=("retrieved_contexts", "reference"),
        source="top-k retrieval accuracy of DPR (Karpukhin et al. 2020, `has_answer`), words as "
        "ExactMatch; of several references the best. A passage may contain the words and not "
        "the answer (yes, a year)",
        cutoff="required",
        validated="a slow second implementation",
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
            source="ALCE (Gao et al. 2023), with gold in place of entailment; a mark [n] is the "
            "nth passage of the row, and a mark without a passage is wrong",
        )
        for part, of in (
            ("Precision", "cited passages that are gold, where one that was not retrieved is not"),
            ("Recall", "gold that the cited passages hold"),
        )
    ),
    Definition(
        name="SpanPrecision",
        kind="span",
        summary="Share of the characters of the first k passages that belong to a gold span.",
        needs=_SPANS,
        source="Smith and Troynikov 2024, overlapping passages counted once",
        cutoff="required",
        validated="a slow second implementation on chunking_eval",
    ),
    Definition(
        name="SpanIoU",
        kind="span",
        summary="Characters shared by the first k passages and the gold spans, over the "
        "characters of either.",
        needs=_SPANS,
        source="Smith and Troynikov 2024, overlapping passages counted once",
        cutoff="required",
        validated="a slow second implementation on chunking_eval",
    ),
)


_SQUAD = (
    "SQuAD 1.1 (Rajpurkar et al. 2016), articles by language as MLQA does (Lewis et al. 2020); "
    "signs of numbers and code stay (-5, 1.2, 50%, C#); squad: the rule of its script"
)
_NORMALISED = ("signs", "squad")
_ROUGE_HELD = "rouge-score on random and real texts"


def _answer_definition(
    name: str,
    summary: str,
    source: str,
    validated: str = "cases computed by hand",
    *,
    parameters: tuple[str, ...] = (),
    higher: bool = True,
    extra: str = "",
) -> Definition:
    """A measure from 0 to 1 of a response against its reference."""
    return Definition(
        name=name,
        kind="text",
        summary=summary,
        needs=("response", "reference"),
        higher_is_better=higher,
        source=source,
        parameters=parameters,
        default="signs" if "signs" in parameters else "",
        extra=extra,
        validated=validated,
    )


def _knowledge_definition(
    name: str, summary: str, source: str, *, parameters: tuple[str, ...] = ("all", "content")
) -> Definition:
    """A measure from 0 to 1 of a response against the passages it was written from."""
    return Definition(
        name=name,
        kind="text",
        summary=summary,
        needs=("response", "retrieved_contexts"),
        source=source,
        parameters=parameters,
        default="all",
        validated="a slow second implementation; people: docs/measures.md",
    )


TEXT = (
    _answer_definition(
        "ExactMatch",
        "1 if response and reference are equal after normalising, else 0.",
        _SQUAD,
        "squad: the formula of SQuAD's script on random texts and on SQuAD 2.0",
        parameters=_NORMALISED,
    ),
    _answer_definition(
        "TokenF1",
        "F1 of the words that response and reference share.",
        _SQUAD,
        "squad: the formula of SQuAD's script on random texts and on SQuAD 2.0",
        parameters=_NORMALISED,
    ),
    _answer_definition(
        "Contains",
        "1 if the response contains the words of the reference in sequence, else 0.",
        "the lexical matching of open question answering (Kamalloo et al. 2023), normalised as "
        "ExactMatch",
    ),
    _answer_definition(
        "EditDistance",
        "Insertions, deletions and substitutions of characters, over the longer text's length.",
        "Levenshtein 1966, by the bit vectors of Myers 1999; texts in Unicode form NFC",
        "a slow second implementation on random texts",
        higher=False,
    ),
    _answer_definition(
        "BLEU",
        "Geometric mean of the shares of N-grams found in the reference, times a brevity penalty.",
        "Papineni et al. 2002, by sacrebleu for one sentence (orders up to the response's "
        "length, exponential smoothing), divided by 100",
        "sacrebleu computes it",
        parameters=("N",),
        extra="measures",
    ),
    _answer_definition(
        "ROUGE",
        "F1 of the overlap of response and reference: N-grams, longest common subsequence (L), "
        "the same, weighted for consecutive words (W, power 1.2), skip-bigrams (S), these and "
        "words (SU); or the share "
        "of the reference (recall) or of the response (precision).",
        "Lin 2004 (recall; F1 with beta 1); words without stemming; of several references the best",
        f"N and L: {_ROUGE_HELD}; W, S and SU: the paper's examples, by hand",
        parameters=tuple(
            f"{kind}{part}"
            for part in ("", ",recall", ",precision")
            for kind in ("N", "L", "W", "S", "SU")
        ),
    ),
    _knowledge_definition(
        "KPrecision",
        "Share of the response's words that occur in the retrieved passages.",
        "K-Precision of Adlakha et al. 2023, words normalised as TokenF1; content: stems without "
        "stop words; content+bigrams: mean of that and of the share of bigrams of all words, and "
        "of all words if the response has no content word",
        parameters=("all", "content", "content+bigrams"),
    ),
    _knowledge_definition(
        "KF1",
        "F1 of KPrecision and the share of the passages' words that are in the response.",
        "Knowledge F1 of Shuster et al. 2021, words normalised as TokenF1; content: stems without "
        "stop words",
    ),
)


def _capability_definition(
    name: str,
    summary: str,
    source: str,
    *,
    needs: tuple[str, ...] = (),
    higher: bool = True,
    parameters: tuple[str, ...] = (),
) -> Definition:
    """A rate from 0 to 1 over the rows that are marked to test a capability."""
    return Definition(
        name=name,
        kind="capability",
        summary=summary,
        needs=("response", *needs),
        higher_is_better=higher,
        source=source,
        parameters=parameters,
        default=next(iter(parameters), ""),
    )


CAPABILITY = (
    _capability_definition(
        "RejectionRate",
        "For questions that the passages do not answer (`answerable: false`): 1 if the response "
        "says that it cannot answer, else 0.",
        "Chen et al. 2024 (RGB): the response contains a cue (`judge.rejection_cues`), or the row "
        "is marked `abstained`; other rows are left out",
    ),
    _capability_definition(
        "FalseRejectionRate",
        "The same for questions that they do answer (`answerable: true`), where refusing is wrong.",
        "as RejectionRate; read them together: always refusing gives 1 for both",
        higher=False,
    ),
    _capability_definition(
        "ErrorDetection",
        "For rows whose passages contain a false fact (`falsified: true`): 1 if the response "
        "says that they contain an error, else 0.",
        "Chen et al. 2024 (RGB): the response contains a cue (`judge.error_cues`); other rows are "
        "left out",
    ),
    _capability_definition(
        "ErrorCorrection",
        "For rows whose error was reported, or for all falsified rows: 1 if the response contains "
        "the reference, the true fact, else 0.",
        "Chen et al. 2024 (RGB): reported; compared as Contains; read it with ErrorDetection, "
        "which gives the number of rows, and with all, which counts the others too",
        needs=("reference",),
        parameters=("reported", "all"),
    ),
)
