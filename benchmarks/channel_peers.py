"""Sparse search and late interaction beside exact searches of others, on the same encodings.

    OMP_NUM_THREADS=1 python -m benchmarks.channel_peers [--sparse NAME…] [--late NAME…] [--publish]

Needs qdrant-client beside the extras torch and lance. Collections are those of
:mod:`benchmarks.smart_format`, one chunk a document. Each text is encoded once, by
sentence-transformers, and every searcher is given these encodings: sentence-transformers' own
scoring of all documents, qdrant-client in local mode (exact, in memory), and a ragwright store. Two
models are built from all-MiniLM-L6-v2, without training:

- late interaction: its vectors of tokens, 384 dimensions, brought to length 1;
- learned sparse: the tokens of its vocabulary, weighted by their rarity in the collection
  (``SparseStaticEmbedding``), without a transformer.

So the tables show whether scores and rankings agree, what 8 bits cost, and time; not what a
published SPLADE or ColBERT model reaches.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from benchmarks.publish import Row, Section, Table, publish, section_lines, versions
from benchmarks.retrieval import Corpus, load
from benchmarks.vectors import model_folder
from ragwright.flow import Search
from ragwright.index import IndexSpec, LanceStore, SqliteStore, Store, embedded_text
from ragwright.measure import aggregate, parse_measures, retrieval_scores
from ragwright.models import Analyzer, TokenVectors, passage_form, query_form

Ranking: TypeAlias = Sequence[tuple[str, float]]
Find: TypeAlias = Callable[[int], Ranking]
"""From the number of a question to document ids and scores, best first."""

DEPTH, FIRST, BLOCK, ENCODER = 100, 10, 500, "peers"
PAIR = IndexSpec("whole", Analyzer().spec)
[NDCG] = parse_measures("nDCG@10")


@dataclass(frozen=True)
class Encoded:
    """A collection encoded for a channel.

    Attributes:
        channel: ``sparse`` or ``late``.
        passages: One per document, by sentence-transformers.
        queries: One per question.
        similarity: The library's scores of queries and passages.
        dimensions: Length of a vector.
    """

    channel: str
    passages: list[Any]
    queries: list[Any]
    similarity: Callable[[Any, Any], Any]
    dimensions: int


def late_encoded(texts: Sequence[str], questions: Sequence[str]) -> Encoded:
    """MiniLM's vectors of tokens."""
    import torch
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Normalize, Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    modules = [
        Transformer(str(model_folder())),
        MultiVectorMask(skiplist_words=list(".,?()")),
        Normalize(module_input_name="token_embeddings"),
    ]
    model = MultiVectorEncoder(modules=modules, device="cpu")
    with torch.inference_mode():
        passages = model.encode_document(list(texts), convert_to_numpy=True)
        queries = model.encode_query(list(questions), convert_to_numpy=True)
    return Encoded("late", list(passages), list(queries), model.similarity, passages[0].shape[1])


def sparse_encoded(texts: Sequence[str], questions: Sequence[str]) -> Encoded:
    """Tokens of MiniLM's vocabulary, weighted by their rarity."""
    import torch
    from sentence_transformers import SparseEncoder
    from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(model_folder()))
    counts = Counter(
        token for ids in tokenizer(list(texts))["input_ids"] for token in dict.fromkeys(ids)
    )
    size = len(tokenizer.get_vocab())
    weights = torch.tensor([math.log((1 + len(texts)) / (1 + counts[at])) for at in range(size)])
    table = SparseStaticEmbedding(tokenizer, weight=weights)
    model = SparseEncoder(modules=[table], device="cpu")
    passages, queries = (
        [row.coalesce() for row in model.encode(list(each), convert_to_tensor=False)]
        for each in (texts, questions)
    )
    return Encoded("sparse", passages, queries, model.similarity, size)


def form(encoded: Encoded, value: Any, query: bool) -> bytes:
    """An encoding in the form of our channel."""
    if encoded.channel == "late":
        tokens = TokenVectors(np.asarray(value, np.float32), np.zeros((len(value), 2), np.int32))
        return query_form(tokens) if query else passage_form(tokens)
    terms, weights = sparse_parts(value)
    return bytes(terms.astype(np.uint32).tobytes() + weights.tobytes())


