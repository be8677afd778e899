"""Rankings and times of one peer, made in the peers' environment.

    PEERS_PYTHON -m benchmarks.peers.search PEER INPUT OUT [--times N]

``INPUT`` holds ``documents.jsonl`` and ``queries.jsonl`` (``{"id", "text"}``) and their vectors,
``documents.npy`` and ``queries.npy``; :mod:`benchmarks.results` writes it. Every peer is used
with its defaults, its fusion rule apart where it has to be named; embedding is a look-up. One
TREC run per channel goes to ``OUT/CHANNEL.run``, lists 100 deep, or the times to ``times.json``.
Imports nothing of ragwright.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

OFF = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "ANONYMIZED_TELEMETRY": "False",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "LANGCHAIN_TRACING_V2": "false",
    "LANGSMITH_TRACING": "false",
    "TOKENIZERS_PARALLELISM": "false",
}
os.environ.update(OFF)  # before any peer is imported: no telemetry, no network

import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

from benchmarks.peers.bare import DEPTH, Find, bare_loop  # noqa: E402

WARM_UP = 10
SHOWN = 10
Vector = NDArray[np.float32]


@dataclass(frozen=True)
class Given:
    """A collection as every peer gets it."""

    ids: Sequence[str]
    texts: Sequence[str]
    matrix: Vector
    queries: Mapping[str, str]
    vectors: Mapping[str, Vector]

    @property
    def depth(self) -> int:
        """How many documents to ask for: some peers refuse more than there are."""
        return min(DEPTH, len(self.ids))

    def encode(self, texts: Iterable[str]) -> Vector:
        """Vectors of texts, by look-up; what every peer believes to be the model."""
        return np.stack([self.vectors[text] for text in texts])


def read(folder: Path) -> Given:
    """The collection in a folder."""
    documents, queries = _lines(folder / "documents.jsonl"), _lines(folder / "queries.jsonl")
    matrix, asked = np.load(folder / "documents.npy"), np.load(folder / "queries.npy")
    ids, texts = [d["id"] for d in documents], [d["text"] for d in documents]
    vectors = dict(zip(texts, matrix, strict=True))
    vectors.update(zip([q["text"] for q in queries], asked, strict=True))
    return Given(ids, texts, matrix, {q["id"]: q["text"] for q in queries}, vectors)


def bare(given: Given) -> dict[str, Find]:
    """The loop without a framework."""
    return bare_loop(given.ids, given.texts, given.matrix, lambda text: given.encode([text])[0])


def langchain(given: Given) -> dict[str, Find]:
    """FAISS, BM25Retriever, EnsembleRetriever with equal weights."""
    from langchain_classic.retrievers import EnsembleRetriever
    from langchain_community.retrievers import BM25Retriever
    from langchain_community.vectorstores import FAISS
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings

    class Known(Embeddings):  # type: ignore[misc]
        def embed_documents(self, texts: list[str]) -> Any:
            return given.encode(texts).tolist()

        def embed_query(self, text: str) -> Any:
            return given.encode([text])[0].tolist()

    documents = [
        Document(page_content=text, metadata={"id": key}, id=key)
        for key, text in zip(given.ids, given.texts, strict=True)
    ]
    store = FAISS.from_documents(documents, Known())
    words = BM25Retriever.from_documents(documents)

    def retrievers(k: int) -> Sequence[Any]:
        keyword = words.model_copy(update={"k": k})
        dense = store.as_retriever(search_kwargs={"k": k})
        return keyword, dense, EnsembleRetriever(retrievers=[keyword, dense], weights=[0.5, 0.5])

    return by_channel(
        retrievers, lambda part, query: [hit.metadata["id"] for hit in part.invoke(query)]
    )


def llamaindex(given: Given) -> dict[str, Find]:
    """VectorStoreIndex, BM25Retriever, QueryFusionRetriever with reciprocal_rerank, one query."""
    from llama_index.core import VectorStoreIndex
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.llms import MockLLM
    from llama_index.core.retrievers import QueryFusionRetriever
    from llama_index.core.schema import TextNode
    from llama_index.retrievers.bm25 import BM25Retriever

    class Known(BaseEmbedding):  # type: ignore[misc]
        def _get_query_embedding(self, query: str) -> Any:
            return given.encode([query])[0].tolist()

        def _get_text_embedding(self, text: str) -> Any:
            return given.encode([text])[0].tolist()

        def _get_text_embeddings(self, texts: list[str]) -> Any:
            return given.encode(texts).tolist()

        async def _aget_query_embedding(self, query: str) -> Any:
            return self._get_query_embedding(query)

    nodes = [TextNode(text=text, id_=key) for key, text in zip(given.ids, given.texts, strict=True)]
    index = VectorStoreIndex(nodes, embed_model=Known())
    words = BM25Retriever.from_defaults(nodes=nodes, similarity_top_k=given.depth)

    def retrievers(k: int) -> Sequence[Any]:
        keyword = BM25Retriever(existing_bm25=words.bm25, similarity_top_k=k)
        keyword.corpus = words.corpus
        dense = index.as_retriever(similarity_top_k=k)
        fused = QueryFusionRetriever(
            [keyword, dense],
            llm=MockLLM(),
            mode="reciprocal_rerank",
            num_queries=1,
            similarity_top_k=k,
            use_async=False,
        )
        return keyword, dense, fused

    return by_channel(
        retrievers, lambda part, query: [h.node.node_id for h in part.retrieve(query)]
    )


def haystack(given: Given) -> dict[str, Find]:
    """InMemoryDocumentStore (BM25L, cosine), DocumentJoiner with reciprocal rank fusion."""
    from haystack import Document, Pipeline, component
    from haystack.components.joiners import DocumentJoiner
    from haystack.components.retrievers.in_memory import (
        InMemoryBM25Retriever,
        InMemoryEmbeddingRetriever,
    )
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    class Known:
        @component.output_types(embedding=list[float])  # type: ignore[untyped-decorator]
        def run(self, text: str) -> Any:
            return {"embedding": given.encode([text])[0].tolist()}

    store = InMemoryDocumentStore(embedding_similarity_function="cosine")
    store.write_documents(
        [
            Document(id=key, content=text, embedding=vector.tolist())
            for key, text, vector in zip(given.ids, given.texts, given.matrix, strict=True)
        ]
    )
    words, near = InMemoryBM25Retriever(store), InMemoryEmbeddingRetriever(store)
    line = Pipeline()
    line.add_component("embedder", component(Known)())
    line.add_component("keyword", InMemoryBM25Retriever(store))
    line.add_component("dense", InMemoryEmbeddingRetriever(store))
    line.add_component("join", DocumentJoiner(join_mode="reciprocal_rank_fusion"))
    line.connect("embedder.embedding", "dense.query_embedding")
    line.connect("keyword", "join")
    line.connect("dense", "join")

    def keyword(query: str, k: int) -> list[str]:
        return [hit.id for hit in words.run(query=query, top_k=k)["documents"]]

    def dense(query: str, k: int) -> list[str]:
        vector = given.encode([query])[0].tolist()
        return [hit.id for hit in near.run(query_embedding=vector, top_k=k)["documents"]]

    def hybrid(query: str, k: int) -> list[str]:
        asked = {
            "embedder": {"text": query},
            "keyword": {"query": query, "top_k": k},
            "dense": {"top_k": k},
            "join": {"top_k": k},
        }
        return [hit.id for hit in line.run(asked)["join"]["documents"]]

    return {"keyword": keyword, "dense": dense, "hybrid": hybrid}


def txtai(given: Given, components: str = "") -> dict[str, Find]:
    """Embeddings with hybrid=True; an approximate index above 5,000 rows, by its own choice."""
    from txtai import Embeddings

    def transform(texts: list[str]) -> Vector:  # txtai calls what is no plain function
        return given.encode(texts)

    faiss = {"faiss": {"components": components}} if components else {}
    dense = {"method": "external", "transform": transform, "content": False, **faiss}

    def find_with(settings: dict[str, Any]) -> Find:
        index = Embeddings(settings)
        index.index(zip(given.ids, given.texts, strict=True))
        return lambda query, k: [key for key, _ in index.search(query, k)]

    return {
        "keyword": find_with({"keyword": True, "content": False}),
        "dense": find_with(dense),
        "hybrid": find_with({**dense, "hybrid": True}),
    }


def txtai_exact(given: Given) -> dict[str, Find]:
    """The same, made to search exactly."""
    return txtai(given, "IDMap,Flat")


@dataclass(frozen=True)
class Peer:
    """How to build a peer, and the distributions whose versions matter."""

    label: str
    build: Callable[[Given], dict[str, Find]]
    packages: tuple[str, ...]


PEERS = {
    "bare": Peer("bare loop", bare, ("numpy", "bm25s", "PyStemmer")),
    "langchain": Peer(
        "LangChain",
        langchain,
        ("langchain-classic", "langchain-community", "langchain-core", "faiss-cpu", "rank-bm25"),
    ),
    "llamaindex": Peer(
        "LlamaIndex", llamaindex, ("llama-index-core", "llama-index-retrievers-bm25")
    ),
    "haystack": Peer("Haystack", haystack, ("haystack-ai",)),
    "txtai": Peer("txtai", txtai, ("txtai", "faiss-cpu")),
    "txtai_exact": Peer("txtai, exact", txtai_exact, ("txtai", "faiss-cpu")),
}


def write_runs(given: Given, searches: Mapping[str, Find], tag: str, out: Path) -> None:
    """One TREC run per channel; scores fall by rank, so that no order is lost."""
    for channel, find in searches.items():
        lines = []
        for query, text in given.queries.items():
            ranking = find(text, given.depth)[: given.depth]
            if len(set(ranking)) != len(ranking):
                raise SystemExit(f"{tag} {channel}: query {query} has a document twice")
            lines += [
                f"{query} Q0 {key} {rank} {DEPTH + 1 - rank} {tag}\n"
                for rank, key in enumerate(ranking, 1)
            ]
        (out / f"{channel}.run").write_text("".join(lines), "utf-8")


def times(given: Given, searches: Mapping[str, Find], queries: int) -> dict[str, Any]:
    """Milliseconds of a hybrid query, in turns with the bare loop in this process.

    Returns:
        Per number of hits shown: ``p50``, ``p95`` by the wall, ``cpu``, the median of the
        processor time of all threads, and ``bare`` and ``bare_cpu``, the medians of the loop.
    """
    beside = bare(given)["hybrid"]
    asked = list(given.queries.values())[: queries + WARM_UP]
    answer: dict[str, Any] = {}
    for shown in (SHOWN, DEPTH):
        theirs: list[tuple[float, float]] = []
        floor: list[tuple[float, float]] = []
        for text in asked:
            for find, kept in ((beside, floor), (searches["hybrid"], theirs)):
                wall, cpu = time.perf_counter(), time.process_time()
                find(text, min(shown, given.depth))
                kept.append((time.perf_counter() - wall, time.process_time() - cpu))
        walls, cpus = np.array(theirs[WARM_UP:]).T * 1e3
        bare_walls, bare_cpus = np.array(floor[WARM_UP:]).T * 1e3
        answer[str(shown)] = {
            "p50": float(np.median(walls)),
            "p95": float(np.percentile(walls, 95)),
            "cpu": float(np.median(cpus)),
            "bare": float(np.median(bare_walls)),
            "bare_cpu": float(np.median(bare_cpus)),
        }
    return answer


def main() -> None:
    """Make the runs of a peer, or clock it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("input", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--times", type=int, help="queries to clock, in place of the runs")
    asked = parser.parse_args()
    peer, given = PEERS[asked.peer], read(asked.input)
    asked.out.mkdir(parents=True, exist_ok=True)
    searches = peer.build(given)
    if asked.times:
        clocked = times(given, searches, asked.times)
        (asked.out / "times.json").write_text(json.dumps(clocked, indent=1), "utf-8")
        return
    write_runs(given, searches, asked.peer, asked.out)
    used = {package: version(package) for package in peer.packages}
    (asked.out / "versions.json").write_text(json.dumps(used, indent=1), "utf-8")


def by_channel(
    retrievers: Callable[[int], Sequence[Any]], ask: Callable[[Any, str], list[str]]
) -> dict[str, Find]:
    """Searches whose three retrievers depend on k; they are made once for each k."""
    known: dict[int, Sequence[Any]] = {}

    def find(place: int) -> Find:
        def search(query: str, k: int) -> list[str]:
            if k not in known:
                known[k] = retrievers(k)
            return ask(known[k][place], query)[:k]

        return search

    return {"keyword": find(0), "dense": find(1), "hybrid": find(2)}


def _lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


if __name__ == "__main__":
    main()
