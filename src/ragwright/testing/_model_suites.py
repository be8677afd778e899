"""What every embedder must do, as tests that a plug-in inherits."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from ..core import Chunk, Document, Page, Section, Span
from ..flow import (
    BatchHandler,
    Chat,
    ChatReply,
    Embed,
    EmbedReply,
    HandlerSource,
    Lookup,
    Message,
    Search,
)
from ..index import (
    IndexedDocument,
    IndexSpec,
    StoreOptions,
    ViewHandler,
    Views,
    chunk_key,
    open_store,
)
from ..ingest import Chunker, check_spans
from ..models import Analyzer, ChatModel, Embedder, Reranker, embed_texts
from ..retrieve import Target

TEXTS = (
    "The cat sat on the mat.",
    "A kitten was sitting on the rug.",
    "Quarterly revenue rose by four per cent.",
    "Les résultats trimestriels ont progressé de quatre pour cent.",
    "error_code APP_w304",
    "x",
    "  spaces   and\nlines ",
    "",
)


class EmbedderSuite:
    """Inherit it and say how to make the embedder.

    For example::

        class TestMine(EmbedderSuite):
            def make(self) -> Embedder:
                return MyEmbedder()

    Attributes:
        tolerance: Largest difference between the vectors of one text alone and among others;
            0 asks for equal bytes.
        semantic: The model is expected to put paraphrases nearer than other subjects.
    """

    tolerance: float = 0.0
    semantic: bool = True

    def make(self) -> Embedder:
        """A fresh embedder, or a shared one."""
        raise NotImplementedError("return the embedder under test")

    def test_vectors_have_the_stated_shape_and_are_finite(self) -> None:
        """Vectors are float32: one row for each text, ``dimensions`` columns."""
        embedder = self.make()
        vectors = embedder.embed_batch(TEXTS)
        assert vectors.dtype == np.float32
        assert vectors.shape == (len(TEXTS), embedder.dimensions)
        assert np.isfinite(vectors).all()

    def test_no_texts_are_no_vectors(self) -> None:
        """An empty batch keeps its width."""
        embedder = self.make()
        assert embedder.embed_batch([]).shape == (0, embedder.dimensions)

    def test_a_vector_does_not_depend_on_its_neighbours(self) -> None:
        """A vector is the same alone, in a batch and in another order, within ``tolerance``."""
        embedder = self.make()
        together = embedder.embed_batch(TEXTS)
        backwards = embedder.embed_batch(TEXTS[::-1])[::-1]
        alone = np.concatenate([embedder.embed_batch([text]) for text in TEXTS])
        for other in (backwards, alone):
            if self.tolerance == 0:
                assert together.tobytes() == other.tobytes()
            else:
                assert float(np.abs(together - other).max()) <= self.tolerance

    def test_equal_texts_have_equal_vectors(self) -> None:
        """Equal texts in one batch have equal vectors."""
        embedder = self.make()
        first, second = embedder.embed_batch([TEXTS[0], TEXTS[0]])
        assert float(np.abs(first - second).max()) <= self.tolerance

    def test_the_identity_is_stable(self) -> None:
        """Two openings of one model have one name."""
        assert self.make().identity
        assert self.make().identity == self.make().identity

    def test_paraphrases_are_nearer_than_other_subjects(self) -> None:
        """A text is nearer to its paraphrase than to another text."""
        if not self.semantic:
            return
        cat, kitten, revenue = self.make().embed_batch(TEXTS[:3])
        assert float(cat @ kitten) > float(cat @ revenue)

    def test_the_tokenizer_counts_and_its_spans_are_in_the_text(self) -> None:
        """Token spans are in order, inside the text, and as many as are counted."""
        tokenizer = self.make().tokenizer()
        if tokenizer is None:
            return
        for text in TEXTS:
            spans = tokenizer.spans(text)
            assert tokenizer.count(text) == len(spans)
            assert all(0 <= s.start <= s.end <= len(text) for s in spans)
            assert [s.start for s in spans] == sorted(s.start for s in spans)

    def test_a_text_beyond_the_window_is_pooled_not_cut(self) -> None:
        """The end of a long text changes its vector."""
        embedder = self.make()
        if embedder.window is None or embedder.tokenizer() is None:
            return
        words = " ".join(["alpha beta gamma"] * embedder.window)
        plain, marked = embed_texts(embedder, [[words], [words + " and a submarine"]])
        assert isinstance(plain, np.ndarray)
        assert isinstance(marked, np.ndarray)
        assert not np.array_equal(plain, marked)


T = TypeVar("T")


def _ask(text: str) -> Chat:
    return Chat("suite:model", (Message("system", "Answer briefly."), Message("user", text)))


class ChatModelSuite:
    """Inherit it and say how to make the model; it makes about forty short calls.

    For example::

        class TestMine(ChatModelSuite):
            def make(self) -> ChatModel:
                return MyChatModel()
    """

    def make(self) -> ChatModel:
        """A model that no event loop has used yet."""
        raise NotImplementedError("return the chat model under test")

    def with_model(self, work: Callable[[ChatModel], Coroutine[Any, Any, T]]) -> T:
        """Run work on a loop of its own and close the model there."""

        async def main() -> T:
            model = self.make()
            try:
                return await work(model)
            finally:
                await model.aclose()

        return asyncio.run(main())

    def test_a_reply_is_text_with_its_usage(self) -> None:
        """A reply has text, counts one call, and invents neither counts nor a price."""
        reply = self.with_model(lambda model: model.chat(_ask("Say hello.")))
        assert isinstance(reply, ChatReply)
        assert isinstance(reply.text, str)
        assert reply.finish
        assert reply.usage.prompt_tokens >= 0
        assert reply.usage.completion_tokens >= 0
        assert not reply.cached

    def test_the_identity_is_stable(self) -> None:
        """Two instances of one model have one name."""
        assert self.make().identity
        assert self.make().identity == self.make().identity

    def test_deltas_add_up_to_the_reply(self) -> None:
        """A streaming model passes on exactly its text; any other passes on nothing."""
        deltas: list[str] = []
        reply = self.with_model(lambda model: model.chat(_ask("Count to five."), deltas.append))
        assert not deltas or "".join(deltas) == reply.text

    def test_many_calls_side_by_side(self) -> None:
        """Thirty requests at once all get a reply."""

        async def many(model: ChatModel) -> list[ChatReply]:
            return await asyncio.gather(*(model.chat(_ask(f"Say {i}.")) for i in range(30)))

        assert len(self.with_model(many)) == 30

    def test_a_cancelled_call_leaves_the_model_usable(self) -> None:
        """After a cancelled call the next one is answered."""

        async def work(model: ChatModel) -> ChatReply:
            task = asyncio.ensure_future(model.chat(_ask("Tell a long story.")))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return await model.chat(_ask("Say hello."))

        assert isinstance(self.with_model(work), ChatReply)

    def test_closing_twice_is_harmless(self) -> None:
        """Closing twice is safe: runners and owners may both close."""

        async def work(model: ChatModel) -> None:
            await model.chat(_ask("Say hello."))
            await model.aclose()

        self.with_model(work)


_ALPHABET = (
    "a", "b", "Z", "7", "é", "ß", "漢", "字", "。", "🙂", "👩‍🔬", "e\u0301", "\u00a0", "\u200d",
    " ", " ", " ", "  ", "\n", "\n", "\n\n", "\n \n", "\t", "\f", ".", ". ", "? ", "!", ",",
    "(", ")", "'", '"', "-", "_", "APP_w304", "C2065", "word", "mot ", "l'eau ", "# ", "|",
)  # fmt: skip
"""Pieces that random texts are made of: the borders, scripts and marks that chunkers meet."""


class ChunkerSuite:
    """Tests that every chunker passes; subclass it and offer one fixture.

    .. code-block:: python

        class TestMine(ChunkerSuite):
            @pytest.fixture
            def chunker(self) -> Chunker:
                return MyChunker()
    """

    @pytest.fixture
    def chunker(self) -> Chunker:
        """The chunker under test."""
        raise NotImplementedError("offer a fixture named chunker")

    def test_spans_cover_random_texts_and_join_to_them(self, chunker: Chunker) -> None:
        """Spans are sorted, not empty, without gaps; joined without overlaps they are the text."""
        for document in map(random_document, range(50)):
            spans = chunker.cut(document)
            check_spans(document, spans)
            assert join_pieces(document.text, spans) == document.text, document.id

    def test_odd_texts_are_covered(self, chunker: Chunker) -> None:
        """White space, marks and single characters belong to some span as well."""
        for text in (" ", "\n", "x", "\n\n \n", "...", "a\n\n\nb", "é" * 300):
            document = Document(id=f"odd {text!r}", source="odd", text=text)
            check_spans(document, chunker.cut(document))

    def test_an_empty_text_has_no_span(self, chunker: Chunker) -> None:
        """An empty text has no chunks."""
        assert list(chunker.cut(Document(id="empty", source="empty", text=""))) == []

    def test_cutting_twice_gives_the_same(self, chunker: Chunker) -> None:
        """Cutting twice gives the same spans, because a chunk's id is its place."""
        for document in map(random_document, range(5)):
            assert chunker.cut(document) == chunker.cut(document)

    def test_chunks_are_their_spans(self, chunker: Chunker) -> None:
        """Text, order, ids and counts of the chunks follow from the spans."""
        document = random_document(0)
        chunks = chunker.chunks(document)
        assert [chunk.span for chunk in chunks] == list(chunker.cut(document))
        assert [chunk.ordinal for chunk in chunks] == list(range(len(chunks)))
        assert len({chunk.id for chunk in chunks}) == len(chunks)
        for chunk in chunks:
            assert chunk.text == document.text[chunk.span.start : chunk.span.end]
            assert chunk.document_id == document.id
            assert chunk.tokens >= 0

    def test_it_says_what_it_does(self, chunker: Chunker) -> None:
        """The spec is part of the index's identity."""
        assert isinstance(chunker.spec, str)
        assert chunker.spec.strip()


