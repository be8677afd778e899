"""The texts of a drafting prompt: the shipped ones, or those of a custom file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..answer import DraftOptions, Window
from ..core import (
    Filter,
    FilterError,
    Hit,
    Mapped,
    PromptError,
    RetrieveError,
    count_noun,
    load_shipped_mapping,
    read_mapping,
    render,
)
from ..flow import Flow, Lookup, LookupReply, Vector, send
from ..records import Rollups, Rules, TextFormat
from ..retrieve import (
    Retrieved,
    RetrieveOptions,
    SoftFilterOptions,
    Target,
    retrieve,
    similarities,
    word_similarities,
)
from ._records import DraftRequest

_KEYS = ("system", "example", "request", "under", "between", "from")
_BLANK_LINES = re.compile(r"\n{3,}")


def read_wording(file: str = "") -> Mapped:
    """Read the prompt's texts in a YAML file, the shipped ones for an empty name.

    Raises:
        PromptError: The file is wrong, with file and line.
    """
    shipped = load_shipped_mapping("answer", "prompts/draft.yaml")
    if not file:
        return shipped
    data = read_mapping(Path(file))
    data.check_keys(_KEYS, "a prompt file for drafts")
    for key in data.values:
        data.text(key)
    return data


def render_wording(wording: Mapped, key: str, values: Mapping[str, Any]) -> str:
    """Render a text of the wording; missing ones are the shipped ones.

    Raises:
        PromptError: The template fails, with its file and line.
    """
    data = wording if key in wording.values else read_wording()
    try:
        text = render(data.text(key), values)
    except PromptError as error:
        raise PromptError(
            f"{key!r}: {error.what}", where=data.place(key), hint=error.hint
        ) from error
    return _BLANK_LINES.sub("\n\n", "\n".join(line.rstrip() for line in text.split("\n")))


RECORDS = Filter("kind", ("record",))
"""The filter that separates records from other documents of an index."""

ONE_PER_CALL = ("long",)
"""Length groups with one call per text and its own examples."""

MOST_TEXTS = 200
"""Most texts of one request."""


@dataclass(frozen=True, slots=True)
class DraftPlan:
    """Settings of drafting, without request and index.

    Attributes:
        options: Section ``answer.draft``.
        models: Models that write, in order; none for a preview of the prompts.
        format: Text format of a request from a record's fields.
        rollups: Spellings of clients, and their biographies.
        rules: Length groups.
        retrieve: Section ``retrieve``: its hard filters, and the fusion of its channels.
        window_of: Returns a model's window by its name.
        preview: Build prompts without sending them.
        notes: Notes added to every batch.
        wording: The prompt's texts, read from the file that the options name.
    """

    options: DraftOptions = DraftOptions()
    models: tuple[str, ...] = ()
    format: TextFormat = TextFormat("", ())
    rollups: Rollups = field(default_factory=Rollups)
    rules: Rules = field(default_factory=Rules)
    retrieve: RetrieveOptions = RetrieveOptions()
    window_of: Callable[[str], Window] | None = None
    preview: bool = False
    notes: tuple[str, ...] = ()
    wording: Mapped = field(default_factory=read_wording)

    def __post_init__(self) -> None:
        """Read the prompt's file, if the options name one; once for all drafts.

        Raises:
            PromptError: The file is wrong, with file and line.
        """
        file = self.options.prompt
        if file and self.wording.where != file:
            object.__setattr__(self, "wording", read_wording(file))

    def window(self, model: str) -> Window:
        """Return the window of a model; unknown without a model."""
        return Window() if self.window_of is None or not model else self.window_of(model)


@dataclass(frozen=True, slots=True)
class Example:
    """A record as an example: its request, its text, and its source."""

    request: str
    length: str
    text: str
    hit: Hit


@dataclass(frozen=True, slots=True)
class Pool:
    """Examples to choose from, best first, with their similarities.

    ``similarity`` has shape (examples, examples); None if not needed.
    """

    retrieved: Retrieved
    examples: tuple[Example, ...]
    similarity: Any = None


def settle_request(request: DraftRequest, plan: DraftPlan) -> DraftRequest:
    """Return the request with the client's normalised name and a valid length group.

    Raises:
        PromptError: An unknown length group, or too many texts.
    """
    client = plan.rollups.canonical(request.client.strip())
    groups = [group.name for group in plan.rules.length_groups]
    if request.length and request.length not in groups:
        raise PromptError(
            f"unknown length group {request.length!r}",
            where="--length",
            hint=f"one of {', '.join(groups)} (records/rules.yaml: length_groups)",
        )
    if request.count > MOST_TEXTS:
        raise PromptError(
            f"{count_noun(request.count, 'text')} in one request",
            hint=f"request at most {MOST_TEXTS}",
        )
    return replace(
        request,
        client=client,
        ask_type=request.ask_type.strip(),
        topics=tuple(dict.fromkeys(t.strip() for t in request.topics if t.strip())),
        tones=tuple(dict.fromkeys(t.strip() for t in request.tones if t.strip())),
        headlines=tuple(" ".join(h.split()) for h in request.headlines if h.strip()),
    )


def biography_of(request: DraftRequest, plan: DraftPlan) -> str:
    """Return the client's biography if requested and available; else an empty text."""
    return (plan.rollups.biography(request.client) or "") if request.bio and request.client else ""


