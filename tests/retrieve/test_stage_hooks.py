"""Between the stages of a search: what is seen there, and that looking on changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ragwright.core import Hit
from ragwright.flow import (
    BatchHandler,
    Lookup,
    LookupReply,
    Rerank,
    RerankReply,
    Runner,
    Search,
    SearchReply,
)
from ragwright.retrieve import (
    RerankOptions,
    Retrieved,
    RetrieveOptions,
    StageHooks,
    Target,
    retrieve,
)

CHUNKS = tuple(f"d{n}:0-9" for n in range(6))


class Index(BatchHandler[Any, Any]):
    """Six chunks, found in their order; the reranker turns it round."""

    def durable(self, request: Any) -> bool:
        return False

    def reply_to(self, requests: Sequence[Any]) -> Sequence[Any]:
        return [self.reply(request) for request in requests]

    def reply(self, request: Any) -> Any:
        if isinstance(request, Lookup):
            return LookupReply(tuple(hit(key) for key in request.chunk_ids))
        if isinstance(request, Rerank):
            return RerankReply(tuple(float(n) for n in range(len(request.passages))))
        found = [(key, 9.0 - at) for at, key in enumerate(CHUNKS)]
        return SearchReply(tuple(found[: request.k]))


def hit(key: str) -> Hit:
    name = key.split(":")[0]
    return Hit(0, 0.0, name, key, name, name, None, 0, 9, f"text {name}")


class Looking(StageHooks):
    depth = 5

    def __init__(self) -> None:
        self.seen: list[tuple[str, list[str]]] = []

    def note(self, stage: str, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        self.seen.append((stage, [one.document_id for one in hits]))
        return hits

    def pooled(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        return self.note("pooled", hits)

    def ordered(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        return self.note("ordered", hits)

    def kept(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
        return self.note("kept", hits)


def found(options: RetrieveOptions, between: StageHooks | None = None) -> Retrieved:
    index = Index()
    with Runner({Search: index, Lookup: index, Rerank: index}) as runner:
        return runner.run(retrieve("words", Target("s1"), options, between))


def test_looking_on_sees_every_stage_and_changes_nothing() -> None:
    options = RetrieveOptions(top_k=2, rerank=RerankOptions("st:any", candidates=3))
    looking = Looking()
    assert found(options, looking) == found(options)
    assert looking.seen == [
        ("pooled", ["d0", "d1", "d2", "d3", "d4"]),
        ("ordered", ["d2", "d1", "d0", "d3", "d4"]),  # the model is shown three of them
        ("kept", ["d2", "d1"]),
    ]


def test_what_is_put_in_between_goes_on_to_the_next_stage() -> None:
    class Adding(StageHooks):
        def pooled(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
            return (replace(hit("own:0-9"), rank=1, score=10.0), *hits)

        def kept(self, hits: tuple[Hit, ...]) -> tuple[Hit, ...]:
            return (*hits, hit("late:0-9"))

    plain = found(RetrieveOptions(top_k=2), Adding())
    assert plain.document_ids == ("own", "d0", "late")
    options = RetrieveOptions(top_k=2, rerank=RerankOptions("st:any", candidates=3))
    assert found(options, Adding()).document_ids == ("d1", "d0", "late")