def sparse_parts(value: Any) -> tuple[Any, Any]:
    """Dimensions, ascending, and weights above 0."""
    terms, weights = value.indices()[0].numpy(), value.values().numpy().astype(np.float32)
    order = np.argsort(terms)
    above = weights[order] > 0
    return terms[order][above], weights[order][above]


def ours(store: Store, corpus: Corpus, texts: Sequence[str], encoded: Encoded) -> Find:
    """A search of a ragwright store."""
    store.upsert(PAIR, corpus.documents)
    encodings = dict(zip(texts, encoded.passages, strict=True))
    stamps = store.stamps_without(PAIR, ENCODER)
    for start in range(0, len(stamps), BLOCK):
        stamped = store.stamped_texts(PAIR, stamps[start : start + BLOCK])
        store.put_encodings(
            ENCODER, {s: (form(encoded, encodings[t], False),) for s, [t] in stamped}
        )
    store.settle(PAIR)
    view = store.view(PAIR)
    asked = [form(encoded, query, True) for query in encoded.queries]

    def find(number: int) -> Ranking:
        vector = asked[number]
        request = Search(view.snapshot, encoded.channel, DEPTH, vector=vector, encoder=ENCODER)
        return [(key.rpartition(":")[0], score) for key, score in view.encoded(request).candidates]

    return find


def library(names: Sequence[str], encoded: Encoded) -> Find:
    """The scoring of sentence-transformers over all documents."""
    import torch

    passages: Any = encoded.passages
    if encoded.channel == "sparse":
        passages = torch.stack(encoded.passages).coalesce()
    else:
        passages = [torch.from_numpy(rows) for rows in encoded.passages]

    def find(number: int) -> Ranking:
        query = encoded.queries[number]
        asked = query[None] if encoded.channel == "sparse" else [torch.from_numpy(query)]
        scores = encoded.similarity(asked, passages)
        scores = (scores.to_dense() if scores.is_sparse else scores)[0].numpy()
        return ranked(names, scores, 0.0 if encoded.channel == "sparse" else -math.inf)

    return find


def ranked(names: Sequence[str], scores: Any, above: float) -> Ranking:
    """The best documents above a score, ties by id."""
    rounded = np.round(scores.astype(np.float64), 6)
    pairs = [(names[at], float(rounded[at])) for at in np.flatnonzero(rounded > above).tolist()]
    return sorted(pairs, key=lambda pair: (-pair[1], pair[0]))[:DEPTH]


def qdrant(names: Sequence[str], encoded: Encoded) -> Find:
    """qdrant-client in local mode."""
    from qdrant_client import QdrantClient, models

    client = QdrantClient(":memory:")
    late = encoded.channel == "late"
    compared = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
    dot = models.Distance.DOT
    many = models.VectorParams(size=encoded.dimensions, distance=dot, multivector_config=compared)
    client.create_collection(
        "peers",
        vectors_config={"late": many} if late else {},
        sparse_vectors_config=None if late else {"sparse": models.SparseVectorParams()},
    )

    def value(given: Any) -> Any:
        if late:
            return np.asarray(given, np.float32).tolist()
        terms, weights = sparse_parts(given)
        return models.SparseVector(indices=terms.tolist(), values=weights.tolist())

    for start in range(0, len(names), BLOCK):
        points = [
            models.PointStruct(id=at, vector={encoded.channel: value(encoded.passages[at])})
            for at in range(start, min(len(names), start + BLOCK))
        ]
        client.upsert("peers", points)
    asked = [value(query) for query in encoded.queries]

    def find(number: int) -> Ranking:
        reply = client.query_points(
            "peers", query=asked[number], using=encoded.channel, limit=DEPTH
        )
        return [(names[int(point.id)], point.score) for point in reply.points]

    return find


def answered(find: Find, questions: int) -> tuple[list[Ranking], float]:
    """Rankings of all questions, and the median milliseconds of processor time of one."""
    find(0)
    rankings, spent = [], []
    for number in range(questions):
        start = time.process_time()
        rankings.append(find(number))
        spent.append((time.process_time() - start) * 1e3)
    return rankings, statistics.median(spent)


