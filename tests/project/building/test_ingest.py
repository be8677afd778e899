from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from small_project import MANUAL, MakeProject

from ragwright import Session, Workbench
from ragwright.core import ConfigError, Document, ModelError, RetrieveError, Span
from ragwright.ingest import Chunker, Failure, FetchBytes, Fetched, FileReader, Reader
from ragwright.models import Embedder
from ragwright.testing import Reply, ScriptedServer, ServerRequest


@pytest.fixture
def make_project(tmp_path: Path) -> MakeProject:
    return MakeProject(tmp_path)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer("The brake fluid must be changed every two years [1].") as running:
        yield running


class CountingEmbedder(Embedder):
    """Counts letters; remembers what it was asked."""

    identity = "counting"
    dimensions = 26

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed_batch(self, texts: list[str]) -> np.ndarray:  # type: ignore[override]
        self.texts += texts
        made: np.ndarray = np.array(
            [[1 + t.lower().count(chr(97 + i)) for i in range(26)] for t in texts], np.float32
        )
        return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), np.float32)


def opened(folder: Path, *overrides: str, embedder: Embedder | None = None) -> Workbench:
    bench = Workbench.open(folder, Session(overrides))
    if embedder is not None:
        bench.project.models.register("counting", embedder)
    return bench


def test_added_changed_unchanged_removed(make_project: MakeProject) -> None:
    folder = make_project()
    with opened(folder) as bench:
        first = bench.ingest()
    assert (first.counts.added, first.counts.chunks_added, first.failures) == (2, 2, ())
    (folder / "docs/service.md").write_text(MANUAL + "\nMore.\n", "utf-8")
    (folder / "docs/codes.md").unlink()
    with opened(folder) as bench:
        second = bench.ingest()
        assert second.counts.changed == 1
        assert second.counts.removed == 0
        assert bench.retrieve("accelerator").hits  # nothing is removed unless asked
        pruned = bench.ingest(prune=True)
        assert (pruned.counts.removed, pruned.counts.unchanged) == (1, 1)
        assert not bench.retrieve("accelerator").hits