def check_biography(
    request: DraftRequest, target: Target, plan: DraftPlan, typed: str = ""
) -> Flow[None]:
    """Refuse a request for a missing biography; ``typed`` as in `find_pool`.

    Under hard filters, that of a client without a record that meets them counts as missing.

    Raises:
        PromptError: There is none.
    """
    if not request.bio:
        return
    if biography_of(request, plan):
        if not plan.retrieve.filters:
            return
        if (yield from _has_records(request.client, target, plan)):
            return
    client = typed or request.client
    raise PromptError(
        f"no biography of {client!r}" if client else "--bio needs --client",
        where="--bio",
        hint="write it into the file given in records/rollups.yaml under `biographies`, or leave "
        "--bio out",
    )


def _has_records(client: str, target: Target, plan: DraftPlan) -> Flow[bool]:
    """True if a client has a record under the hard filters.

    Others must stay hidden: the file of rollups covers all tenants.
    """
    options = RetrieveOptions(
        top_k=1,
        pool=1,
        search="keyword",
        filters=(*plan.retrieve.filters, RECORDS, Filter("client", (client,))),
    )
    try:
        yield from retrieve(client, target, options)
    except FilterError:
        return False
    return True


def fields_of(request: DraftRequest) -> dict[str, Any]:
    """Return the fields of a request as in records, without empty ones."""
    fields = {
        "client": request.client,
        "ask_type": request.ask_type,
        "topic": request.topics,
        "tone": request.tones,
        "length": request.length,
    }
    return {name: value for name, value in fields.items() if value}


def write_request_text(request: DraftRequest, plan: DraftPlan) -> str:
    """Return the request in the form of records' texts, for the search and the prompt."""
    fields = fields_of(request)
    joined = ", ".join(
        value if isinstance(value, str) else ", ".join(value) for value in fields.values()
    )
    text = plan.format.request(fields).strip() or joined
    if not text:
        raise PromptError(
            "the request is empty", hint="give a client, an ask type, topics, tones or a length"
        )
    return text


def searching_for(request: DraftRequest, plan: DraftPlan) -> RetrieveOptions:
    """Return one relaxed search: records only, the request's fields as weighted soft filters."""
    options, base, fields = plan.options, plan.retrieve, fields_of(request)
    soft = [
        SoftFilterOptions(name, (value,), weight=weight)
        for name in _FLAG
        for value in ([fields[name]] if isinstance(fields.get(name), str) else fields.get(name, ()))
        if (weight := getattr(options.weights, name)) > 0
    ]
    return RetrieveOptions(
        top_k=options.pool,
        fusion=base.fusion,
        keyword_share=base.keyword_share,
        weights=base.weights,
        pool=options.pool,
        filters=(*base.filters, RECORDS),
        soft=tuple(soft),
        threshold=options.threshold,
        unfiltered=options.unfiltered,
        max_query_chars=base.max_query_chars,
    )


