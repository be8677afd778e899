"""Judged metrics of ragas over scripted replies, run in ragas' environment.

    RAGAS_PYTHON -m benchmarks.peers.ragas_judged INPUT OUT

``INPUT`` is ``{"url", "api", "rows": [{"id", "user_input", "response", "reference",
"retrieved_contexts"}]}``; :mod:`benchmarks.beside_ragas` writes it. ``api`` is ``collections``
(``metric.ascore``, a row at a time, what it raises kept) or ``evaluate`` (``ragas.evaluate`` as
it comes). ``OUT`` gets, for each metric and row, a value or null, how it ended, and for
faithfulness the statements; and ``more``: the means printed, a batch with a refusal in it. Imports
nothing of ragwright.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

OFF = {"RAGAS_DO_NOT_TRACK": "true", "DO_NOT_TRACK": "1", "LANGCHAIN_TRACING_V2": "false"}
os.environ.update(OFF)  # before ragas is imported: no telemetry

WIDTH = 8
FIELDS: Mapping[str, tuple[str, ...]] = {
    "faithfulness": ("user_input", "response", "retrieved_contexts"),
    "answer_relevancy": ("user_input", "response"),
    "context_recall": ("user_input", "retrieved_contexts", "reference"),
    "context_precision_with_reference": ("user_input", "reference", "retrieved_contexts"),
    "context_precision_without_reference": ("user_input", "response", "retrieved_contexts"),
    "context_relevance": ("user_input", "retrieved_contexts"),
}

Row = Mapping[str, Any]


async def by_collections(url: str, rows: Sequence[Row]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Every metric of ``ragas.metrics.collections`` on every row."""
    from openai import AsyncOpenAI
    from ragas.embeddings import OpenAIEmbeddings  # type: ignore[import-not-found]
    from ragas.llms import llm_factory  # type: ignore[import-not-found]
    from ragas.metrics import collections  # type: ignore[import-not-found]

    client = AsyncOpenAI(base_url=url, api_key="none")
    llm = llm_factory("scripted", client=client)
    embeddings = OpenAIEmbeddings(client=client, model="scripted")
    metrics = {
        "faithfulness": collections.Faithfulness(llm=llm),
        "answer_relevancy": collections.AnswerRelevancy(llm=llm, embeddings=embeddings),
        "context_recall": collections.ContextRecall(llm=llm),
        "context_precision_with_reference": collections.ContextPrecisionWithReference(llm=llm),
        "context_precision_without_reference": collections.ContextPrecisionWithoutReference(
            llm=llm
        ),
        "context_relevance": collections.ContextRelevance(llm=llm),
    }
    listed = _listening(metrics["faithfulness"], lambda question, response: response)
    gate = asyncio.Semaphore(WIDTH)

    async def score(name: str, row: Row) -> dict[str, Any]:
        async with gate:
            try:
                result = await metrics[name].ascore(**{f: row[f] for f in FIELDS[name]})
            except Exception as error:
                return {"value": None, "ended": f"raises {type(error).__name__}"}
        return _value(result.value)

    by_metric: dict[str, Any] = {}
    for name in metrics:
        scored = await asyncio.gather(*(score(name, row) for row in rows))
        by_metric[name] = dict(zip((row["id"] for row in rows), scored, strict=True))
    _with_statements(by_metric["faithfulness"], rows, listed)
    return by_metric, {
        "batch": await _batch(metrics["faithfulness"], rows, by_metric["faithfulness"])
    }


async def _batch(metric: Any, rows: Sequence[Row], alone: Mapping[str, Any]) -> dict[str, Any]:
    """What ``abatch_score`` returns for rows of which one raises by itself."""
    good = [row for row in rows if alone[row["id"]]["value"] is not None]
    bad = [row for row in rows if alone[row["id"]]["ended"].startswith("raises")]
    chosen = [{f: row[f] for f in FIELDS["faithfulness"]} for row in [*good[:19], *bad[:1]]]
    try:
        returned = await metric.abatch_score(chosen)
    except Exception as error:
        return {"rows": len(chosen), "returned": 0, "ended": f"raises `{type(error).__name__}`"}
    return {"rows": len(chosen), "returned": len(returned), "ended": "returns"}


def by_evaluate(url: str, rows: Sequence[Row]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Every metric of ``ragas.metrics`` through ``evaluate``, defaults but for ``n``.

    ``bypass_n`` makes it ask three times for its three questions: the server, as many do, gives
    one reply a request whatever ``n`` says.
    """
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings  # type: ignore[import-not-found]
    from ragas import EvaluationDataset, evaluate  # type: ignore[import-not-found]
    from ragas.embeddings import LangchainEmbeddingsWrapper
    from ragas.llms import LangchainLLMWrapper
    from ragas.metrics import (
        Faithfulness,
        LLMContextPrecisionWithoutReference,
        LLMContextPrecisionWithReference,
        LLMContextRecall,
        ResponseRelevancy,
    )

    chat = ChatOpenAI(model="scripted", base_url=url, api_key="none")
    embeddings = OpenAIEmbeddings(
        model="scripted", base_url=url, api_key="none", check_embedding_ctx_length=False
    )
    faithfulness = Faithfulness()
    listed = _listening(faithfulness, lambda row, callbacks: row["response"])
    metrics = {
        "faithfulness": faithfulness,
        "answer_relevancy": ResponseRelevancy(),
        "context_recall": LLMContextRecall(),
        "context_precision_with_reference": LLMContextPrecisionWithReference(),
        "context_precision_without_reference": LLMContextPrecisionWithoutReference(),
    }
    result = evaluate(
        EvaluationDataset.from_list([{k: v for k, v in row.items() if k != "id"} for row in rows]),
        metrics=list(metrics.values()),
        llm=LangchainLLMWrapper(chat, bypass_n=True),
        embeddings=LangchainEmbeddingsWrapper(embeddings),
        show_progress=False,
    )
    by_metric = {
        name: {
            row["id"]: _value(scores[metric.name])
            for row, scores in zip(rows, result.scores, strict=True)
        }
        for name, metric in metrics.items()
    }
    _with_statements(by_metric["faithfulness"], rows, listed)
    return by_metric, {"printed": {key: float(value) for key, value in result._repr_dict.items()}}


def _listening(metric: Any, response_of: Any) -> dict[str, list[str]]:
    """Keep the statements that a faithfulness metric lists, by the response."""
    kept: dict[str, list[str]] = {}
    inner = metric._create_statements

    async def listen(*given: Any) -> Any:
        created = await inner(*given)
        kept[response_of(*given)] = list(getattr(created, "statements", created))
        return created

    metric._create_statements = listen
    return kept


def _with_statements(
    by_metric: dict[str, Any], rows: Sequence[Row], listed: Mapping[str, list[str]]
) -> None:
    for row in rows:
        by_metric[row["id"]]["claims"] = listed.get(row["response"])


def _value(value: float) -> dict[str, Any]:
    if value is None or math.isnan(value):
        return {"value": None, "ended": "NaN"}
    return {"value": float(value), "ended": "value"}


def main() -> None:
    """Score and write."""
    warnings.simplefilter("ignore")
    given = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    if given["api"] == "collections":
        by_metric, more = asyncio.run(by_collections(given["url"], given["rows"]))
    else:
        by_metric, more = by_evaluate(given["url"], given["rows"])
    versions = {name: version(name) for name in ("ragas", "openai", "instructor", "langchain-core")}
    out = json.dumps({"scores": by_metric, "more": more, "versions": versions}, ensure_ascii=False)
    Path(sys.argv[2]).write_text(out, "utf-8")


if __name__ == "__main__":
    main()