def join_pieces(text: str, spans: list[Span]) -> str:
    """The text joined from its pieces again, with overlaps taken once."""
    parts, end = [], 0
    for span in spans:
        parts.append(text[max(span.start, end) : span.end])
        end = max(end, span.end)
    return "".join(parts)


def random_document(seed: int) -> Document:
    """A document of random unicode with pages and nested sections, by seed."""
    draw = random.Random(seed)  # noqa: S311 - repeatable texts, no secrets
    text = "".join(draw.choices(_ALPHABET, k=draw.randint(1, 600)))
    size = len(text)
    borders = sorted({0, size, *(draw.randrange(size) for _ in range(draw.randrange(5)))})
    pairs = list(pairwise(borders))
    pages = tuple(Page(n, Span(a, b)) for n, (a, b) in enumerate(pairs, 1))
    sections = tuple(
        Section(f"Part {n}", 1 + n % 2, Span(a, b)) for n, (a, b) in enumerate(pairs[1:], 1)
    )
    return Document(id=f"random-{seed}", source="", text=text, pages=pages, sections=sections)


_DIMENSIONS = 24
_VOCABULARY = (
    "engine torque APP_w304 brake café naïve straße 漢字 valve pump filter oil pressure sensor "
    "cable fuse relay battery charge voltage current lamp mirror door window seat belt airbag "
    "the of and running runs C2065 LNK2019 x-ray 3.5mm Übertragung 🙂 gear clutch"
)
WORDS = _VOCABULARY.split()
"""Words that documents are made of."""

