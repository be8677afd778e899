"""Batches of drafts for the tests of what is made of them."""

from __future__ import annotations

from collections.abc import Sequence

from ragwright.core import Filter, Hit, RelaxationLevel, Usage
from ragwright.drafting import DraftBatch, DraftPrompt, DraftRequest, DraftText

REQUEST = DraftRequest("Jane Doe", "donate", ("health care",), ("urgent",), "short", 2)


def hit(rank: int, document: str) -> Hit:
    text = f"the text of {document}"
    place = (None, 0, len(text), text)
    rung = RelaxationLevel(8.0, (Filter("client", ("Jane Doe",)),), (Filter("tone", ("urgent",)),))
    chunk = f"{document}:0-{len(text)}"
    return Hit(rank, 1.0 / rank, document, chunk, f"records:{document}", "", *place, rung=rung)


def drafted(
    texts: Sequence[str] = ("Give now", "Give today"),
    documents: Sequence[str] = ("record:1", "record:2"),
    request: DraftRequest = REQUEST,
    model: str = "m",
    system: str = "You write texts.",
) -> DraftBatch:
    """A batch: one prompt a model with an example a document, and the texts that came of it."""
    hits = tuple(hit(rank, name) for rank, name in enumerate(documents, 1))
    turns = [("system", system)]
    for example in hits:
        turns += [("user", "An example"), ("assistant", example.text)]
    turns.append(("user", f"Write {len(texts)} texts"))
    usage = Usage(1, 100, 20, 0.5, 1.25)
    prompt = DraftPrompt(
        model,
        messages=tuple(turns),
        examples=tuple(example.chunk_id for example in hits),
        wanted=len(texts),
        reply="\n".join(f"{at}. {text}" for at, text in enumerate(texts, 1)),
        usage=usage,
    )
    return DraftBatch(
        request,
        tuple(DraftText(text, model) for text in texts),
        (prompt,),
        hits,
        query="A donate text from Jane Doe about health care",
        mode="keyword",
        models=(model,),
        notes=("a note",),
        usage=usage,
    )
