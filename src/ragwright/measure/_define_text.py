"""Definitions of text measures without a model."""

from __future__ import annotations

from ._definition import Definition

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
        low=0.0,
        high=1.0,
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
        low=0.0,
        high=1.0,
        higher_is_better=True,
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

_CUE = "the response contains a cue (`judge.rejection_cues`)"


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
        low=0.0,
        high=1.0,
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
        f"Chen et al. 2024 (RGB): {_CUE}, or the row is marked `abstained`; other rows are left "
        "out",
    ),
    _capability_definition(
        "FalseRejectionRate",
        "The same for questions that they do answer (`answerable: true`), where refusing is wrong.",
        "as RejectionRate; read them together: always refusing gives 1 for both",
        higher=False,
    ),
    _capability_definition(
        "AskBackRate",
        "For questions that do not say what they are about (`answerability: underspecified`): 1 if "
        "the response asks the user what is meant, else 0.",
        "own: the response contains a cue (`judge.ask_back_cues`), which 43 of 44 references of "
        "such turns in MTRAG-UN's development half do, and none of the 221 others; other rows are "
        "left out",
    ),
    _capability_definition(
        "ErrorDetection",
        "For rows whose passages contain a false fact (`falsified: true`): 1 if the response "
        "says that they contain an error, else 0.",
        f"Chen et al. 2024 (RGB): {_CUE}; other rows are left out",
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
