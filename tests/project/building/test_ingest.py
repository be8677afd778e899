"""Ingest: what is read, embedded, kept and removed, again and again, and what failures cost."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from raw_server import Raw, RawServer, raw_server
from small_project import MANUAL, MakeProject
from story_tools import playing
from waiting import skip_short_pauses

from ragwright import Session, Workbench
from ragwright.core import Document, ModelError, RagwrightError, Span
from ragwright.flow import FetchReply
from ragwright.ingest import Chunker, Failure, FetchBytes, FileReader, Reader
from ragwright.models import Embedder
from ragwright.testing import Reply, ScriptedServer, ServerRequest


@pytest.fixture
def make_project(tmp_path: Path) -> MakeProject:
    return MakeProject(tmp_path)


server = playing("ok")


class CountingEmbedder(Embedder):
    identity = "counting"
    dimensions = 26

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed_batch(self, texts: list[str]) -> np.ndarray:  # type: ignore[override]
        self.texts += texts
        rows = [[1 + t.lower().count(chr(97 + i)) for i in range(26)] for t in texts]
        made = np.array(rows, np.float32)
        return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), np.float32)


def opened(folder: Path, *overrides: str, embedder: Embedder | None = None) -> Workbench:
    bench = Workbench.open(folder, Session(overrides))
    if embedder is not None:
        bench.project.models.register("counting", embedder)
    return bench


def with_sources(folder: Path, sources: str) -> Path:
    (folder / "ragwright.yaml").write_text(f"sources: {sources}\n", "utf-8")
    return folder


def refuse(request: ServerRequest) -> Reply:
    return Reply(status=401, error="no key")


def test_added_changed_failed_moved_and_removed(make_project: MakeProject) -> None:
    folder = make_project()
    docs = folder / "docs"
    codes = docs / "codes.md"
    text = codes.read_text("utf-8")
    with opened(folder) as bench:
        first = bench.ingest()
        assert (first.counts.added, first.counts.chunks_added, first.failures) == (2, 2, ())
        (docs / "service.md").write_text(MANUAL + "\nMore.\n", "utf-8")
        (docs / "empty.md").write_bytes(b"")
        (docs / "broken.docx").write_bytes(b"PK\x03\x04 not a document")
        for _ in range(2):  # a fault is said again, not forgotten
            second = bench.ingest()
            assert second.counts.added == 0
            assert {Path(f.source).name for f in second.failures} == {"empty.md", "broken.docx"}
        (docs / "empty.md").unlink()
        (docs / "broken.docx").unlink()
        docs.rename(folder / "moved")
        report = bench.ingest(prune=True)
        assert (report.counts.removed, len(report.failures)) == (0, 1), "a source is not there"
        (folder / "moved").rename(docs)
        codes.write_bytes(b"")
        assert bench.ingest(prune=True).counts.removed == 0, "it cannot be read now"
        codes.unlink()
        third = bench.ingest()
        assert third.counts.removed == 0
        assert any("--prune" in note for note in third.notes)
        assert bench.retrieve("accelerator").hits  # nothing is removed unless asked
        pruned = bench.ingest(prune=True)
        assert (pruned.counts.removed, pruned.counts.unchanged) == (1, 1)
        assert not bench.retrieve("accelerator").hits
        codes.write_text(text, "utf-8")
        assert bench.ingest(docs).counts.added == 1
        codes.unlink()  # another spelling of a folder is the same source
        assert bench.ingest(f"{folder}/./docs/", prune=True).counts.removed == 1
        codes.write_text(text, "utf-8")
        bench.ingest()
    with_sources(folder, "[{source: docs/, exclude: ['codes.md']}]")
    with opened(folder) as bench:
        report = bench.ingest(prune=True)
        assert (report.counts.unchanged, report.counts.removed) == (1, 1)


def test_an_unchanged_file_is_not_read_again_and_its_warning_is_said_again(
    make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_project()
    (folder / "docs/frames.html").write_text("<p>One.<iframe src='x'></iframe>", "utf-8")
    (folder / "docs/broken.pdf").write_bytes(b"%PDF-1.4")
    read: list[str] = []
    original = FileReader.read_file

    def counting(self: FileReader, path: Path) -> Iterator[Document | Failure]:
        read.append(path.name)
        return original(self, path)

    monkeypatch.setattr(FileReader, "read_file", counting)
    monkeypatch.setattr("ragwright.project.building._feeds._RACY_NS", 0)
    with opened(folder) as bench:
        first = bench.ingest().as_dict()
        assert sorted(read) == ["broken.pdf", "codes.md", "frames.html", "service.md"]
        read.clear()
        again: dict[str, Any] = bench.ingest().as_dict()
        assert "frame" in str(first["warnings"])
        assert again["warnings"] == first["warnings"]
        assert again["documents"]["unchanged"] == 3
        assert read == ["broken.pdf"]  # a failure is tried again
        read.clear()
        (folder / "docs/codes.md").write_text("# New\n\nOther words.\n", "utf-8")
        assert bench.ingest().counts.changed == 1
        assert sorted(read) == ["broken.pdf", "codes.md"]


def test_known_texts_are_embedded_once(
    make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragwright.project.building._ingest._BATCH_CHUNKS", 4)
    texts = {f"{n:02}.txt": f"Text number {n % 5}.\n" for n in range(40)}
    folder = make_project("embed: {model: counting}\n", **texts)
    embedder = CountingEmbedder()
    with opened(folder, embedder=embedder) as bench:
        report = bench.ingest()
        assert (report.counts.added, report.embedded) == (40, 5), "in neighbouring batches too"
        assert sorted(embedder.texts) == [f"Text number {n}.\n" for n in range(5)]
        bench.ingest()
    with opened(folder, "chunk.by=whole", embedder=embedder) as bench:
        assert bench.ingest().counts.added == 40  # another pair is built …
    assert len(embedder.texts) == 5  # … from the vectors that are there


def test_an_empty_folder_is_no_failure_until_documents_were_in_it(
    make_project: MakeProject,
) -> None:
    folder = with_sources(make_project(), "[docs/, uploads/]")
    uploads = folder / "uploads"
    uploads.mkdir()
    (uploads / ".gitkeep").touch()
    with opened(folder) as bench:
        report = bench.ingest(prune=True)
        assert not report.failures
        assert [skipped.source for skipped in report.skipped] == ["uploads"]
        (uploads / "gears.md").write_text("# Gears\n\nFive forward gears.\n", "utf-8")
        assert bench.ingest().counts.added == 1
        (uploads / "gears.md").unlink()  # as where a disk is not there
        report = bench.ingest(prune=True)
        assert report.counts.removed == 0
        assert [failure.source for failure in report.failures] == ["uploads"]


class TwiceReader(Reader):
    name = "twice"

    def accepts(self, source: str) -> bool:
        return True

    def read(self, source: str, fetch: FetchBytes) -> Iterator[Document | Failure]:
        yield Document("a", source, "first text")
        yield Document("a", source, "second text")
        raise ValueError("broken reader")


class EagerReader(TwiceReader):
    def files(self, source: str) -> Iterator[Path | Failure] | None:
        raise ValueError("no files")


class DeafReader(TwiceReader):
    """Fails when it is asked whether a source is its own."""

    def accepts(self, source: str) -> bool:
        raise ValueError("no answer")


class FussyChunker(Chunker):
    spec = "fussy"

    def cut(self, document: Document) -> list[Span]:
        if "codes" in document.id:
            raise ZeroDivisionError("no")
        return [Span(0, len(document.text))]


@pytest.mark.parametrize(
    ("settings", "added", "errors"),
    [
        (
            "[{source: x, reader: 'test_ingest:TwiceReader'}]",
            1,
            ["DuplicateIdError", "SourceError"],
        ),
        ("[{source: x, reader: 'test_ingest:EagerReader'}, docs/]", 2, ["SourceError"]),
        ("[{source: x, reader: 'test_ingest:DeafReader'}, docs/]", 2, ["SourceError"]),
        ("[docs/]\nchunk: {by: 'test_ingest:FussyChunker'}", 1, ["ChunkError"]),
    ],
)
def test_broken_readers_and_chunkers_cost_their_own_documents_only(
    make_project: MakeProject, settings: str, added: int, errors: list[str]
) -> None:
    with opened(with_sources(make_project(), settings)) as bench:
        report = bench.ingest()
    assert report.counts.added == added
    assert [type(failure.error).__name__ for failure in report.failures] == errors


def test_a_dry_run_prices_the_embedding_and_writes_nothing(
    make_project: MakeProject, server: ScriptedServer
) -> None:
    name = f"{server.url}#vectors"
    folder = make_project(
        f"embed: {{model: '{name}', dimensions: 16}}\nmodels: {{'{name}': {{price_in: 1}}}}\n"
    )
    server.play("ok")
    with opened(folder) as bench:
        before = len(server.requests)
        planned = bench.forecast_ingest()
        assert (planned.documents, planned.chunks, planned.texts) == (2, 2, 2)
        assert planned.calls is not None
        assert planned.calls.calls.expected == 1
        assert planned.calls.cost is not None
        assert planned.calls.cost.expected > 0
        assert len(server.requests) - before <= 1  # the length of a vector
        assert bench.ingest().counts.added == 2
        again = bench.forecast_ingest()
        assert (again.documents, again.unchanged, again.texts) == (0, 2, 0)


def test_a_server_that_refuses_leaves_what_was_there_and_one_text_costs_its_document(
    make_project: MakeProject, server: ScriptedServer
) -> None:
    folder = make_project(f"embed: {{model: '{server.url}#vectors'}}\n")

    def poisoned(request: ServerRequest) -> Reply:
        return Reply(status=400, error="no") if "POISON" in str(request.body) else Reply()

    server.play("ok")
    with opened(folder) as bench:
        bench.ingest()
        (folder / "docs/bad.md").write_text("# Bad\n\nPOISON\n", "utf-8")
        (folder / "docs/new.md").write_text("# New\n\nNew words.\n", "utf-8")
        server.play(refuse)
        with pytest.raises(ModelError):
            bench.ingest()
        server.play(poisoned)
        assert len(bench.retrieve("brake fluid").hits) == 2
        report = bench.ingest()
        assert report.counts.added == 1
        [failure] = report.failures
        assert failure.source.endswith("bad.md")
        assert bench.retrieve("brake fluid").mode == "hybrid"


@pytest.mark.slow
def test_paid_vectors_survive_an_ingest_that_fails(
    make_project: MakeProject, server: ScriptedServer
) -> None:
    texts = {f"{n}.md": f"# Part {n}\n\nWords of part {n}.\n" for n in range(130)}
    folder = make_project(f"embed: {{model: '{server.url}#vectors'}}\n", **texts)
    embedded: list[str] = []

    def script(request: ServerRequest) -> Reply:
        texts = request.body["input"]
        if "Part 129" in str(texts) and len(embedded) < 131:
            return Reply(status=401, error="key gone")
        embedded.extend(texts)
        return Reply()

    server.play(script)
    with opened(folder) as bench, pytest.raises(ModelError):
        bench.ingest()
    paid = [t for t in embedded if t.startswith("Part")]
    assert len(paid) >= 64
    server.play("ok")
    before = len(server.requests)
    with opened(folder) as bench:
        assert bench.ingest().counts.added == 130
        # The vectors are in the index now.
        assert not [r for r in bench.project.replies.statistics() if r[0] == "Embed" and r[2]]
    sent = [t for r in server.requests[before:] for t in r.body["input"]]
    assert not set(sent) & set(paid)


def test_an_ingest_that_was_cut_off_is_said_and_asking_goes_on_while_another_ingests(
    make_project: MakeProject, server: ScriptedServer
) -> None:
    folder = make_project()
    with opened(folder) as bench:
        bench.ingest()
        assert bench.project.partial_note() == ()
    server.play(refuse)
    vectors = (f"embed.model={server.url}#m", "embed.dimensions=16")
    with opened(folder, *vectors) as bench, pytest.raises(ModelError):
        bench.ingest()
    with opened(folder) as reader, opened(folder) as writer:
        assert any("partial" in note for note in reader.retrieve("brake fluid").notes)
        reader.ingest()
        assert reader.retrieve("brake fluid").notes == ()
        flow = reader.ask_flow("How often must the brake fluid be changed?", [""])
        (folder / "docs/service.md").write_text("# Other\n\nNothing.\n", "utf-8")
        writer.ingest()
        [answer] = reader.project.runner.run(flow)
    assert "two years" in answer.text


def test_web_pages_are_fetched_a_few_at_a_time(
    make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_now = most = 0
    lock, together = threading.Lock(), threading.Event()

    def slow(url: str) -> FetchReply:
        nonlocal open_now, most
        with lock:
            open_now += 1
            most = max(most, open_now)
        if most > 1:
            together.set()
        together.wait(30)
        with lock:
            open_now -= 1
        return FetchReply(url, 200, {"content-type": "text/plain"}, f"The page {url}.".encode())

    monkeypatch.setattr("ragwright.project._ingesting.fetch_by_runner", lambda project: slow)
    pages = [f"https://example.org/{n}.txt" for n in range(20)]
    with opened(make_project("chunk: {by: whole}\n")) as bench:
        assert bench.ingest(*pages).counts.added == 20
        assert [d.id for d in bench.documents()] == sorted(pages)
    assert 2 <= most <= 8


# Vectors that no search can use: kept out of the index, found in it, and made again.

TEXTS = {f"{n}.md": f"# {n}\n\n{n} is a word in a manual about cars.\n" for n in ("oil", "fuel")}


def word_vector(text: str, width: int = 8) -> list[float]:
    """Counts of the words by their hash: equal texts, equal vectors."""
    counts = [0.01] * width
    for word in re.findall(r"\w+", text.lower()):
        counts[zlib.crc32(word.encode()) % width] += 1.0
    return counts


def embeddings(vector: Callable[[str], Any]) -> Callable[[str, Any], Raw]:
    def reply(_path: str, body: Any) -> Raw:
        made = [{"index": i, "embedding": vector(t)} for i, t in enumerate(body["input"])]
        return Raw(json.dumps({"data": made}).encode())

    return reply


SOUND = embeddings(word_vector)
BAD = {
    "zeros": embeddings(lambda _: [0.0] * 8),
    "overflowing": embeddings(lambda text: [v * 1e30 for v in word_vector(text)]),
    "denormal": embeddings(lambda text: [v * 1e-30 for v in word_vector(text)]),
    "one number in base 64": embeddings(lambda _: "AAAAAA=="),
    "one vector for all": embeddings(lambda _: [1.0] * 8),
}


@pytest.fixture
def raw(monkeypatch: pytest.MonkeyPatch) -> Iterator[RawServer]:
    skip_short_pauses(monkeypatch)
    with raw_server(SOUND) as running:
        yield running


@pytest.fixture
def folder(make_project: MakeProject, raw: RawServer) -> Path:
    return make_project(f"embed: {{model: '{raw.url}#m'}}\nbudget: {{concurrency: 1}}\n", **TEXTS)


def stored(folder: Path) -> np.ndarray:
    with closing(sqlite3.connect(folder / ".ragwright/data/store.sqlite")) as db:
        rows = db.execute("SELECT data FROM vectors")
        return np.stack([np.frombuffer(data, np.float32) for (data,) in rows])


def dense_score(bench: Workbench, question: str = "oil is a word in a manual about cars") -> float:
    return float(bench.retrieve(question).hits[0].channels["dense"].score)


@pytest.mark.slow
def test_a_server_of_bad_vectors_leaves_the_index_as_it_was(folder: Path, raw: RawServer) -> None:
    for raw.script in BAD.values():
        with opened(folder) as bench, pytest.raises(ModelError):
            bench.ingest()
    raw.script = SOUND
    with opened(folder) as bench:  # nothing of it was kept, in the cache either
        assert bench.ingest().counts.added == 2
    assert len(stored(folder)) == 2
    (folder / "docs/oil.md").write_text("# oil\n\nAnother word in the manual.\n", "utf-8")
    for bad in BAD.values():
        raw.script = bad
        with opened(folder) as bench:
            with pytest.raises(ModelError):
                bench.ingest(embed_again=True)
            raw.script = SOUND
            assert dense_score(bench) > 0.9
    with opened(folder) as bench:
        assert bench.ingest().counts.changed == 1
    assert len(stored(folder)) == 3, "the vector of the former text stays for a while"


@pytest.mark.slow
def test_a_text_with_a_bad_vector_costs_its_own_document_only(folder: Path, raw: RawServer) -> None:
    with opened(folder) as bench:
        bench.ingest()
    for name, text in TEXTS.items():
        (folder / "docs" / name).write_text(f"{text}\nA line more.\n", "utf-8")
    raw.script = embeddings(lambda t: [0.0] * 8 if "fuel" in t else word_vector(t))
    with opened(folder) as bench:
        report = bench.ingest()
        assert report.counts.changed == 1
        [failure] = report.failures
        assert failure.source == "docs/fuel.md"
        assert "a vector of zeros" in failure.error.what
        kept = {d.id: "A line more." in d.text for d in bench.documents()}
        assert kept == {"docs/oil.md": True, "docs/fuel.md": False}
    raw.script = SOUND
    with opened(folder) as bench:
        assert bench.ingest().counts.changed == 1


def test_embed_again_replaces_every_stored_vector_and_another_length_needs_it(
    folder: Path, raw: RawServer
) -> None:
    with opened(folder) as bench:
        bench.ingest()
        first = bench.project.target().snapshot
    before = stored(folder)
    raw.script = embeddings(lambda text: word_vector(text)[::-1])
    raw.bodies.clear()
    with opened(folder) as bench:
        assert bench.ingest().embedded == 0
        assert "manual" not in str(raw.bodies)
        report = bench.ingest(embed_again=True)
        assert (report.embedded, report.counts.unchanged) == (2, 2)
        assert bench.project.target().snapshot != first
    assert np.allclose(stored(folder)[:, ::-1], before)
    with Workbench.open(folder, Session(reuse=False)) as bench:
        assert dense_score(bench) > 0.9
    raw.script = embeddings(lambda text: word_vector(text, 12))
    (folder / "docs/oil.md").write_text("# oil\n\nAnother word in the manual.\n", "utf-8")
    with opened(folder) as bench:
        with pytest.raises(RagwrightError, match="--embed-again"):
            bench.ingest()
        with pytest.raises(RagwrightError, match="--embed-again"):
            bench.retrieve("a question that was never asked")
        report = bench.ingest(embed_again=True)
        assert report.counts.added == 2
        assert "length 12, not 8" in report.notes[0]
    with opened(folder) as bench:
        assert dense_score(bench, "fuel is a word in a manual about cars") > 0.9
    assert stored(folder).shape == (2, 12)
