"""Reach: chunks that no question finds, and questions that the corpus does not answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ..core import counted
from ..models import stop_words, words
from ._questions import Question, Results
from ._records import Finding, Place, Severity
from ._text import Corpus

_STOP = stop_words("en") | stop_words("de") | stop_words("fr") | stop_words("es")
_SHARED = 0.5
"""Share of the smaller question's content words that two questions of a cluster share."""
_EXAMPLES = 5


def out_of_reach(corpus: Corpus, results: Results, depth: int) -> Iterator[Finding]:
    """Chunks whose own question does not find them, nor any other; one finding for a document."""
    missed: dict[str, list[tuple[int, int]]] = defaultdict(list)
    tried: dict[str, int] = defaultdict(int)
    for result in results.searched:
        chunk = result.question.chunk
        if chunk is None:
            continue
        tried[chunk[0]] += 1
        if not results.reached(chunk):
            missed[chunk[0]].append(chunk[1:])
    for document, spans in missed.items():
        number = corpus.numbers[document]
        source = corpus.briefs[number].source
        total = tried[document]
        yield Finding(
            "reach",
            "unreached chunk",
            "medium" if len(spans) == total else "low",
            tuple(corpus.place(number, start, end) for start, end in sorted(spans)[:5]),
            f"{len(spans)} of {counted(total, 'chunk')} tried of {source} "
            f"{'is' if len(spans) == 1 else 'are'} not among the first {depth} hits of any "
            "question, not even of the own first sentence.",
            "Give the passage a heading and words of its own, or leave out the copies that "
            "outrank it.",
            marks={"chunks": len(spans), "tried": total},
            subject=document,
        )


def unanswered(corpus: Corpus, results: Results) -> Iterator[Finding]:
    """Clusters of served questions to which the answer was that nothing is known."""
    served = results.of("served")
    open_ones = [number for number in served if results.searched[number].question.abstained]
    for cluster in _clusters([results.searched[n].question for n in open_ones]):
        numbers = [open_ones[n] for n in cluster]
        texts = [results.searched[n].question.text for n in numbers]
        nearest = next((results.searched[n].hits[:1] for n in numbers), ())
        places: tuple[Place, ...] = tuple(
            corpus.place(corpus.numbers[hit.document_id], hit.start, hit.end) for hit in nearest
        )
        severity: Severity = "high" if len(texts) >= 5 else "medium" if len(texts) > 1 else "low"
        more = f", and {len(texts) - 1} like it" if len(texts) > 1 else ""
        yield Finding(
            "unanswered",
            "unanswered question",
            severity,
            places,
            f"People asked «{texts[0]}»{more}: the documents gave no answer.",
            "Add a passage that answers it; the nearest one so far is shown.",
            marks={"questions": len(texts), "examples": texts[:_EXAMPLES]},
            cost=round(len(texts) / len(served), 4),
            cost_of=f"of {counted(len(served), 'served question')}",
            subject=min(texts),
        )


def _clusters(questions: Sequence[Question]) -> list[list[int]]:
    """Numbers of questions, in clusters of those that share words; the largest first.

    Greedy: a question joins the first cluster whose first question shares enough words with it.
    """
    bags = [
        frozenset(word for word in words(question.text.casefold()) if word not in _STOP)
        for question in questions
    ]
    leaders: dict[str, list[int]] = defaultdict(list)
    clusters: dict[int, list[int]] = {}
    for number, bag in enumerate(bags):
        shared: dict[int, int] = defaultdict(int)
        for word in sorted(bag):
            for leader in leaders[word]:
                shared[leader] += 1
        close = [
            leader
            for leader, count in shared.items()
            if count >= max(1.0, _SHARED * min(len(bag), len(bags[leader])))
            and (count > 1 or min(len(bag), len(bags[leader])) == 1)
        ]
        if close:
            clusters[min(close)].append(number)
            continue
        clusters[number] = [number]
        for word in bag:
            leaders[word].append(number)
    return sorted(clusters.values(), key=lambda cluster: (-len(cluster), cluster))
