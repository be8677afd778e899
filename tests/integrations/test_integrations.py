"""Retrievers for other frameworks, each called by the framework itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_project import MakeProject

from ragwright import Workbench

pytestmark = pytest.mark.needs_frameworks

QUESTION = "How often must the brake fluid be changed?"


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    with Workbench.open(MakeProject(tmp_path)("")) as opened:
        opened.ingest()
        yield opened


def test_langchain_gets_the_hits_of_the_project(bench: Workbench) -> None:
    from ragwright.integrations import LangChainRetriever

    retriever = LangChainRetriever(bench=bench, k=2)
    hits = bench.retrieve(QUESTION, 2).hits
    documents = retriever.invoke(QUESTION)
    assert [document.page_content for document in documents] == [hit.text for hit in hits]
    assert documents[0].metadata["source"] == hits[0].source
    again = asyncio.run(retriever.ainvoke(QUESTION))
    assert [document.id for document in again] == [hit.chunk_id for hit in hits]
    narrowed = LangChainRetriever(bench=bench, filters=[f"source!={hits[0].source}"])
    assert hits[0].source not in {d.metadata["source"] for d in narrowed.invoke(QUESTION)}


def test_llama_index_gets_the_hits_of_the_project(bench: Workbench) -> None:
    from ragwright.integrations import LlamaIndexRetriever

    retriever = LlamaIndexRetriever(bench, 2)
    hits = bench.retrieve(QUESTION, 2).hits
    nodes = retriever.retrieve(QUESTION)
    assert [node.text for node in nodes] == [hit.text for hit in hits]
    assert [node.score for node in nodes] == [hit.score for hit in hits]
    again = asyncio.run(retriever.aretrieve(QUESTION))
    assert [node.node.node_id for node in again] == [hit.chunk_id for hit in hits]


def test_haystack_runs_the_component_in_a_stored_pipeline(bench: Workbench) -> None:
    import haystack

    from ragwright.integrations import HaystackRetriever

    hits = bench.retrieve(QUESTION, 2).hits
    pipeline = haystack.Pipeline()
    pipeline.add_component("search", HaystackRetriever(str(bench.project.folder.root), 2))
    trusted = [HaystackRetriever.__module__]
    restored = haystack.Pipeline.loads(pipeline.dumps(), allowed_modules=trusted)
    documents = restored.run({"search": {"query": QUESTION}})["search"]["documents"]
    assert [document.content for document in documents] == [hit.text for hit in hits]
    assert documents[0].meta["source"] == hits[0].source
