"""A glossary mined from a corpus: coverage, correctness, and its effect on dense search.

    python -m benchmarks.glossary

The tasks are those of :mod:`benchmarks.codes`. *Coverage* is the share of the key's codes that
get a meaning; the key of msvc is in front matter that is not indexed, and names codes that no
page explains. A meaning is *right* where its document is one that the key gives for the code
(msvc), or for code and printer together (prusa, the printer named in the query), or where it
says what the heading of such a page says (F1 of words at least one half): without headings
meanings come from the rows of lists. Since most codes of msvc are explained twice, on their
page and in a row, those two are compared by the same F1.

Dense search alone (MiniLM, exact): the query as asked, with its code replaced by the meaning's
words beside it, and both rankings fused in equal parts. Nothing was tuned on the queries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.codes import Task, msvc, prusa
from benchmarks.multihop import MiniLm
from benchmarks.vectors import Matrix, vectors
from ragwright.core import Chunk, Span
from ragwright.flow import Embed
from ragwright.index import embedded_text
from ragwright.models import words
from ragwright.retrieve import Glossary, mine_glossary, rrf

DEPTH = 100


def right(task: Task, glossary: Glossary, reference: Glossary) -> str:
    """Coverage over the task's queries, and whose meanings come from a gold document."""
    covered, correct = 0, 0
    for query, gold in task.gold.items():
        used = glossary.expand(query, 1).used
        covered += bool(used)
        if used:
            term, meaning = used[0]
            accepted = [m.text for m in reference.entries.get(term, ()) if m.document_id in gold]
            alike = any(overlap(meaning.text, text) >= 0.5 for text in accepted)
            correct += alike or meaning.document_id in gold
    share = f"{correct / covered:.3f}" if covered else "none"
    return f"coverage {covered / len(task.gold):.3f}, of these right {share}  n={len(task.gold)}"


def agreement(glossary: Glossary) -> str:
    """How often two places that explain one code do so in the same words."""
    alike, both = 0, 0
    for meanings in glossary.entries.values():
        places = {meaning.rule: meaning.text for meaning in meanings}
        if {"heading", "row"} <= set(places):
            both += 1
            alike += overlap(places["heading"], places["row"]) >= 0.5
    return f"{alike / both:.3f} of {both} codes" if both else "no code is explained twice"


def overlap(first: str, second: str) -> float:
    """F1 of the words of two texts, in small letters."""
    a, b = (Counter(word.casefold() for word in words(text)) for text in (first, second))
    same = sum((a & b).values())
    return 2 * same / (a.total() + b.total()) if same else 0.0


def dense(task: Task, glossary: Glossary, embedder: MiniLm) -> Mapping[str, Sequence[float]]:
    """Whether a gold document is first, and among the first five, by way of asking."""
    ids = [document.id for document in task.documents if document.text]
    texts = [
        embedded_text(
            Chunk("", document.id, 0, Span(0, len(document.text)), document.text), document.title
        )
        for document in task.documents
        if document.text
    ]
    matrix = vectors(task.cache, texts)
    first: dict[str, list[float]] = {"as asked": [], "with meanings": [], "both fused": []}
    five: dict[str, list[float]] = {name: [] for name in first}
    for query, gold in task.gold.items():
        plain = _ranking(matrix, ids, query, embedder)
        meant = [_ranking(matrix, ids, text, embedder) for text in glossary.expand(query).texts]
        fused = _fused(meant) if meant else plain
        for name, ranking in (
            ("as asked", plain),
            ("with meanings", fused),
            ("both fused", _fused([plain, fused])),
        ):
            first[name].append(float(ranking[0] in gold))
            five[name].append(float(bool(gold.intersection(ranking[:5]))))
    return {name: (float(np.mean(first[name])), float(np.mean(five[name]))) for name in first}


def _ranking(matrix: Matrix, ids: Sequence[str], text: str, embedder: MiniLm) -> list[str]:
    scores = np.round(matrix @ embedder.carry([Embed("minilm", (text,))])[0].vectors[0], 6)
    return [ids[i] for i in np.argsort(-scores, kind="stable")[:DEPTH]]


def _fused(rankings: Sequence[list[str]]) -> list[str]:
    return rankings[0] if len(rankings) == 1 else [key for key, _ in rrf(rankings)]


def main() -> None:
    """Every task in turn."""
    embedder = MiniLm()
    pages = mine_glossary(msvc()[0].documents)
    for task in (*msvc(), *msvc(headings=False), prusa()):
        glossary = mine_glossary(task.documents)
        rules = Counter(meanings[0].rule for meanings in glossary.entries.values())
        print(f"\n{task.name}: {len(task.documents)} documents, {len(glossary.entries)} terms")
        print(f"  best place: {', '.join(f'{rule} {n}' for rule, n in rules.most_common())}")
        print(f"  {right(task, glossary, pages)}")
        print(f"  two places agree: {agreement(glossary)}")
        for name, (first, among) in dense(task, glossary, embedder).items():
            print(f"  dense, {name:14} hit@1 {first:.3f}  hit@5 {among:.3f}")
        embedder.save()


if __name__ == "__main__":
    main()
