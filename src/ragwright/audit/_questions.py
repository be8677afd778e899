"""Questions of an audit, and what the search finds for each: served, of a test set, of documents.

A document's own question on a chunk is its heading and its first telling sentence: the easiest
question there is on it. Where even that does not find the chunk, a reader's question will not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeAlias

from ..core import Hit, Row, text_hash
from ..drafting import OutputQuery, project_outputs
from ..flow import Flow
from ..project import Project
from ..retrieve import RetrieveOptions, Target, retrieve
from ..testsets import project_testset
from ._records import Place
from ._text import lines_of, plain_words, statements_of

Origin: TypeAlias = Literal["testset", "served", "own"]

_WORDS = 24
"""Words of a document's own question."""
_TELLING = 6
"""Words of the shortest sentence that one is made from."""
_SERVED = 2_000
"""Most served questions that are asked again, the newest."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and the chunk or row that it comes from."""

    text: str
    origin: Origin
    chunk: tuple[str, int, int] | None = None
    row: Row | None = None
    abstained: bool = False


@dataclass(frozen=True, slots=True)
class Searched:
    """A question with its hits, best first."""

    question: Question
    hits: tuple[Hit, ...]


class Results:
    """The questions of an audit with their hits, found by the place of a hit.

    Attributes:
        searched: Questions with their hits.
        first: Hits that an answer is written from (``retrieve.top_k``).
    """

    def __init__(self, searched: Sequence[Searched], first: int) -> None:
        self.searched, self.first = searched, first
        self._at: dict[str, list[tuple[int, int, int, int]]] = defaultdict(list)
        for number, result in enumerate(searched):
            for rank, hit in enumerate(result.hits):
                self._at[hit.document_id].append((hit.start, hit.end, number, rank))

    def of(self, origin: Origin) -> list[int]:
        """Numbers of the questions of an origin."""
        return [n for n, result in enumerate(self.searched) if result.question.origin == origin]

    def touching(self, place: Place, depth: int) -> set[int]:
        """Numbers of the questions of which one of the first hits overlaps a place."""
        return {
            number
            for start, end, number, rank in self._at.get(place.document_id, ())
            if rank < depth and start < place.end and place.start < end
        }

    def reached(self, chunk: tuple[str, int, int]) -> bool:
        """True if any question finds the chunk."""
        document, start, end = chunk
        return any(a == start and b == end for a, b, *_ in self._at.get(document, ()))


def search_questions(project: Project, questions: Sequence[Question], depth: int) -> Results:
    """Ask every question by search alone; no model rewrites it or answers."""
    flows = (make() for make in searches(project, questions, depth))
    first = min(project.settings.retrieve.top_k, depth)
    return Results(list(project.runner.map(flows)), first)


def searches(
    project: Project, questions: Sequence[Question], depth: int
) -> list[Callable[[], Flow[Searched]]]:
    """Makers of the flows that search for each question."""
    settings = project.settings.retrieve
    options = replace(
        settings,
        query=type(settings.query)(),
        iterate=type(settings.iterate)(),
        top_k=depth,
        context_tokens=None,
    )
    target = project.target()
    return [partial(_searched, question, target, options) for question in questions]


def _searched(question: Question, target: Target, options: RetrieveOptions) -> Flow[Searched]:
    retrieved = yield from retrieve(question.text, target, options)
    hits = tuple(replace(hit, text="", channels={}) for hit in retrieved.hits)
    return Searched(question, hits)


def testset_questions(project: Project, address: str) -> list[Question]:
    """Questions of a test set, each text once."""
    rows: Mapping[str, Row] = {
        row.user_input: row
        for row in project_testset(project.folder, address, purpose="audit").rows
    }
    return [Question(text, "testset", row=row) for text, row in rows.items()]


def served_questions(project: Project) -> list[Question]:
    """Questions that people asked, the newest first; those of tenants are left out."""
    questions: dict[str, Question] = {}
    query = OutputQuery(kind="text")
    for output in project_outputs(project).find(query, limit=20 * _SERVED, newest=True):
        text = output.request.get("question")
        if isinstance(text, str) and text.strip() and text not in questions:
            abstained = output.details.get("abstained") is True
            questions[text] = Question(text, "served", abstained=abstained)
            if len(questions) >= _SERVED:
                break
    return list(questions.values())


def own_questions(project: Project, documents: int, most: int, seed: int) -> list[Question]:
    """Questions of the documents on their own chunks, spread evenly and chosen by the seed."""
    if not most or not documents:
        return []
    chosen: list[tuple[str, Question]] = []
    share = -(-most // documents)
    with project.store.reading(project.pair) as state:
        for document in state.documents():
            rank = text_hash(f"{seed}\x00{document.id}")
            if documents > most and int(rank[:8], 16) > 2**32 * 1.2 * most / documents:
                continue
            spans = [(chunk.start, chunk.end, chunk.headings) for chunk in document.chunks]
            spans.sort(key=lambda span: text_hash(f"{seed}\x00{document.id}\x00{span[0]}"))
            texts = _texts_on(document.text, document.language, document.title, spans)
            for number, (start, end, text) in enumerate(texts):
                if number == share:
                    break
                chosen.append((rank, Question(text, "own", (document.id, start, end))))
    chosen.sort(key=lambda pair: pair[0])
    return [question for _, question in chosen[:most]]


def _texts_on(
    text: str, language: str, title: str, spans: Iterable[tuple[int, int, tuple[str, ...]]]
) -> Iterator[tuple[int, int, str]]:
    """A question on each chunk that has a telling sentence: the chunk, and its text."""
    for start, end, headings in spans:
        lines = list(lines_of(text[start:end]))
        for _, _, sentence in statements_of(lines, language):
            plain = plain_words(sentence).split()
            if len(plain) >= _TELLING:
                head = headings[-1] if headings else title
                yield start, end, " ".join([head, *plain[:_WORDS]])
                break
