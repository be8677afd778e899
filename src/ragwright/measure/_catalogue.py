"""Every measure that ships, as data: what it needs, its range, direction and source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["retrieval"]
Cutoff: TypeAlias = Literal["required", "optional", "none"]


@dataclass(frozen=True, slots=True)
class Definition:
    """What a measure is; the reference page and the checks are read off it.

    Attributes:
        name: As written before bracket and cutoff.
        kind: Which function computes it.
        summary: One sentence for the reader of a report.
        needs: Fields of a row that it reads.
        low: Smallest value; ``high``, None where unbounded, the largest.
        higher_is_better: Direction.
        source: Where the formula comes from.
        cutoff: Whether ``@k`` must, may or must not be given.
        parameters: What may stand in brackets, ``N`` being a whole number from 1.
        default: Parameter meant where none is given; not written out.
    """

    name: str
    kind: Kind
    summary: str
    needs: tuple[str, ...]
    low: float
    high: float | None
    higher_is_better: bool
    source: str
    cutoff: Cutoff = "none"
    parameters: tuple[str, ...] = ()
    default: str = ""

    @property
    def form(self) -> str:
        """How it is written, optional pieces in square brackets: ``Recall[(rel=N)]@k``."""
        brackets = f"[({'|'.join(self.parameters)})]" if self.parameters else ""
        return (
            self.name + brackets + {"required": "@k", "optional": "[@k]", "none": ""}[self.cutoff]
        )


def _ranking(
    name: str, summary: str, source: str, *, cutoff: Cutoff = "required", binary: bool = True
) -> Definition:
    """A measure from 0 to 1 of a ranking of documents against graded judgments."""
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
        parameters=("rel=N",) if binary else (),
        default="rel=1" if binary else "",
    )


_DEFINITIONS = (
    _ranking(
        "HitRate",
        "1 where a relevant document is among the first k, else 0.",
        "success_k of trec_eval",
    ),
    _ranking(
        "MAP",
        "Precision at the rank of each relevant document, averaged over all relevant ones.",
        "Buckley and Voorhees 2000; map and map_cut_k of trec_eval",
        cutoff="optional",
    ),
    _ranking(
        "MRR",
        "1 / rank of the first relevant document, 0 where the first k hold none.",
        "Voorhees 1999; recip_rank of trec_eval, with a cutoff",
        cutoff="optional",
    ),
    _ranking(
        "Precision",
        "Share of the first k places that hold a relevant document.",
        "P_k of trec_eval: the divisor is k, however few documents were returned",
    ),
    _ranking(
        "Recall",
        "Share of the relevant documents that are among the first k.",
        "recall_k of trec_eval",
    ),
    _ranking(
        "nDCG",
        "Grades discounted by log2(rank + 1), over the same sum for the ideal order.",
        "Järvelin and Kekäläinen 2002 with linear gain; ndcg and ndcg_cut_k of trec_eval: "
        "the ideal ranks all judged documents, grades below 0 count as 0",
        cutoff="optional",
        binary=False,
    ),
)

_BY_NAME = {definition.name: definition for definition in _DEFINITIONS}


def definitions() -> tuple[Definition, ...]:
    """Every measure, sorted by name."""
    return tuple(sorted(_DEFINITIONS, key=lambda definition: definition.name.lower()))


def find(name: str) -> Definition | None:
    """The measure of this name, None where there is none."""
    return _BY_NAME.get(name)
