"""Context consolidation: passages as they are, or summaries that a model makes of them first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from ..core import Hit, Usage, passage_values, render, shipped_mapping
from ..flow import ChatReply, Flow, Message, chat, gather
from ..models import Tokenizer
from ._context import fit_hits

Method: TypeAlias = Literal["concatenate", "summarise_each", "running", "tree"]

_NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class ConsolidateOptions:
    """How a context is made shorter before the answer is written."""

    method: Method
    model: str
    budget: int
    words: int = 120
    tokenizer: Tokenizer | None = None


@dataclass(frozen=True, slots=True)
class Consolidated:
    """A context ready for the prompt.

    Attributes:
        hits: Passages behind it, in prompt order; a summary of one passage keeps its address.
        summary: One text over all passages with their ``[n]``; empty where the passages
            themselves are shown.
        notes: What was left out.
        usage: Sum over the calls made.
        cached: True where every call was answered from the reply store.
    """

    hits: tuple[Hit, ...]
    summary: str = ""
    notes: tuple[str, ...] = ()
    usage: Usage = Usage()
    cached: bool = True


def consolidate(
    question: str, hits: Sequence[Hit], options: ConsolidateOptions
) -> Flow[Consolidated]:
    """The context for a question by one of four methods.

    ``concatenate`` shows the passages that fit. ``summarise_each`` replaces each by its
    summary (calls side by side) and drops those without bearing on the question. ``running``
    carries notes from passage to passage. ``tree`` summarises each, then merges summaries
    until one is left. Whatever is dropped is named in the notes.
    """
    if options.method == "concatenate" or not hits:
        kept, notes = fit_hits(hits, options.budget, options.tokenizer)
        return Consolidated(kept, notes=notes)
    if options.method == "running":
        return (yield from _running(question, hits, options))
    replies = yield from gather([_each(question, hit, options) for hit in hits])
    usage = sum((r.usage for r in replies), Usage())
    cached = all(r.cached for r in replies)
    bearing = [
        (hit, reply.text.strip())
        for hit, reply in zip(hits, replies, strict=True)
        if reply.text.strip().strip(".").casefold() not in {"", _NOTHING}
    ]
    notes = _left_out(len(hits) - len(bearing))
    if options.method == "summarise_each":
        short = [replace(hit, text=text) for hit, text in bearing]
        kept, dropped = fit_hits(short, options.budget, options.tokenizer)
        return Consolidated(kept, notes=(*notes, *dropped), usage=usage, cached=cached)
    kept = tuple(hit for hit, _ in bearing)
    texts = [f"[{number}] {text}" for number, (_, text) in enumerate(bearing, 1)]
    while len(texts) > 1:
        groups = _groups(texts, options)
        merged = yield from gather([_merge(question, group, kept, options) for group in groups])
        usage = sum((r.usage for r in merged), usage)
        cached = cached and all(r.cached for r in merged)
        texts = [reply.text.strip() for reply in merged]
    return Consolidated(kept, "".join(texts), notes, usage, cached)


def _running(question: str, hits: Sequence[Hit], options: ConsolidateOptions) -> Flow[Consolidated]:
    summary, usage, cached = "", Usage(), True
    for number, hit in enumerate(hits, 1):
        values = {"summary": summary, "passages": [passage_values(number, hit)]}
        reply = yield from _ask("running", question, values, [hit], options)
        summary = reply.text.strip() or summary
        usage, cached = usage + reply.usage, cached and reply.cached
    return Consolidated(tuple(hits), summary, (), usage, cached)


def _each(question: str, hit: Hit, options: ConsolidateOptions) -> Flow[ChatReply]:
    values = {"passages": [passage_values(1, hit)]}
    return (yield from _ask("each", question, values, [hit], options))


def _merge(
    question: str, notes: Sequence[str], hits: Sequence[Hit], options: ConsolidateOptions
) -> Flow[ChatReply]:
    return (yield from _ask("merge", question, {"notes": notes}, hits, options))


def _ask(
    template: str,
    question: str,
    values: Mapping[str, Any],
    hits: Sequence[Hit],
    options: ConsolidateOptions,
) -> Flow[ChatReply]:
    data = shipped_mapping("answer", "prompts/consolidate.yaml")
    text = render(data.text(template), {"question": question, "words": options.words, **values})
    return (
        yield from chat(
            options.model,
            [Message("user", text)],
            {"temperature": 0.0, "max_tokens": _most_tokens(options)},
            sources=list(dict.fromkeys(hit.document_id for hit in hits)),
        )
    )


def _groups(texts: Sequence[str], options: ConsolidateOptions) -> list[list[str]]:
    """Texts in groups of at least two that fit the budget at their longest.

    The size follows from the settings alone, so that a forecast counts the same calls.
    """
    size = max(2, options.budget // _most_tokens(options))
    groups = [list(texts[i : i + size]) for i in range(0, len(texts), size)]
    if len(groups) > 1 and len(groups[-1]) == 1:
        groups[-2] += groups.pop()
    return groups


def _most_tokens(options: ConsolidateOptions) -> int:
    """Tokens a summary may have: three a word, so that hardly any is cut."""
    return options.words * 3


def _left_out(count: int) -> tuple[str, ...]:
    if not count:
        return ()
    return (f"{count} passages left out: their summary found nothing on the question",)
