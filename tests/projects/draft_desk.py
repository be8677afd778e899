"""Records in a real index, and drafts from them by scripted servers over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragwright.answer import DraftOptions
from ragwright.core import Chunk, Document, Span
from ragwright.drafting import DraftBatch, DraftPlan, DraftRequest, draft
from ragwright.flow import Forecast, Lookup, Replies, Runner, Search, TraceEntry
from ragwright.index import IndexedDocument, IndexSpec, SqliteStore, ViewHandler, Views
from ragwright.models import Analyzer, AnalyzerOptions, Models, ModelSettings, model_handlers
from ragwright.records import Rollups, load_shipped_format
from ragwright.retrieve import Target
from ragwright.testing import ScriptedServer

FORMAT = load_shipped_format()
CLIENTS = ("Jane Doe", "Rosa Lima", "Tom Ash")
ASKS = ("donation", "volunteer")
TOPICS = ("health care", "schools", "taxes")
TONES = ("urgent", "hopeful")
ROLLUPS = Rollups(
    names={"Jane Doe": ("DOE, JANE", "Jane for Congress")},
    biographies={"Jane Doe": "Jane Doe is a nurse of 20 years.", "Rosa Lima": "A teacher."},
)
WORDS = [
    *("river", "lamp", "orchard", "violin", "copper", "meadow"),
    *("harbour", "lantern", "thistle", "marble", "saddle", "walnut"),
]


def record(number: int, **more: Any) -> Document:
    """A record: what it is about goes round, its text is of words of its own."""
    chance = np.random.default_rng(number)
    text = f"Friend {number}, " + " ".join(chance.choice(WORDS, 6)) + f" code{number}x."
    fields: dict[str, Any] = {
        "client": CLIENTS[number % 3],
        "ask_type": ASKS[number % 2],
        "topic": tuple(t for at, t in enumerate(TOPICS) if number % (at + 2) == 0),
        "tone": (TONES[number % 2],),
        "length": "short",
        "text": text,
        **more,
    }
    metadata = {key: value for key, value in fields.items() if key != "text" and value}
    metadata |= {"kind": "record", "message_at": FORMAT.message_at(fields)}
    return Document(f"record:{number}", f"records:{number}", FORMAT.fill(fields), metadata=metadata)


def name(server: ScriptedServer, model: str = "scripted") -> str:
    """A model of a scripted server, as it stands in settings."""
    return f"{server.url}#{model}"


class Desk:
    """An index of records and a runner; a context manager. ``vectors``: random ones."""

    def __init__(
        self,
        folder: Path,
        documents: Sequence[Document],
        settings: dict[str, ModelSettings] | None = None,
        *,
        vectors: bool = False,
    ) -> None:
        self.analyzer = Analyzer(AnalyzerOptions())
        self.index_spec = IndexSpec(
            "whole", self.analyzer.spec, "own" if vectors else "", 8 if vectors else 0
        )
        self.store = SqliteStore(folder / "store.sqlite")
        rows = np.random.default_rng(3).standard_normal((len(documents), 8), np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        batch = []
        for document, row in zip(documents, rows, strict=True):
            end = len(document.text)
            chunk = Chunk(f"{document.id}:0-{end}", document.id, 0, Span(0, end), document.text)
            own = row[None, :] if vectors else None
            batch.append(IndexedDocument(document, (chunk,), own))
        self.store.upsert(self.index_spec, batch)
        self.views = Views(self.store)
        self.models = Models(settings or {})
        self.replies = Replies(folder / "replies.sqlite")
        view = ViewHandler(self.views)
        routes = {**model_handlers(self.models), Search: view, Lookup: view}
        self.runner = Runner(routes, replies=self.replies)
        snapshot = self.views.snapshot(self.index_spec)
        size = self.index_spec.dimensions
        self.target = Target(snapshot, dimensions=size, analyzer=self.analyzer)

    def __enter__(self) -> Desk:
        return self

    def __exit__(self, *_: object) -> None:
        self.runner.close()
        self.replies.close()
        self.views.close()
        self.store.close()

    def draft(
        self, request: DraftRequest, plan: DraftPlan, trace: list[TraceEntry] | None = None
    ) -> DraftBatch:
        return self.runner.run(draft(request, self.target, plan), trace=trace)

    def forecast(self, request: DraftRequest, plan: DraftPlan) -> Forecast:
        return self.runner.forecast([lambda: draft(request, self.target, plan)])


def plan_of(*models: str, **options: Any) -> DraftPlan:
    """A plan for some models: few examples, short lists."""
    chosen = replace(DraftOptions(examples=4, pool=8), **options)
    return DraftPlan(chosen, models, FORMAT, ROLLUPS)


def a_desk(count: int, more: Sequence[Document] = (), /, **settings: ModelSettings) -> Any:
    """A fixture of a module: a desk of so many records, other documents, and models."""

    def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
        folder = tmp_path_factory.mktemp("desk")
        with Desk(folder, [*map(record, range(count)), *more], settings) as made:
            yield made

    return pytest.fixture(scope="module")(desk)


def priced_desk(folder: Path, server: ScriptedServer, count: int = 30, **more: Any) -> Desk:
    """Records, and the server as provider ``s``: two calls at once, 0.1 for 1,000 tokens."""
    priced = ModelSettings(base=server.url, price_in=100.0, price_out=100.0, concurrency=2)
    return Desk(folder, [record(n, **more) for n in range(count)], {"s": priced})


def texts_of(batch: DraftBatch) -> list[str]:
    return [text.text for text in batch.texts]


class Writing:
    """A desk and a server that writes for it, whatever it is told to play."""

    def __init__(self, desk: Desk, server: ScriptedServer) -> None:
        self.desk, self.server = desk, server

    def __call__(
        self, request: DraftRequest, script: Any = None, *models: str, **options: Any
    ) -> DraftBatch:
        """What a request comes to: a script to play from now on, models of the server, options."""
        if script is not None:
            self.server.play(script)
        return self.desk.draft(request, self.plan(*models, **options))

    def plan(self, *models: str, **options: Any) -> DraftPlan:
        """A plan for models of the server, or others where their name has a colon."""
        named = (one if ":" in one else name(self.server, one) for one in models or ("scripted",))
        return plan_of(*named, **options)


@pytest.fixture
def writing(desk: Desk) -> Iterator[Writing]:
    """The module's desk, and a server of the test's own."""
    with ScriptedServer("") as server:
        yield Writing(desk, server)
