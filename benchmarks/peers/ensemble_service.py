"""A minimal FastAPI service over LangChain's EnsembleRetriever.

    python -m benchmarks.peers.ensemble_service FOLDER PORT

FOLDER holds ``texts.json`` and ``vectors.npy``. BM25Retriever and FAISS with the same vectors,
equal weights, ten hits. Prints ``ready`` when it answers.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.hashed import hashed

HITS = 10


def app(folder: Path) -> Any:
    """``POST /v1/retrieve`` with ``{"query"}``, as ours answers it."""
    from fastapi import FastAPI
    from langchain_classic.retrievers import EnsembleRetriever
    from langchain_community.retrievers import BM25Retriever
    from langchain_community.vectorstores import FAISS
    from langchain_core.embeddings import Embeddings
    from pydantic import BaseModel

    class Known(Embeddings):  # type: ignore[misc]
        def embed_documents(self, texts: list[str]) -> Any:
            return hashed(texts).tolist()

        def embed_query(self, text: str) -> Any:
            return hashed([text])[0].tolist()

    class Query(BaseModel):
        query: str

    texts = json.loads((folder / "texts.json").read_text("utf-8"))
    vectors = np.load(folder / "vectors.npy")
    store = FAISS.from_embeddings(zip(texts, vectors.tolist(), strict=True), Known())
    dense = store.as_retriever(search_kwargs={"k": HITS})
    words = BM25Retriever.from_texts(texts, k=HITS)
    both = EnsembleRetriever(retrievers=[words, dense], weights=[0.5, 0.5])
    service = FastAPI()

    def retrieve(body: Query) -> Any:
        hits = both.invoke(body.query)[:HITS]
        return {"hits": [{"rank": at, "text": hit.page_content} for at, hit in enumerate(hits, 1)]}

    # The annotation is local to this function, where FastAPI cannot look it up by name.
    retrieve.__annotations__["body"] = Query
    service.post("/v1/retrieve")(retrieve)
    return service


def main() -> None:
    """Serve until terminated."""
    import uvicorn

    folder, port = Path(sys.argv[1]), int(sys.argv[2])
    service = app(folder)
    print("ready", flush=True)
    uvicorn.run(service, port=port, log_level="critical", access_log=False)


if __name__ == "__main__":
    main()