def test_an_unchanged_file_is_not_even_read(
    make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_project()
    for path in (folder / "docs").iterdir():
        os.utime(path, (1_600_000_000, 1_600_000_000))
    read: list[str] = []
    original = FileReader.read_file

    def counting(self: FileReader, path: Path) -> Iterator[Document | Failure]:
        read.append(path.name)
        return original(self, path)

    monkeypatch.setattr(FileReader, "read_file", counting)
    monkeypatch.setattr("ragwright.project.building._feeds._RACY_NS", 0)
    with opened(folder) as bench:
        bench.ingest()
        assert sorted(read) == ["codes.md", "service.md"]
        read.clear()
        again = bench.ingest()
        assert read == []
        assert again.counts.unchanged == 2
        (folder / "docs/codes.md").write_text("# New\n\nOther words.\n", "utf-8")
        assert bench.ingest().counts.changed == 1
        assert read == ["codes.md"]


def test_a_warning_is_reported_again_without_reading_its_file_again(
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
        read.clear()
        again = bench.ingest().as_dict()
    assert "frame" in str(first["warnings"])
    assert again["warnings"] == first["warnings"]
    assert read == ["broken.pdf"]  # a failure is tried again


def test_a_changed_reader_setting_reads_every_file_again(make_project: MakeProject) -> None:
    folder = make_project()
    with opened(folder) as bench:
        bench.ingest()
    (folder / "ragwright.yaml").write_text(
        "sources: [{source: docs/, exclude: ['codes.md']}]\n", "utf-8"
    )
    with opened(folder) as bench:
        report = bench.ingest(prune=True)
    assert (report.counts.unchanged, report.counts.removed) == (1, 1)


def test_known_texts_are_embedded_once(make_project: MakeProject) -> None:
    folder = make_project("embed: {model: counting}\n")
    embedder = CountingEmbedder()
    with opened(folder, embedder=embedder) as bench:
        bench.ingest()
        passages = len(embedder.texts)
        assert passages == 2
        bench.ingest()
        assert len(embedder.texts) == passages
    with opened(folder, "chunk.by=whole", embedder=embedder) as bench:
        report = bench.ingest()
        assert report.counts.added == 2  # another pair is built …
        assert len(embedder.texts) == passages  # … from the vectors that are there


def test_a_change_of_settings_destroys_nothing(make_project: MakeProject) -> None:
    folder = make_project()
    with opened(folder) as bench:
        bench.ingest()
        before = bench.retrieve("brake fluid").hits
    with opened(folder, "chunk.by=sentences", "chunk.size=12", "chunk.overlap=0") as bench:
        with pytest.raises(RetrieveError, match="nothing is indexed"):
            bench.retrieve("brake fluid")
        bench.ingest()
        assert len(bench.retrieve("brake fluid").hits[0].text) < 120
    with opened(folder) as bench:
        assert bench.retrieve("brake fluid").hits == before
        assert len(bench.project.store.index_specs()) == 2


@pytest.mark.slow
def test_bad_files_are_named_and_the_rest_is_kept(make_project: MakeProject) -> None:
    folder = make_project()
    (folder / "docs/empty.md").write_bytes(b"")
    (folder / "docs/broken.docx").write_bytes(b"PK\x03\x04 not a document")
    with opened(folder) as bench:
        report = bench.ingest()
        assert report.counts.added == 2
        assert {Path(f.source).name for f in report.failures} == {"empty.md", "broken.docx"}
        again = bench.ingest()  # a fault is said again, not forgotten
        assert len(again.failures) == 2


def test_a_source_that_cannot_be_read_is_never_pruned(make_project: MakeProject) -> None:
    folder = make_project()
    with opened(folder) as bench:
        bench.ingest()
        (folder / "docs").rename(folder / "moved")
        report = bench.ingest(prune=True)
        assert report.counts.removed == 0
        assert len(report.failures) == 1
        (folder / "moved").rename(folder / "docs")
        (folder / "docs/codes.md").write_bytes(b"")
        report = bench.ingest(prune=True)
        assert report.counts.removed == 0
        assert bench.retrieve("accelerator").hits


def test_an_empty_folder_is_no_failure_until_documents_were_in_it(
    make_project: MakeProject,
) -> None:
    folder = make_project()
    uploads = folder / "uploads"
    uploads.mkdir()
    (uploads / ".gitkeep").touch()
    (folder / "ragwright.yaml").write_text("sources: [docs/, uploads/]\n", "utf-8")
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


def test_a_failing_embedding_server_leaves_what_was_there(
    make_project: MakeProject, server: ScriptedServer
) -> None:
    folder = make_project(f"embed: {{model: '{server.url}#vectors'}}\n")
    with opened(folder) as bench:
        bench.ingest()
        assert len(bench.retrieve("brake fluid").hits) == 2
        (folder / "docs/new.md").write_text("# New\n\nNew words.\n", "utf-8")
        server.play(lambda _: Reply(status=401, error="no"))
        with pytest.raises(ModelError):
            bench.ingest()
        server.play("ok")
        assert len(bench.retrieve("brake fluid").hits) == 2


class TwiceReader(Reader):
    """Yields one id with two contents."""

    name = "twice"

    def accepts(self, source: str) -> bool:
        return True

    def read(self, source: str, fetch: FetchBytes) -> Iterator[Document | Failure]:
        yield Document("a", source, "first text")
        yield Document("a", source, "second text")
        raise ValueError("broken reader")


def test_duplicate_ids_and_broken_readers_are_failures(make_project: MakeProject) -> None:
    folder = make_project()
    (folder / "ragwright.yaml").write_text(
        "sources:\n  - source: x\n    reader: test_ingest:TwiceReader\n", "utf-8"
    )
    with opened(folder) as bench:
        report = bench.ingest()
    assert report.counts.added == 1
    kinds = [type(f.error).__name__ for f in report.failures]
    assert kinds == ["DuplicateIdError", "SourceError"]


def test_nothing_to_ingest_is_said(make_project: MakeProject) -> None:
    folder = make_project()
    (folder / "ragwright.yaml").write_text("retrieve: {top_k: 3}\n", "utf-8")
    with opened(folder) as bench, pytest.raises(ConfigError, match="nothing to ingest"):
        bench.ingest()


def test_a_project_is_required(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ragwright\.yaml"):
        Workbench.open(tmp_path)


def test_a_dry_run_prices_the_embedding_and_writes_nothing(
    make_project: MakeProject, server: ScriptedServer
) -> None:
    name = f"{server.url}#vectors"
    folder = make_project(
        f"embed: {{model: '{name}', dimensions: 16}}\nmodels: {{'{name}': {{price_in: 1}}}}\n"
    )
    with opened(folder) as bench:
        before = len(server.requests)
        planned = bench.forecast_ingest()
        assert (planned.documents, planned.chunks, planned.texts) == (2, 2, 2)
        assert planned.calls is not None
        assert planned.calls.calls.expected == 1
        assert planned.calls.cost is not None
        assert planned.calls.cost.expected > 0
        asked = len(server.requests) - before
        assert asked <= 1  # the length of a vector
        assert bench.ingest().counts.added == 2
        again = bench.forecast_ingest()
        assert (again.documents, again.unchanged, again.texts) == (0, 2, 0)


def test_one_refused_text_costs_its_own_document_only(
    make_project: MakeProject, server: ScriptedServer
) -> None:
    folder = make_project(f"embed: {{model: '{server.url}#vectors'}}\n")
    (folder / "docs/bad.md").write_text("# Bad\n\nPOISON\n", "utf-8")

    def script(request: ServerRequest) -> Reply:
        poisoned = "POISON" in str(request.body)
        return Reply(status=400, error="no") if poisoned else Reply()

    server.play(script)
    with opened(folder) as bench:
        report = bench.ingest()
        assert report.counts.added == 2
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


def test_a_broken_own_chunker_costs_its_own_document_only(make_project: MakeProject) -> None:
    folder = make_project("chunk: {by: 'test_ingest:FussyChunker'}\n")
    with opened(folder) as bench:
        report = bench.ingest()
    assert report.counts.added == 1
    assert [type(f.error).__name__ for f in report.failures] == ["ChunkError"]


class FussyChunker(Chunker):
    """Dislikes one document."""

    spec = "fussy"

    def cut(self, document: Document) -> list[Span]:
        if "codes" in document.id:
            raise ZeroDivisionError("no")
        return [Span(0, len(document.text))]


def test_another_spelling_of_a_folder_is_the_same_source(make_project: MakeProject) -> None:
    folder = make_project()
    with opened(folder) as bench:
        bench.ingest(folder / "docs")
        (folder / "docs/codes.md").unlink()
        report = bench.ingest(f"{folder}/./docs/", prune=True)
    assert report.counts.removed == 1


def test_what_vanished_is_said(make_project: MakeProject) -> None:
    folder = make_project()
    with opened(folder) as bench:
        bench.ingest()
        (folder / "docs/codes.md").unlink()
        assert any("--prune" in note for note in bench.ingest().notes)


def test_an_ingest_that_was_cut_off_is_said(
    make_project: MakeProject, server: ScriptedServer
) -> None:
    folder = make_project()
    with opened(folder) as bench:
        bench.ingest()
        assert bench.project.partial_note() == ()
    server.play(lambda _: Reply(status=401, error="no key"))
    vectors = (f"embed.model={server.url}#m", "embed.dimensions=16")
    with opened(folder, *vectors) as bench, pytest.raises(ModelError):
        bench.ingest()
    with opened(folder) as bench:
        assert any("partial" in note for note in bench.retrieve("brake fluid").notes)
        bench.ingest()
        assert bench.retrieve("brake fluid").notes == ()


def test_asking_goes_on_while_another_process_ingests(make_project: MakeProject) -> None:
    folder = make_project()
    with opened(folder) as reader, opened(folder) as writer:
        writer.ingest()
        flow = reader.ask_flow("How often must the brake fluid be changed?", [""])
        (folder / "docs/service.md").write_text("# Other\n\nNothing.\n", "utf-8")
        writer.ingest()
        [answer] = reader.project.runner.run(flow)
    assert "two years" in answer.text


def test_equal_texts_of_neighbouring_batches_are_embedded_once(
    make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragwright.project.building._ingest._BATCH_CHUNKS", 4)
    texts = {f"{n:02}.txt": f"Text number {n % 5}.\n" for n in range(40)}
    folder = make_project("embed: {model: counting}\n", **texts)
    embedder = CountingEmbedder()
    with opened(folder, embedder=embedder) as bench:
        report = bench.ingest()
    assert report.counts.added == 40
    assert sorted(embedder.texts) == [f"Text number {n}.\n" for n in range(5)]
    assert report.embedded == 5


def test_web_pages_are_fetched_a_few_at_a_time(
    make_project: MakeProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_project()
    (folder / "ragwright.yaml").write_text("chunk: {by: whole}\n", "utf-8")
    open_now = most = 0
    lock, together = threading.Lock(), threading.Event()

    def slow(url: str) -> Fetched:
        nonlocal open_now, most
        with lock:
            open_now += 1
            most = max(most, open_now)
        if most > 1:
            together.set()
        together.wait(30)
        with lock:
            open_now -= 1
        return Fetched(url, "text/plain", f"The page {url}.".encode())

    monkeypatch.setattr("ragwright.project._ingesting.fetch_by_runner", lambda project: slow)
    pages = [f"https://example.org/{n}.txt" for n in range(20)]
    with opened(folder) as bench:
        report = bench.ingest(*pages)
        assert report.counts.added == 20
        assert [d.id for d in bench.documents()] == sorted(pages)
    assert 2 <= most <= 8


class EagerReader(TwiceReader):
    """Fails as soon as it is asked for its files."""

    def files(self, source: str) -> Iterator[Path | Failure] | None:
        raise ValueError("no files")


class DeafReader(TwiceReader):
    """Fails when it is asked whether a source is its own."""

    def accepts(self, source: str) -> bool:
        raise ValueError("no answer")


@pytest.mark.parametrize("reader", ["EagerReader", "DeafReader"])
def test_a_reader_that_fails_when_asked_costs_its_own_source_only(
    make_project: MakeProject, reader: str
) -> None:
    folder = make_project()
    (folder / "ragwright.yaml").write_text(
        f"sources: [{{source: x, reader: 'test_ingest:{reader}'}}, docs/]\n", "utf-8"
    )
    with opened(folder) as bench:
        report = bench.ingest()
    assert report.counts.added == 2
    [failure] = report.failures
    assert "ValueError" in failure.error.what