def row(
    name: str, corpus: Corpus, result: tuple[list[Ranking], float], exact: list[Ranking]
) -> Row:
    """Quality, agreement with the library's exact ranking, and time."""
    rankings, spent = result
    scores = [
        retrieval_scores(NDCG, [key for key, _ in ranking], asked.reference_ids)
        for ranking, asked in zip(rankings, corpus.testset.rows, strict=True)
    ]
    shared, error = [], [0.0]
    for own, true in zip(rankings, exact, strict=True):
        first = {key for key, _ in true[:FIRST]}
        shared.append(len(first & {key for key, _ in own[:FIRST]}) / max(1, len(first)))
        known = dict(true)
        error += [abs(score - known[key]) / abs(known[key]) for key, score in own if key in known]
    return {
        "search": name,
        "nDCG@10": aggregate(scores).mean,
        "first 10 of exact scores": statistics.fmean(shared),
        "greatest change of a score, %": f"{max(error) * 100:.3f}",
        "processor p50 ms": round(spent, 2),
    }


def compared(name: str, channel: str, folder: Path) -> Table:
    """The table of one collection and channel."""
    corpus = load(name, folder / "beir", with_vectors=False)
    texts = [embedded_text(d.chunks[0], d.document.title) for d in corpus.documents]
    names = [d.document.id for d in corpus.documents]
    questions = [asked.user_input for asked in corpus.testset.rows]
    encoded = (sparse_encoded if channel == "sparse" else late_encoded)(texts, questions)
    results = {
        "sentence-transformers, every document": answered(library(names, encoded), len(questions)),
        "qdrant-client, local mode": answered(qdrant(names, encoded), len(questions)),
    }
    stores: dict[str, Store] = {
        "sqlite": SqliteStore(folder / "store.sqlite", views=folder / "views"),
        "lance": LanceStore(folder / "store.lance"),
    }
    for kind, store in stores.items():
        find = ours(store, corpus, texts, encoded)
        results[f"ragwright, {kind} store"] = answered(find, len(questions))
        store.close()
    exact = next(iter(results.values()))[0]
    titles = {"sparse": "Learned sparse search", "late": "Late interaction over every chunk"}
    caption = f"{titles[channel]}, {name}: {len(names):,} documents, {len(questions)} questions"
    return Table([row(title, corpus, each, exact) for title, each in results.items()], caption)


NOTES = (
    "Every search is given the same encodings, made once by sentence-transformers. Two models were "
    "built from all-MiniLM-L6-v2 without training: for late interaction its vectors of tokens (384 "
    "dimensions), for learned sparse search the tokens of its vocabulary, weighted by their rarity "
    "in the collection. The tables show whether searches agree and what they take, not what a "
    "published SPLADE or ColBERT model reaches.",
    "*First 10 of exact scores*: share of the ten best by sentence-transformers that are among the "
    "ten best here. Vectors of late interaction are stored with 8 bits; the change of a score is "
    "relative.",
    "Processor time of a search, without encoding the question. sentence-transformers and "
    "qdrant-client hold float32 in memory; the stores read from disk, and return ids with scores "
    "rounded to 6 digits, ties by id. qdrant-client orders equal scores otherwise: hence the "
    "differences in nDCG@10 at equal scores.",
    "The collections are small, since every core was shared: late interaction was encoded for one.",
)


def main() -> None:
    """Measure, print, and publish on request."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sparse", nargs="*", default=["medline", "cacm"])
    parser.add_argument("--late", nargs="*", default=["adi"])
    parser.add_argument("--publish", action="store_true")
    given = parser.parse_args()
    tables = []
    for channel in ("sparse", "late"):
        for name in getattr(given, channel):
            with tempfile.TemporaryDirectory() as folder:
                tables.append(compared(name, channel, Path(folder)))
            print(json.dumps(tables[-1].rows), flush=True)
    section = Section(
        "Beside other exact searches, on the same encodings",
        tables,
        NOTES,
        "OMP_NUM_THREADS=1 python -m benchmarks.channel_peers --publish",
        "channels",
        10,
        conditions=versions("sentence-transformers", "qdrant-client", "lancedb"),
    )
    print("\n".join(section_lines(section)))
    if given.publish:
        publish("channel-peers", section)


if __name__ == "__main__":
    main()
