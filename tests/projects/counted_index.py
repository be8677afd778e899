"""A small index on the real store, whose embedder counts words: retrieval through a runner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ragwright.core import Chunk, Document, Span
from ragwright.flow import BatchHandler, Embed, EmbedReply, Lookup, RetryPolicy, Runner, Search
from ragwright.index import IndexedDocument, IndexSpec, StoreOptions, ViewHandler, Views, open_store
from ragwright.models import Analyzer, WordTokenizer
from ragwright.retrieve import Candidates, Retrieved, RetrieveOptions, Target, candidates, retrieve


class Own(BatchHandler[Any, Any]):
    """Whatever answers requests: what it is asked is kept."""

    def __init__(self, say: Callable[[Any], Any]) -> None:
        self.say = say
        self.asked: list[Any] = []

    def durable(self, request: Any) -> bool:
        return False

    def reply_to(self, requests: Sequence[Any]) -> Sequence[Any]:
        self.asked += requests
        return [self.say(request) for request in requests]


class CountedIndex:
    """The index, open."""

    def __init__(
        self,
        folder: Path,
        texts: Mapping[str, tuple[Sequence[str], Mapping[str, Any]]],
        words: Sequence[str],
        base: float = 0.5,
    ) -> None:
        self.words, self.base = words, base
        self.vector: Any = None
        self.store = open_store(StoreOptions(), folder)
        self.spec = IndexSpec("whole", Analyzer().spec, "counts", len(words) + 1)
        items = [self._item(name, chunks, facts) for name, (chunks, facts) in texts.items()]
        self.store.upsert(self.spec, items)
        self.views = Views(self.store)
        self.target = Target(
            self.store.snapshot(self.spec),
            "counts",
            len(words) + 1,
            analyzer=Analyzer(),
            tokenizer=WordTokenizer(),
        )
        self.search = Own(lambda request: ViewHandler(self.views).reply_to([request])[0])
        self.embedder = Own(self._embedded)

    def vectors(self, texts: Sequence[str]) -> Any:
        rows = [[self.base, *(text.lower().count(word) for word in self.words)] for text in texts]
        found = np.array(rows, np.float32)
        return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), np.float32)

    def similarity(self, one: str, other: str) -> float:
        return float(np.dot(*self.vectors([one, other])))

    def run(self, flow: Any, more: Mapping[type, Any] | None = None) -> Any:
        """The result of a flow; ``more`` handlers stand in for those of the index."""
        usual = {Search: self.search, Lookup: self.search, Embed: self.embedder}
        with Runner({**usual, **(more or {})}, retry=RetryPolicy(attempts=1)) as runner:
            return runner.run(flow)

    def candidates(self, query: Any, /, **settings: Any) -> Candidates:
        made: Candidates = self.run(candidates(query, self.target, RetrieveOptions(**settings)))
        return made

    def ask(
        self, question: str, more: Mapping[type, Any] | None = None, /, **settings: Any
    ) -> Retrieved:
        """A search; settings that are fields of a target change the target."""
        fields = ("glossary", "stages", "model", "dimensions", "similarity")
        changes = {name: settings.pop(name) for name in fields if name in settings}
        target = replace(self.target, **changes)
        made: Retrieved = self.run(retrieve(question, target, RetrieveOptions(**settings)), more)
        return made

    def close(self) -> None:
        self.views.close()
        self.store.close()

    def _item(self, name: str, parts: Sequence[str], facts: Mapping[str, Any]) -> IndexedDocument:
        text, chunks = " ".join(parts), list[Chunk]()
        for number, part in enumerate(parts):
            start = chunks[-1].span.end if chunks else 0
            span = Span(start, min(start + len(part) + 1, len(text)))
            key = f"{name}:{span.start}-{span.end}" if len(parts) > 1 else name
            chunks.append(Chunk(key, name, number, span, text[span.start : span.end]))
        document = Document(name, f"{name}.txt", text, name.title(), metadata=facts)
        return IndexedDocument(document, tuple(chunks), self.vectors([c.text for c in chunks]))

    def _embedded(self, request: Embed) -> EmbedReply:
        if self.vector is not None:
            return EmbedReply(np.array([self.vector], np.float32))
        return EmbedReply(self.vectors(request.texts))