def find_pool(
    request: DraftRequest, target: Target, plan: DraftPlan, typed: str = ""
) -> Flow[Pool]:
    """Find the records nearest to a settled request, as examples.

    ``typed`` is the client as typed: errors show only this spelling.

    Raises:
        PromptError: An unknown client, ask type, topic or tone, with the nearest ones; fewer
            records than examples.
        RetrieveError: The index holds no records.
    """
    options = searching_for(request, plan)
    try:
        retrieved = yield from _search_relaxed(request, target, plan, options)
    except FilterError as error:
        if typed:
            request = replace(request, client=typed)
        raise _unknown_value_error(error, request, plan) from error
    examples = tuple(
        example for hit in retrieved.hits if (example := _example_of(hit, plan)).text.strip()
    )
    if len(examples) < plan.options.examples:
        hard_filters = ", ".join(str(hard_filter) for hard_filter in options.filters)
        bound = "" if options.threshold is None else f" over the threshold of {options.threshold:g}"
        raise PromptError(
            f"{count_noun(len(examples), 'record')} found{bound} under {hard_filters}, but "
            f"{plan.options.examples} examples are needed",
            where="answer.draft.examples",
            hint=f"show fewer examples (--examples {len(examples)}), lower answer.draft.threshold, "
            "switch answer.draft.unfiltered on, leave filters out, or search by vectors too",
        )
    if request.length not in ONE_PER_CALL:
        return Pool(retrieved, examples)
    texts = [example.text for example in examples]
    vectors: Vector | None = None
    if target.model:
        ids = tuple(example.hit.chunk_id for example in examples)
        vectors = (yield from send(Lookup(target.snapshot, ids, vectors=True), LookupReply)).vectors
    if vectors is not None:
        similarity_matrix = similarities(vectors)
    elif target.analyzer is not None:
        similarity_matrix = word_similarities(texts, target.analyzer)
    else:
        raise RetrieveError("neither vectors nor words: examples cannot be compared")
    return Pool(retrieved, examples, similarity_matrix)


def _search_relaxed(
    request: DraftRequest, target: Target, plan: DraftPlan, options: RetrieveOptions
) -> Flow[Retrieved]:
    """Search; a valid length without any record is relaxed beforehand."""
    query = write_request_text(request, plan)
    try:
        return (yield from retrieve(query, target, options))
    except FilterError as error:
        if error.field != "length" or not error.values or not _is_requested(error, request, plan):
            raise
    others = tuple(soft_filter for soft_filter in options.soft if soft_filter.field != "length")
    retrieved = yield from retrieve(query, target, replace(options, soft=others))
    note = f"no record is {request.length}: the examples are of other lengths"
    return replace(retrieved, notes=(*retrieved.notes, note))


def _example_of(hit: Hit, plan: DraftPlan) -> Example:
    begins = hit.metadata.get("message_at", 0)
    message_start = max(0, int(begins) - hit.start) if isinstance(begins, int | float | str) else 0
    metadata: Mapping[str, Any] = hit.metadata
    request = plan.format.request(metadata).strip() or hit.text[:message_start].strip()
    length = metadata.get("length", "")
    return Example(
        request, length if isinstance(length, str) else "", hit.text[message_start:].strip(), hit
    )


def _unknown_value_error(
    error: FilterError, request: DraftRequest, plan: DraftPlan
) -> RetrieveError | PromptError:
    name, values = error.field, error.values
    label = name.replace("_", " ")
    if name == "kind" and values in ((), RECORDS.values):
        if excluding := [
            str(hard)
            for hard in plan.retrieve.filters
            if hard.exclude and hard.field == name and {*map(str, hard.values)} & {*RECORDS.values}
        ]:
            return RetrieveError(
                f"the filter {', '.join(excluding)} excludes all records",
                where="retrieve.filters",
                hint="to keep records out of answers only, use `ask --filter`: drafts need them",
            )
        return RetrieveError(
            "the index holds no records", hint="run: ragwright records refresh   (then draft again)"
        )
    if not _is_requested(error, request, plan):
        return error
    if not values:
        return PromptError(
            f"no record has any {label}",
            where=_FLAG[name],
            hint=f"leave {_FLAG[name]} out, or run `ragwright records check`",
        )
    shown_values = (request.client,) if name == "client" else values
    filters = ", ".join(str(hard_filter) for hard_filter in plan.retrieve.filters)
    problem = f"no record has the {label} {' or '.join(map(repr, shown_values))}"
    return PromptError(
        problem + (f" under {filters}" if filters else ""), where=_FLAG[name], hint=error.hint
    )


def _is_requested(error: FilterError, request: DraftRequest, plan: DraftPlan) -> bool:
    """True if the unknown value is part of the request, not of a hard filter."""
    hard = [
        tuple(map(str, hard.values))
        for hard in plan.retrieve.filters
        if hard.field == error.field and not hard.exclude
    ]
    return error.field in fields_of(request) and error.values not in hard


_FLAG = {
    "client": "--client",
    "ask_type": "--ask",
    "length": "--length",
    "topic": "--topic",
    "tone": "--tone",
}
"""Field of a request -> its flag, in the order of the search's filters."""