PAIR = IndexSpec("windows/1 {}", Analyzer().spec, "suite-embedder", _DIMENSIONS)
"""The index spec that most tests write under."""

PLAIN = replace(PAIR, chunker="windows/2 {}", embedder="", dimensions=0)
"""An index spec without vectors."""


def make_document(number: int, *, words: int = 60, seed: int = 7, **changes: Any) -> Document:
    """A document of random words, the same on every call."""
    rng = random.Random(f"{seed} {number}")  # noqa: S311
    text = " ".join(rng.choice(WORDS) for _ in range(words))
    document = Document(
        id=f"doc/{number:04d}",
        source=f"memory:{number}",
        text=text,
        title=f"Manual {WORDS[number % len(WORDS)]}",
        language=("en", "de", "fr")[number % 3],
        created=f"20{number % 30:02d}-05-0{number % 9 + 1}",
        pages=(Page(1, Span(0, len(text) // 2)), Page(2, Span(len(text) // 2, len(text)))),
        sections=(Section(f"Part {number % 4}", 1, Span(0, len(text))),),
        metadata={
            "client": f"client {number % 5}",
            "year": 2000 + number % 30,
            "score": number / 4,
            "public": number % 2 == 0,
            "topics": tuple(sorted({f"t{number % 3}", f"t{number % 7}"})),
        },
    )
    return replace(document, **changes)


def make_indexed(document: Document, spec: IndexSpec = PAIR, size: int = 120) -> IndexedDocument:
    """The document cut into pieces of ``size`` characters, with a vector for each."""
    chunks = []
    for ordinal, start in enumerate(range(0, len(document.text), size)):
        span = Span(start, min(start + size, len(document.text)))
        chunks.append(
            Chunk(
                id=f"{document.id}:{span.start}-{span.end}",
                document_id=document.id,
                ordinal=ordinal,
                span=span,
                text=document.text[span.start : span.end],
                page=document.page_at(start),
                pages=tuple(
                    (page.span.start, page.number)
                    for page in document.pages
                    if span.start < page.span.start < span.end
                ),
                headings=document.headings_at(start),
                metadata={"half": "first"} if start == 0 else {},
            )
        )
    if not spec.dimensions:
        return IndexedDocument(document, tuple(chunks))
    vectors = [make_vector(chunk_key(chunk, document.title), spec.dimensions) for chunk in chunks]
    matrix = np.stack(vectors) if vectors else np.empty((0, spec.dimensions), np.float32)
    return IndexedDocument(document, tuple(chunks), matrix)


def make_vector(name: str, dimensions: int = _DIMENSIONS) -> np.ndarray[Any, np.dtype[np.float32]]:
    """A normalised random vector, the same for the same name."""
    rng = np.random.default_rng(list(name.encode("utf-8", "surrogatepass")))
    vector = rng.standard_normal(dimensions)
    return np.asarray(vector / np.linalg.norm(vector), np.float32)


QUERY = "How is the oil pressure sensor replaced?"

PASSAGES = (
    "To replace the oil pressure sensor, drain the oil and unscrew the sensor.",
    "The orchestra played until midnight.",
    "Le capteur de pression d'huile se trouve à gauche du moteur.",
    "error_code APP_w304 🙂 漢字 e\u0301cran \u202eabc",
    "x",
    "  spaces   and\nlines ",
    "",
)
"""An answer, another subject, another language, codes and marks, and hardly anything."""


class RerankerSuite:
    """Inherit it and say how to make the reranker.

    For example::

        class TestMine(RerankerSuite):
            def make(self) -> Reranker:
                return MyReranker()

    Attributes:
        tolerance: Largest difference between two scores of one passage; 0 asks for equal ones.
        pointwise: A passage's score does not depend on the other passages and their order; off
            for models that read a list.
        semantic: The model is expected to put an answer before another subject.
        query: What is asked.
    """

    tolerance: float = 0.0
    pointwise: bool = True
    semantic: bool = True
    query: str = QUERY

    def make(self) -> Reranker:
        """A fresh reranker, or a shared one."""
        raise NotImplementedError("return the reranker under test")

    def _scores(self, passages: Sequence[str]) -> list[float]:
        return [float(score) for score in self.make().score(self.query, passages)]

    def _same(self, scores: Sequence[float], other: Sequence[float]) -> bool:
        return len(scores) == len(other) and all(
            abs(a - b) <= self.tolerance for a, b in zip(scores, other, strict=True)
        )

    def test_every_passage_has_a_finite_score(self) -> None:
        """There is one score for each passage, in their order, also for empty and odd ones."""
        scores = self._scores(PASSAGES)
        assert len(scores) == len(PASSAGES)
        assert all(map(math.isfinite, scores))

    def test_no_passages_are_no_scores(self) -> None:
        """An empty list of passages gives no scores and no error."""
        assert self._scores([]) == []

    def test_scores_are_the_same_twice(self) -> None:
        """Scores repeat within ``tolerance``."""
        assert self._same(self._scores(PASSAGES), self._scores(PASSAGES))

    def test_a_score_does_not_depend_on_its_neighbours(self) -> None:
        """A score is the same alone, in a batch and in reverse order, if the model is
        ``pointwise``.
        """
        if not self.pointwise:
            pytest.skip("the model reads a list")
        together = self._scores(PASSAGES)
        assert self._same(self._scores(PASSAGES[::-1])[::-1], together)
        assert self._same([self._scores([passage])[0] for passage in PASSAGES], together)

    def test_equal_passages_have_equal_scores(self) -> None:
        """Equal passages of a batch have equal scores, if the model is ``pointwise``."""
        if not self.pointwise:
            pytest.skip("the model reads a list")
        first, second = self._scores([PASSAGES[0], PASSAGES[0]])
        assert abs(first - second) <= self.tolerance

    def test_an_answer_is_put_before_another_subject(self) -> None:
        """The passage with the answer comes first, at any position of the list."""
        if not self.semantic:
            pytest.skip("the model is not expected to tell an answer from another subject")
        for passages in (PASSAGES[:2], PASSAGES[1::-1]):
            scores = dict(zip(passages, self._scores(passages), strict=True))
            assert scores[PASSAGES[0]] > scores[PASSAGES[1]]

    def test_a_long_passage_is_scored(self) -> None:
        """One of 5,000 words is neither refused nor does it spoil its neighbours."""
        long = " ".join(["The weather was fine."] * 1250)
        scores = self._scores([long, PASSAGES[0]])
        assert all(map(math.isfinite, scores))
        if self.pointwise:
            assert abs(scores[1] - self._scores([PASSAGES[0]])[0]) <= self.tolerance

    def test_the_identity_is_stable_and_the_scale_stated(self) -> None:
        """One model opened twice has one name, and says what its scores mean."""
        assert self.make().identity
        assert self.make().identity == self.make().identity
        assert self.make().scale.strip()


class _Vectors(BatchHandler[Embed, EmbedReply]):
    """An embedder that draws a vector by the text."""

    def durable(self, request: Embed) -> bool:
        """Nothing is stored."""
        return False

    def reply_to(self, requests: Sequence[Embed]) -> Sequence[EmbedReply]:
        """One random vector of length 1 a text."""
        return [EmbedReply(np.stack([make_vector(t) for t in r.texts])) for r in requests]


@contextmanager
def index_corpus(folder: Path) -> Iterator[tuple[dict[type, HandlerSource], Target]]:
    """Routes of a runner, and the target: the suite's forty documents in a store in ``folder``."""
    store = open_store(StoreOptions(), folder)
    views = Views(store)
    try:
        store.upsert(PAIR, [make_indexed(make_document(number)) for number in range(40)])
        handlers: dict[type, HandlerSource] = {
            Search: ViewHandler(views),
            Lookup: ViewHandler(views),
            Embed: _Vectors(),
        }
        name, width = PAIR.embedder, PAIR.dimensions
        yield (handlers, Target(store.snapshot(PAIR), name, width, analyzer=Analyzer()))
    finally:
        views.close()
        store.close()
