"""Served answers with votes, stored without a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragwright import Workbench
from ragwright.answer import marks_of_answer
from ragwright.drafting import NewBatch, Origin, Output


def serve_answer(
    bench: Workbench,
    question: str,
    votes: str = "",
    *,
    scope: str = "",
    asked_before: Sequence[str] = (),
    correction: str = "",
    passages: Sequence[int] = (),
) -> str:
    """Answer a question, store the answer as the server does, and vote on it; its id.

    ``votes`` holds a sign for each reader: ``+`` accepts, ``-`` rejects. The correction and the
    passages are a further reader's.
    """
    answer = bench.ask(question)
    marks = marks_of_answer(answer, lambda *_: "")
    cited = [
        {
            "number": span.number,
            "document_id": span.citation.document_id,
            "start": span.citation.start,
            "end": span.citation.end,
            "quote": span.quote,
        }
        for span in marks.spans
    ]
    uses = tuple(hit.chunk_id for hit in answer.hits)
    request: dict[str, Any] = {"question": question, "persona": ""}
    if asked_before:
        request["asked_before"] = list(asked_before)
    outputs = (
        Output("prompt", "[]", "snippet", uses=uses),
        Output("text", marks.text, "snippet", prompt="p1", uses=uses),
    )
    details = {"citations": cited, "abstained": answer.abstained}
    batch = NewBatch("answer", request, outputs, answer.hits, details=details)
    output = f"{bench.outputs.add(batch, Origin(scope=scope))}.1"
    for reader, sign in enumerate(votes):
        verdict = "accepted" if sign == "+" else "rejected"
        bench.outputs.respond(output, by=f"reader {reader}", verdict=verdict)  # type: ignore[arg-type]
    if correction or passages:
        bench.outputs.respond(output, by="expert", correction=correction, passages=passages)
    return output
