"""A project, opened: one object for building, searching, asking and measuring."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from .. import answer, flow, ingest, retrieve
from ..core import ConfigError, StoreDamagedError, discard
from ..drafting import Drafting, ProjectRecords, drafts, forecast_drafts, run_drafts
from ..experiment import (
    Evaluating,
    evaluate_testset,
    forecast_stored,
    forecast_testset,
    score_stored,
    stored_evaluation,
)
from ..project import (
    Feed,
    FetchAhead,
    Ingest,
    Opened,
    SourceEntry,
    Stamps,
    at_work,
    configuration_of,
    forget_glossaries,
    keep_configuration,
    known_embedders,
    nothing_indexed,
    project_glossary,
    reading,
    remember_embedder,
    vectors_again,
    web_pages,
)

if TYPE_CHECKING:
    from ..answer import AskPlan
    from ..core import Answer, Document, Persona
    from ..drafting import DraftBatch, Drafting, DraftRequest, ProjectRecords
    from ..experiment import Each, Evaluating, Evaluation, Told
    from ..flow import Flow, Forecast, Message, RunSummary, TraceEntry
    from ..ingest import Fetched
    from ..measure import Measure
    from ..project import Feed, Ingest, IngestForecast, IngestProgress, IngestReport
    from ..retrieve import Explanation, Glossary, Retrieved, RetrieveOptions, Target
    from ..testsets import Testset

_FORGETTING = "forget"
_END_WORK = (
    "nothing was forgotten: what is at work could store the text again; wait for it to end, or "
    "end it (Ctrl-C, or `kill` with the number of its process), then forget again"
)


@dataclass(frozen=True, slots=True)
class Asking:
    """How to ask: for whom, after which turns, seen by whom, shown and traced where.

    Attributes:
        history: Earlier turns, oldest first; the question is then made to stand alone.
        scope: Who may see the replies (tenant, permissions).
        sink: Gets the pieces of an answer that is streamed.
        trace: Gets an entry for each request.
    """

    history: tuple[Message, ...] = ()
    scope: str = ""
    sink: Callable[[str], None] | None = None
    trace: list[TraceEntry] | None = None


class Workbench(Opened):
    """A project folder, opened. Use it as a context manager, or call :meth:`close`.

    Nothing is opened before it is needed: reading settings touches neither store nor model.

    Args:
        folder: The project.
        settings: Its settings.
        session: What this session asks for beyond them.
    """

    # -- building --------------------------------------------------------------------------

    @at_work("ingest")
    def ingest(
        self,
        *sources: str | Path,
        prune: bool = False,
        embed_again: bool = False,
        on_start: Callable[[IngestProgress], None] | None = None,
    ) -> IngestReport:
        """Read sources into the index; what is unchanged costs nothing.

        Args:
            sources: Files, folders, addresses; those of the project file where none is given.
            prune: Remove documents of these sources that are no longer there.
            embed_again: Have every text of these sources embedded, also where its vector is
                stored. Where the server's vectors have another length than those stored, all
                documents that it embedded leave the index first.
            on_start: Gets the counters, to draw a progress bar from.

        Raises:
            ConfigError: There is nothing to ingest.
            ModelError: The embedding model fails; what was written before stays.
        """
        feeds, how = self._feeds(sources)
        if self.settled_pair().embedder:
            remember_embedder(self.folder.data, self.pair.embedder, self.settings.embed.model)
        again, told = vectors_again(self, everything=embed_again)
        self._open_marker.parent.mkdir(parents=True, exist_ok=True)
        self._open_marker.touch()
        with self._ingesting(how, again) as work:
            if on_start is not None:
                on_start(work.progress)
            with FetchAhead(self._fetch, web_pages(feeds)) as fetch_page:
                report = work.run(feeds, fetch_page, prune=prune)
        self._open_marker.unlink(missing_ok=True)
        report = replace(report, notes=(*told, *report.notes))
        others = len(self.store.pairs()) - 1
        if report.counts.added and others > 0:
            note = f"{others} other combination(s) of settings stay built beside this one"
            return replace(report, notes=(*report.notes, note))
        return report

    @property
    def _open_marker(self) -> Path:
        """A file that is there while an ingest is under way, and after one that was cut off."""
        return self.folder.data / "ingesting"

    def partial_note(self) -> tuple[str, ...]:
        """What to say where the index may be partial; empty where the last ingest ended."""
        if not self._open_marker.exists():
            return ()
        return ("an ingest is under way or was cut off: the index may be partial (ingest again)",)

    def forecast_ingest(self, *sources: str | Path) -> IngestForecast:
        """What ingesting would write, embed and cost; writes nothing and calls no model."""
        feeds, how = self._feeds(sources)
        with self._ingesting(how) as work:
            return work.forecast(feeds, self._fetch)

    def _feeds(self, sources: Sequence[str | Path]) -> tuple[list[Feed], str]:
        """Sources with their readers, and the name of how they are read."""
        entries = [SourceEntry(str(s)) for s in sources] or list(self.settings.sources)
        if not entries:
            raise ConfigError(
                "there is nothing to ingest",
                where=str(self.folder.file),
                hint="name sources on the command line, or list them under `sources`",
            )
        base = Path.cwd() if sources else self.folder.root
        return [self._feed(entry, base) for entry in entries], reading(entries, base)

    @contextmanager
    def _ingesting(self, how: str, again: frozenset[str] | None = frozenset()) -> Iterator[Ingest]:
        stamps = Stamps(self.folder.cache / "files.sqlite", how)
        model = self.settings.embed.model
        embedding = (model, bool(model) and self.models.is_local(model))
        try:
            yield Ingest(self.store, self.pair, self.chunker, embedding, self.runner, stamps, again)
        finally:
            stamps.close()

    def _feed(self, entry: SourceEntry, base: Path) -> Feed:
        if entry.reader:
            return Feed(entry.source, (ingest.load_reader(entry.reader),))
        return Feed(entry.source, ingest.default_readers(entry.options, base))

    def _fetch(self, url: str) -> Fetched:
        reply = self.runner.run(flow.fetch(url))
        return ingest.Fetched(reply.url, reply.headers.get("content-type", ""), reply.body)

    def documents(self) -> Iterator[Document]:
        """Documents of the index, by id, one in memory at a time."""
        return self.store.documents(self.pair)

    @property
    def records(self) -> ProjectRecords:
        """The rows that the folder ``records`` declares, as tables and documents."""
        return ProjectRecords(self)

    @property
    def filled_by(self) -> str:
        """The command or commands that fill the index of this project."""
        records = self.records.folder.is_dir()
        commands = ["ragwright ingest"] if self.settings.sources or not records else []
        return " and ".join([*commands, *(["ragwright records refresh"] if records else [])])

    # -- asking ----------------------------------------------------------------------------

    def target(self) -> Target:
        """What is searched now: the newest snapshot under the present settings.

        Raises:
            RetrieveError: Nothing has been ingested under these settings; where others were, it
                says which part was swapped (a model, or its files), and the ways out.
        """
        pair = self.pair
        if not self.store.holds(pair):
            raise nothing_indexed(
                pair,
                self.store.pairs(),
                self.settings.embed.model,
                known_embedders(self.folder.data),
                self.folder.file,
                self.filled_by,
            )
        # the view is opened here, so that an ingest in between cannot take it away
        snapshot = self.views.snapshot(pair)
        model = self.settings.embed.model
        return retrieve.Target(
            snapshot,
            model,
            pair.dimensions,
            pair.similarity,
            analyzer=self.analyzer,
            tokenizer=self.models.tokenizer(model) if model else None,
            glossary=self._glossary(),
        )

    def _glossary(self) -> Glossary | None:
        """What codes mean, where the settings ask for it."""
        options = self.settings.retrieve
        if "glossary" not in options.query.methods:
            return None
        root, cache = self.folder.parts, self.folder.cache
        return project_glossary(options.glossary, root, cache, self.store, self.pair)

    @at_work("retrieve")
    def retrieve(
        self,
        query: str,
        k: int | None = None,
        *,
        scope: str = "",
        trace: list[TraceEntry] | None = None,
    ) -> Retrieved:
        """The k best chunks for a query (``retrieve.top_k`` where k is None).

        ``scope`` says who may see the replies of models that take part; ``trace`` gets an entry
        for each request.
        """
        searching = retrieve.retrieve(query, self.target(), self._retrieving(k))
        found = self.runner.run(searching, scope=scope, trace=trace)
        return replace(found, notes=(*self.partial_note(), *found.notes, *self.replies.notes))

    def forecast_retrieve(self, query: str, k: int | None = None) -> Forecast:
        """What retrieving would call and cost, without calling any model."""
        target, options = self.target(), self._retrieving(k)
        return self.runner.forecast([partial(retrieve.retrieve, query, target, options)])

    def _retrieving(self, k: int | None) -> RetrieveOptions:
        options = self.settings.retrieve
        return options if k is None else replace(options, top_k=k)

    def explain(self, found: Retrieved) -> Explanation:
        """Why these are the hits: words looked for, tokens seen, weights, rungs."""
        model = self.settings.embed.model
        # Not by target(): that opens the snapshot of now, which may not be the one searched.
        return retrieve.explain(
            found, self.analyzer, self.models.tokenizer(model) if model else None
        )

    def ask(self, question: str, persona: str = "", how: Asking | None = None) -> Answer:
        """An answer for one persona (``answer.persona`` where none is named), with citations."""
        return self.ask_all(question, [persona], how)[0]

    @at_work("ask")
    def ask_all(
        self, question: str, personas: Sequence[str], how: Asking | None = None
    ) -> list[Answer]:
        """The same question answered for several personas side by side, in their order."""
        asking = how or Asking()
        answering = self.asking(question, personas, asking.history)
        first, *others = self.runner.run(
            answering, scope=asking.scope, sink=asking.sink, trace=asking.trace
        )
        return [replace(first, notes=(*first.notes, *self.replies.notes)), *others]

    def asking(
        self, question: str, personas: Sequence[str], history: Sequence[Message] = ()
    ) -> Flow[list[Answer]]:
        """The flow behind :meth:`ask_all`: condense, retrieve once, answer for each."""
        return self._asked(question, personas, history)()

    def forecast_ask(self, question: str, personas: Sequence[str]) -> Forecast:
        """What asking would call and cost, without calling any model."""
        return self.runner.forecast([self._asked(question, personas, ())])

    def _asked(
        self, question: str, personas: Sequence[str], history: Sequence[Message]
    ) -> Callable[[], Flow[list[Answer]]]:
        """Everything a question needs, opened here and now; what it gives makes the flow."""
        chosen = [self.persona(name) for name in personas]
        plan = self.plan(history)
        if len(chosen) > 1:  # one stream a flow
            options = replace(plan.setup.options, stream=False)
            plan = replace(plan, setup=replace(plan.setup, options=options))
        return partial(answer.ask, question, chosen, self.target(), plan)

    def persona(self, name: str = "") -> Persona:
        """The persona of a name, ``answer.persona`` for the empty one.

        Raises:
            PromptError: There is none, or its file is wrong.
        """
        named = name or self.settings.answer.persona
        # a broken file stops only who needs it
        return answer.pick_persona(named, self.personas if named else {})

    def plan(self, history: Sequence[Message] = ()) -> AskPlan:
        """How questions are answered: all of it but question, persona and index.

        Raises:
            ConfigError: Nobody answers to the name of the model; said once, and not for every row.
        """
        if self.settings.answer.model:
            self.models.settings_of(self.settings.answer.model)
        window_of = partial(answer.generator_window, models=self.models, replies=self.replies)
        settings = self.settings
        setup = answer.AnswerSetup(settings.answer, settings.prompt, self.tokenizer, window_of)
        # Schemas are read only where a question may be sent to a database.
        routed = settings.retrieve.route.method != "index"
        databases = self.databases.described() if routed else ()
        return answer.AskPlan(
            settings.retrieve, setup, tuple(history), self.partial_note(), databases
        )

    # -- drafting --------------------------------------------------------------------------

    def draft(self, request: DraftRequest, how: Drafting | None = None) -> DraftBatch:
        """Texts like a client's own, by one or several models, stored as outputs.

        Raises:
            ConfigError: No chat model is configured.
            PromptError: A name that no record has, with the nearest; fewer records than examples.
            ModelError: Every model failed; one among several is a note.
        """
        return run_drafts(self, request, how or Drafting())

    def drafting(self, request: DraftRequest, how: Drafting | None = None) -> Flow[DraftBatch]:
        """The flow behind :meth:`draft`; it stores nothing."""
        return drafts(self, request, how or Drafting())()

    def forecast_draft(self, request: DraftRequest, how: Drafting | None = None) -> Forecast:
        """What drafting would call and cost, without calling any model."""
        return forecast_drafts(self, request, how or Drafting())

    # -- measuring -------------------------------------------------------------------------

    def evaluate(
        self,
        testset: str | Testset,
        measures: str | Sequence[Measure],
        how: Evaluating | None = None,
    ) -> tuple[Evaluation, RunSummary]:
        """Run a testset through the project and score what comes of it; say how the run went.

        Retrieves for every row and, with ``how.answers``, also answers it for its persona. Rows
        are stored as they end; ``how.resume`` continues an unfinished run of the same testset,
        settings and index snapshot. Rows of capability suites are answered from the passages
        that they carry, and need no index.
        """
        chosen = how or Evaluating(seed=self.session.seed)
        taken = configuration_of(self.folder, self.settings)  # as the first row finds it
        evaluation, summary = evaluate_testset(self, testset, measures, chosen)
        keep_configuration(self.runs, summary.run, taken)
        return evaluation, summary

    def score(
        self,
        rows: str | Testset,
        measures: str | Sequence[Measure],
        how: Evaluating | None = None,
        *,
        told: Told | None = None,
        each: Each | None = None,
    ) -> tuple[Evaluation, RunSummary]:
        """Score rows as they are: those of a file, or the answers of a stored run.

        Nothing is generated; rows are stored as they end. ``told`` gets what it will call and
        cost, before the first call, where a measure asks a model. ``each`` gets every result
        instead of the evaluation, which then holds summaries alone: any number of rows of a file
        in bounded memory.
        """
        chosen = how or Evaluating(seed=self.session.seed)
        return score_stored(self, rows, measures, chosen, told=told, each=each)

    def results(self, run: str = "latest") -> Evaluation:
        """What a stored run came to: ``latest``, its name, or the beginning of its name."""
        return stored_evaluation(self.runs, run, self.session.seed)

    def forecast_evaluate(
        self, testset: str | Testset, measures: str, how: Evaluating | None = None
    ) -> Forecast:
        """What an evaluation would call and cost, without calling any model."""
        return forecast_testset(self, testset, measures, how or Evaluating())

    def forecast_score(self, rows: str | Testset, measures: str) -> Forecast:
        """What scoring rows would call and cost, without calling any model."""
        return forecast_stored(self, rows, measures)

    # -- forgetting ------------------------------------------------------------------------

    def clear_replies(self) -> int:
        """Delete every stored reply; how many there were, 0 where their file was damaged."""
        try:
            return self.replies.clear()
        except StoreDamagedError:
            held = self.__dict__.pop("replies", None)
            if held is not None:
                held.close()
            discard(self.folder.cache / "replies.sqlite")
            return 0

    def forget(self, document_id: str) -> Mapping[str, int]:
        """Purge a document from store, replies, runs and outputs; how much went from each.

        The document of a record goes from the tables too, with all their earlier versions.

        Raises:
            StoreError: The name is empty.
            StoreBusyError: Somebody is at work on the project and could store the text again;
                the processes are named, and nothing was forgotten.
        """
        flow.one_to_forget(document_id, None)
        with self.work.alone(_FORGETTING, hint=_END_WORK):
            document = self.store.document(document_id)
            removed = self.store.remove([document_id], purge=True)
            forget_glossaries(self.folder.cache)  # mined from the document too
            names = {document_id} if document is None else {document_id, document.source}
            return {
                "documents": removed.removed,
                "chunks": removed.chunks_removed,
                "replies": sum(self.replies.forget(source=name) for name in sorted(names)),
                "rows": self.runs.forget(source=document_id),
                "outputs": self.outputs.forget(document=document_id),
                "records": self.records.forget(document_id),
            }

    def forget_tenant(self, scope: str) -> Mapping[str, int]:
        """Purge the replies, runs and outputs made in a visibility scope.

        Raises:
            StoreError: The name is empty.
            StoreBusyError: As :meth:`forget`.
        """
        flow.one_to_forget(None, scope)
        with self.work.alone(_FORGETTING, hint=_END_WORK):
            return {
                "replies": self.replies.forget(scope=scope),
                "rows": self.runs.forget(scope=scope),
                "outputs": self.outputs.forget(scope=scope),
            }
