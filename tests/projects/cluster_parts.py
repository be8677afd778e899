"""A reader, a chunker and models of a project's own, which workers import by name."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from ragwright.core import ConfigError, Document, Span
from ragwright.ingest import Chunker, Failure, FetchBytes, Reader, SourceFile
from ragwright.models import Embedder


class Letters(Embedder):
    identity = "letters"
    dimensions = 26

    def embed_batch(self, texts: list[str]) -> np.ndarray:  # type: ignore[override]
        made = [[1 + text.lower().count(chr(97 + i)) for i in range(26)] for text in texts]
        vectors = np.array(made, np.float32)
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def only_on_the_driver() -> Embedder:
    if os.environ.get("DRIVER") != str(os.getpid()):
        raise ConfigError("no folder models/letters", hint="copy the model's files")
    return Letters()


class Lines(Chunker):
    """Cuts after every tenth line; refuses a text that says so."""

    spec = "ten lines"

    def cut(self, document: Document) -> list[Span]:
        if "refuse" in document.text:
            raise ValueError("refused")
        edges, at = [0], 0
        for number, line in enumerate(document.text.splitlines(keepends=True), 1):
            at += len(line)
            if number % 10 == 0:
                edges.append(at)
        edges = sorted({*edges, len(document.text)})
        return [Span(a, b) for a, b in pairwise(edges)]


class Notes(Reader):
    """Reads `*.note` below a folder, one document each; `die` in one kills the worker, once."""

    name = "notes"

    def accepts(self, source: str) -> bool:
        return True

    def files(self, source: str) -> Iterator[SourceFile | Failure]:
        yield from sorted(Path(source).glob("*.note"))

    def read_file(self, path: SourceFile) -> Iterator[Document | Failure]:
        assert isinstance(path, Path)
        text = path.read_text("utf-8")
        mark = path.with_name("died")
        if "die" in text and not mark.exists() and os.environ.get("DRIVER") != str(os.getpid()):
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if "fail" in text:
            raise ValueError("this note cannot be read")
        yield Document(path.name, path.name, text)

    def read(self, source: str, fetch: FetchBytes) -> Iterator[Document | Failure]:
        for path in self.files(source):
            assert isinstance(path, Path)
            yield from self.read_file(path)
