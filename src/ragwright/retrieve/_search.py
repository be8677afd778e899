"""Retrieval as a flow: the route of a question, and the stages to its hits, in their order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from ..core import ChannelScore, Filter, FilterError, Hit, RetrieveError, SoftFilter, count_noun
from ..flow import Flow, Lookup, LookupReply, Search, SearchReply, branch, send
from ..models import (
    NO_MODEL,
    Analyzer,
    AnalyzerOptions,
    WordTokenizer,
    detect_language,
    is_code,
    words,
)
from ._channels import candidates, check_question, prepare_query
from ._fusion import select_hits
from ._iterate import iterate
from ._options import LEAST_POOL, RetrieveOptions, RouteOptions, SelectOptions, select_depth
from ._query import (
    StructuredQuestion,
    ask_structured,
    json_object,
    object_schema,
    one_line,
    query_variants,
    visible_glossary,
)
from ._rerank import rerank_hits
from ._tables import QueryDatabase
from ._target import Candidates, Retrieved, StageHooks, Target, Variant, run_stages


def note_idle_exclusions(
    target: Target, filters: Sequence[Filter], soft: Sequence[SoftFilter] = ()
) -> Flow[tuple[str, ...]]:
    """A note for each excluding filter whose values are in no chunk.

    Values are looked up among the chunks under all other hard filters, so that hidden values count
    as unknown. Ranges are not checked. Call it after a search under these filters succeeded, so
    that they have no other fault.
    """
    hard = [
        (condition, [*filters[:at], *filters[at + 1 :]]) for at, condition in enumerate(filters)
    ]
    soft_conditions = [(condition.condition, list(filters)) for condition in soft]
    notes = []
    for condition, others in (*hard, *soft_conditions):
        if not (condition.exclude and condition.values):
            continue
        positive = (*others, replace(condition, exclude=False))
        try:
            yield from send(Search(target.snapshot, "keyword", 0, filters=positive), SearchReply)
        except FilterError as error:
            among = " among the chunks that the other filters allow" if others else ""
            hint = f" ({error.hint})" if error.hint else ""
            notes.append(f"{condition} excludes nothing{among}: {error.what}{hint}")
    return tuple(notes)


def retrieve(
    query: str,
    target: Target,
    options: RetrieveOptions,
    hooks: StageHooks | None = None,
    keywords: str = "",
) -> Flow[Retrieved]:
    """The ``top_k`` chunks that answer a query best, ranks from 1.

    The stages, all optional: rewording, search and fusion, reranking, selection; and iterations of
    these. Each hit carries, per channel that found it, its rank and score there. ``hooks`` may
    observe or change the hits between stages. ``keywords`` is searched by the keyword channel in
    place of the query, unless a method rewords the query.

    Raises:
        RetrieveError: The query is empty or too long, or needs vectors that the index does not
            have.
        FilterError: A filter names an unknown field.
        ConfigError: A stage's model is missing.
        ModelError: The embedding model fails, or a chat or reranking model has no key or refuses
            the request. Other failures of these two become notes.
        PluginError: A stage of a plug-in fails.
    """
    check_question(query)
    if options.context_tokens is not None:  # as many as fit; their number is not known yet
        most = options.pool or LEAST_POOL
        options = replace(options, pool=most, top_k=most)
    if not options.iterate.model:
        result = yield from _round(query, target, options, hooks, keywords)
    else:
        # A hop's query was written for the search: only the question is reworded.
        hop = replace(options, query=replace(options.query, methods=()))

        def run_hop(text: str) -> Flow[Retrieved]:
            hop_options = options if text == query else hop
            return (yield from _round(text, target, hop_options, hooks))

        result = yield from iterate(query, options.iterate, run_hop, options.top_k)
    return (yield from _select_and_cut(result, target, options, hooks))


def _round(
    query: str,
    target: Target,
    options: RetrieveOptions,
    hooks: StageHooks | None,
    keywords: str = "",
) -> Flow[Retrieved]:
    """One search: rewording, channels, reranking; as many hits as selection reads."""
    variants: str | tuple[Variant, ...] = query
    question = ""
    notes: list[str] = []
    if options.query.methods:
        question, notes = prepare_query(query, options.max_query_chars)
        known = None
        if "glossary" in options.query.methods:
            known = yield from visible_glossary(question, target, options.filters)
        variants, more = yield from query_variants(
            question, target, options.query, known, options.max_query_chars
        )
        notes += more
    elif keywords:
        question, notes = prepare_query(query, options.max_query_chars)
        variants = (Variant(keywords[: options.max_query_chars], question),)
    later = [stage.depth for stage in target.stages]
    depth = max(select_depth(options.top_k, options.select), *later, 0)
    rerank = options.rerank
    watched = 0 if hooks is None else hooks.depth
    wide = max(depth, rerank.candidates if rerank.model else 0, watched)
    fused = yield from candidates(variants, target, replace(options, top_k=wide))
    # Wordings are for the search only: later stages use the question as asked.
    question = question or fused.query
    hits, more = yield from _fetch_hits(fused, target)
    notes += more
    if hooks is not None:
        hits = hooks.after_search(hits)
    if rerank.model:
        shown = hits[: rerank.candidates]
        ordered, more = yield from rerank_hits(question, shown, rerank)
        notes += more
        if ordered and ordered != shown:
            # Hits that were not reranked get the last reranked score, so that scores never rise.
            rest = (replace(hit, score=ordered[-1].score) for hit in hits[rerank.candidates :])
            hits = (*ordered, *rest)
    if hooks is not None:
        hits = hooks.after_rerank(hits)
    notes += fused.notes
    return Retrieved(question, hits[:depth], fused.mode, tuple(notes), fused.explanation)


def _select_and_cut(
    result: Retrieved, target: Target, options: RetrieveOptions, hooks: StageHooks | None
) -> Flow[Retrieved]:
    """The hits to return, after stages of plug-ins and selection."""
    hits, notes = result.hits, list(result.notes)
    if target.stages:
        hits = yield from run_stages(result.query, hits, target)
        hits = hits[: select_depth(options.top_k, options.select)]
    if options.select != SelectOptions():
        hits, more = select_hits(hits, options.top_k, options.select)
        notes += more
    hits = yield from add_opening(result.query, hits[: options.top_k], target, options.filters)
    hits = _cut_to_tokens(hits, target, options.context_tokens)
    if hooks is not None:
        hits = hooks.after_selection(hits)
    if options.filters or options.soft:
        soft = [soft_filter.soft() for soft_filter in options.soft]
        notes += yield from note_idle_exclusions(target, options.filters, soft)
    return replace(result, hits=hits, notes=tuple(dict.fromkeys(notes)))


def add_opening(
    question: str, hits: tuple[Hit, ...], target: Target, filters: Sequence[Filter]
) -> Flow[tuple[Hit, ...]]:
    """The hits, the last one replaced by the opening of a page that the question names.

    It is the page of the best hit whose title contains a code of the question, or ends a short
    question (*what is hybrid search*). A search may find examples on that page and miss its
    opening. A single hit stays.
    """
    query_words = [word.casefold() for word in words(question)]
    codes = {word.casefold() for word in words(question) if is_code(word, written=True)}
    page = None
    for hit in hits if len(hits) > 1 else ():
        title = [word.casefold() for word in words(hit.title)]
        short = title and len(query_words) <= len(title) + _ASKING_WORDS
        ends_with_title = short and query_words[-len(title) :] == title
        if codes.intersection(title) if codes else ends_with_title:
            page = hit.document_id
            break
    if page is None or any(hit.document_id == page and hit.start == 0 for hit in hits):
        return hits
    where = Filter("document_id", (page,))
    request = Search(target.snapshot, "all", 1, filters=(*filters, where))
    search_reply = yield from send(request, SearchReply)
    keys = tuple(key for key, _ in search_reply.candidates)
    if not keys or any(hit.chunk_id == keys[0] for hit in hits):
        return hits
    reply = yield from send(Lookup(target.snapshot, keys), LookupReply)
    last = hits[-1]
    return (*hits[:-1], *(replace(h, rank=last.rank, score=last.score) for h in reply.hits[:1]))


_ASKING_WORDS = 3
"""Most words that a question for a definition has beside the name of the thing."""


def _cut_to_tokens(hits: tuple[Hit, ...], target: Target, tokens: int | None) -> tuple[Hit, ...]:
    """The first hits that together fit the number of tokens, at least one."""
    if tokens is None:
        return hits
    counter = target.tokenizer or WordTokenizer()
    left = tokens
    for at, hit in enumerate(hits):
        left -= counter.count(hit.text)
        if left < 0:
            return hits[: max(at, 1)]
    return hits


def _fetch_hits(fused: Candidates, target: Target) -> Flow[tuple[tuple[Hit, ...], tuple[str, ...]]]:
    """The chunks of the candidates in their order, with the results of each channel, and notes."""
    best = fused.ranking
    if not best:
        return (), ()
    reply = yield from send(Lookup(target.snapshot, tuple(key for key, _ in best)), LookupReply)
    if len(reply.hits) != len(best):
        raise RetrieveError(
            f"{count_noun(len(best), 'chunk was', 'chunks were')} found, {len(reply.hits)} of "
            "them could be fetched",
            where=f"snapshot {target.snapshot}",
            hint="the index answers from two different states: refresh it",
        )
    places = [
        (name, {key: ChannelScore(rank, score) for rank, (key, score) in enumerate(ranking, 1)})
        for name, ranking in fused.channels.items()
    ]
    hits = []
    for rank, ((key, score), hit) in enumerate(zip(best, reply.hits, strict=True), 1):
        channels = {name: at[key] for name, at in places if key in at}
        hits.append(
            replace(hit, rank=rank, score=score, channels=channels, rung=fused.rungs.get(key))
        )
    return tuple(hits), reply.notes


RouteKind: TypeAlias = Literal["index", "sql", "corpus", "none"]


@dataclass(frozen=True, slots=True)
class Route:
    """The route of a question and the reason for it.

    Attributes:
        kind: ``index``, ``sql``, ``corpus`` or ``none``.
        reason: Why, for the reader.
        rewrite: The question should be rewritten before the search.
        split: It asks for several things that should be searched separately.
        database: The database of the route ``sql``.
        notes: Notes on faults.
        instead: Other routes that a dry run counts as the upper bound.
    """

    kind: RouteKind
    reason: str
    rewrite: bool = False
    split: bool = False
    database: str = ""
    notes: tuple[str, ...] = ()
    instead: tuple[RouteKind, ...] = ()


_PLAIN = Route("index", "")


@dataclass(frozen=True, slots=True)
class RouteScene:
    """The options of routing: the databases, and the chat model that answers."""

    model: str = ""
    databases: tuple[QueryDatabase, ...] = ()

    @property
    def usable(self) -> list[QueryDatabase]:
        """Databases that can be queried: a chat model writes the statements."""
        if self.model in {"", NO_MODEL}:
            return []
        return [database for database in self.databases if not database.problem]


_GREETINGS = """
hi hello hey greetings thanks thank thx cheers bye goodbye morning evening bonjour bonsoir salut
coucou merci hallo servus moin danke dank tschüss wiedersehen hola gracias adiós
"""
_AROUND_GREETINGS = """
good day night dear there all everyone again you so very much many a lot for the your that this it
help helps helped works answer see later à tous tout le monde beaucoup bien pour votre aide au
revoir guten tag morgen abend zusammen vielen schön sehr für die hilfe ihre auf buenos buenas días
tardes noches muchas mil por la ayuda
"""
_COURTESIES = frozenset(_GREETINGS.split())
_COURTESY_WORDS = _COURTESIES.union(_AROUND_GREETINGS.split())
"""All words of a greeting, thanks or a farewell, in four languages."""


def is_courtesy(message: str) -> bool:
    """True if a message greets, thanks or says goodbye and no more: nothing is looked up for it."""
    held = {word.casefold() for word in words(message)}
    return bool(held & _COURTESIES) and held <= _COURTESY_WORDS


def route(question: str, options: RouteOptions, scene: RouteScene | None = None) -> Flow[Route]:
    """The route of a question that stands alone.

    ``auto`` takes the database of which the question names something, else the index. With
    ``model``, the reply is read strictly; if it cannot be used even after one retry, the index
    answers, with a note. A dry run counts at least the plain index, and at most every route that
    the model may choose (their sum, since the most expensive is not known here), with rewriting and
    splitting.
    """
    seen = scene or RouteScene()
    broken = tuple(
        f"the database {d.options.name} cannot be queried: {d.problem}"
        for d in seen.databases
        if d.problem
    )
    plain = replace(_PLAIN, notes=broken)
    if options.method == "index":
        return _PLAIN
    if options.method == "auto":
        return _named_database(question, seen) or plain
    model = options.model or seen.model
    if model in {"", NO_MODEL}:
        note = "no chat model is set that routes, or reads every chunk: the index answers"
        return replace(plain, notes=(*broken, note))
    reply = yield from ask_structured(_question_for(model, question, seen))
    planned = yield from branch(0, 0, 1)
    if planned is not None:
        return _upper_bound(seen) if planned else _PLAIN
    if reply.value is None:
        note = f"the router's reply could not be used ({reply.why}): the index answers"
        return replace(plain, notes=(*broken, note))
    return replace(reply.value, reason=f"{reply.value.reason} ({model})")


def _upper_bound(scene: RouteScene) -> Route:
    """The upper bound of a routed question: the index, every chunk, and a failing database."""
    bound = replace(_PLAIN, rewrite=True, split=True, instead=("corpus",))
    if not scene.usable:
        return bound
    largest = max(scene.usable, key=lambda d: sum(len(t.columns) for t in d.tables))
    return replace(bound, kind="sql", database=largest.options.name)


def _named_database(question: str, scene: RouteScene) -> Route | None:
    """The route to a database of which a question names a keyword, a table or a column."""
    analyzer = Analyzer(AnalyzerOptions(language=detect_language([question], least=2)))
    tokens = set(analyzer.tokens(question))
    for database in scene.usable:
        columns = (column.name for table in database.tables for column in table.columns)
        tables = (table.name.rpartition(".")[2] for table in database.tables)
        for name in (*database.options.keywords, *tables, *columns):
            if name[0] != "_" and _names_all_words(analyzer, tokens, name):
                chosen = database.options.name
                reason = f"it names {name!r} of the database {chosen}"
                return Route("sql", reason, database=chosen)
    return None


_KEYS: dict[str, type] = {
    "route": str,
    "database": str,
    "reason": str,
    "rewrite": bool,
    "split": bool,
}


def _names_all_words(analyzer: Analyzer, tokens: set[str], name: str) -> bool:
    """True where a question holds every word of a name (``customer_id``, ``placedOn``)."""
    bare = re.sub(r"\(.*?\)", " ", name)  # a unit
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", bare.replace("_", " ").replace("-", " "))
    name_tokens = set(analyzer.tokens(spaced))
    return bool(name_tokens) and max(map(len, name_tokens)) > 1 and name_tokens <= tokens


def _question_for(model: str, question: str, scene: RouteScene) -> StructuredQuestion[Route]:
    """The router's prompt, and the form of its reply."""
    usable = scene.usable
    names = [database.options.name for database in usable]
    kinds = ["index", "corpus", "none", *(["sql"] if usable else [])]

    def parse(text: str) -> Route:
        reply = json_object(text, _KEYS)
        if reply["route"] not in kinds:
            raise ValueError(f"the route {reply['route']!r} is not one of {', '.join(kinds)}")
        chosen = reply["database"] if reply["route"] == "sql" else ""
        if reply["route"] == "sql" and chosen not in names:
            raise ValueError(f"the database {chosen!r} is not one of {', '.join(names)}")
        return Route(
            reply["route"], one_line(reply["reason"], 500), reply["rewrite"], reply["split"], chosen
        )

    described = [
        {
            "name": d.options.name,
            "description": d.options.description,
            "tables": [table.name for table in d.tables],
        }
        for d in usable
    ]
    schema = object_schema(
        {
            "route": {"type": "string", "enum": sorted(kinds)},
            "database": {"type": "string", "enum": sorted(["", *names])},
            "reason": {"type": "string"},
            "rewrite": {"type": "boolean"},
            "split": {"type": "boolean"},
        }
    )
    values = {"question": question, "databases": described}
    # names of tables of sheets are texts of their documents
    sources = tuple(name for database in usable for name in database.documents)
    return StructuredQuestion(model, "route", values, parse, _PLAIN, schema=schema, sources=sources)
