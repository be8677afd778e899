"""A project folder, opened: its parts, each made when it is first needed, and its variants."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from .. import answer, flow, index, ingest, models, retrieve
from ..answer import AskPlan
from ..core import Document, Persona, StoreDamagedError, list_own_additions, load_addition
from ..flow import Budget, HandlerSource, Message, Replies, Runner, Runs
from ..index import IndexSpec, Store, Views
from ..ingest import Chunker
from ..ledger import Erasures, WorkLock, discard
from ..models import Analyzer, Models, Tokenizer
from ..retrieve import Databases, Target
from . import building
from ._folder import ProjectFolder
from ._served import open_served_project
from ._settings import AnswersUnderWay, Session, Settings, load_settings, resolve_paths


class Closing(Protocol):
    """Something that is closed when the project is."""

    def close(self) -> None:
        """Close it; safe to call twice."""


Resource = TypeVar("Resource", bound=Closing)

_INDEXING = frozenset(
    ["sources", "ingest", "fetch", "chunk", "keyword", "embed", "store", "models", "records"]
)
"""Sections of the project file that an ingest depends on."""
_COUNTED = 20_000
"""Texts whose number of tokens is remembered."""


class Project:
    """A project folder and what it is made of, each part opened when it is first needed.

    Reading settings touches neither store nor model. Use it as a context manager, or call
    :meth:`close`.

    Args:
        folder: The project.
        settings: Its settings.
        session: What this session asks for beyond them.
    """

    def __init__(
        self, folder: ProjectFolder, settings: Settings, session: Session | None = None
    ) -> None:
        self.folder = folder
        self.session = session or Session()
        own = resolve_paths(settings, folder.parts)
        narrows = self.session.filters or self.session.soft
        self.settings = self.session.narrowed(own) if narrows else own
        self._base: Project = self
        self._variants: list[Project] = []
        self._resources: dict[type, Closing] = {}
        # read again by work that may store or show text that was read before
        self.erasures = Erasures(folder.data / "work" / "erasures")
        self._erased = self.erasures.position

    @classmethod
    def open(cls, folder: str | Path = ".", session: Session | None = None) -> Self:
        """The project in a folder.

        Raises:
            ConfigError: There is none, or its file is wrong (with file and line); or the served
                configuration is asked for and there is none.
        """
        project = ProjectFolder(Path(folder)).require()
        options = session or Session()
        sections = None
        if options.served:
            project, sections = open_served_project(project)
        settings = load_settings(project.settings, options.overrides, served=sections)
        return cls(project, settings, options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            for runner in self.runners:
                runner.interrupt()
        self.close()

    def close(self) -> None:
        """Finish calls in flight, close the store and every variant; safe to call twice."""
        if self._base is not self:  # a variant closes nothing
            return
        family = [self, *self._variants]
        closed: set[int] = set()
        for name in ("runner", "views", "store", "replies", "budget", "runs"):
            for member in family:
                opened = member.__dict__.pop(name, None)
                if opened is not None and id(opened) not in closed:
                    closed.add(id(opened))
                    opened.close()
        while self._resources:
            self._resources.popitem()[1].close()
        self._variants = []

    def variant(self, settings: Settings, session: Session | None = None) -> Self:
        """The same project under other settings, sharing with this one all that those leave as is.

        Replies and runs are always shared; store and open views where the section ``store`` is
        equal; models and the runner where everything that requests depend on is equal too. What
        others have spent counts against the budget. Closed with the project it was made from.

        Args:
            settings: As read from files; the session's filters are laid over them here.
            session: In place of this project's own.
        """
        base = self._base
        copy = type(self)(self.folder, settings, session or self.session)
        copy._base = base
        family = [base, *base._variants]
        for name in ("replies", "runs"):
            copy.__dict__[name] = getattr(base, name)
        same = next(
            (relative for relative in family if relative.settings.store == copy.settings.store),
            None,
        )
        if same is not None:
            copy.__dict__.update(store=same.store, views=same.views)
        twin = next(
            (
                relative
                for relative in family
                if _ASKED(relative.settings) == _ASKED(copy.settings)
                and relative.session.reuse == copy.session.reuse
            ),
            None,
        )
        if twin is not None:
            copy.models = twin.models
            copy.__dict__.update(runner=twin.runner, tokenizer=twin.tokenizer, count=twin.count)
        base._variants.append(copy)
        return copy

    def resource(self, kind: type[Resource], make: Callable[[], Resource]) -> Resource:
        """A resource that a room above opens for this project: made once, closed with it.

        Variants share it.
        """
        resources = self._base._resources
        if kind not in resources:
            resources[kind] = make()
        resource = resources[kind]
        assert isinstance(resource, kind)
        return resource

    @property
    def runners(self) -> tuple[Runner, ...]:
        """The runners that this project and its variants have opened so far, each once."""
        family = (self._base, *self._base._variants)
        opened = (member.__dict__.get("runner") for member in family)
        return tuple({id(member): member for member in opened if member is not None}.values())

    # -- parts, opened when first needed ---------------------------------------------------

    @cached_property
    def work(self) -> WorkLock:
        """The lock against erasure: work that stores texts shares it, an erasure holds it alone."""
        if self._base is not self:
            return self._base.work
        return WorkLock(self.folder.data / "work", self.settings.shared.place(self.folder.data))

    @cached_property
    def models(self) -> Models:
        """Every model that the settings name; a variant that asks alike has the same."""
        budget = self.settings.budget
        limits = models.TimeLimits(
            first_piece=budget.first_piece_timeout, silence=budget.silence_timeout
        )
        return models.Models(self.settings.models, self.settings.embed, self.folder.root, limits)

    @cached_property
    def replies(self) -> Replies:
        """The reply store: in the cache, or shared."""
        return flow.Replies(self.settings.shared.place(self.folder.cache / "replies.sqlite"))

    @cached_property
    def budget(self) -> Budget:
        """What this project and all its variants may spend, in this session and in a day."""
        if self._base is not self:
            return self._base.budget
        options = self.settings.budget
        max_cost = options.max_cost if self.session.max_cost is None else self.session.max_cost
        if options.daily_cost is None:
            return flow.Budget(max_cost)
        place = self.settings.shared.place(self.folder.ledger)
        return flow.Budget(max_cost, flow.Spending(place, options.daily_cost))

    def clear_replies(self) -> int:
        """Delete every stored reply; how many there were, 0 where their file was damaged."""
        try:
            return self.replies.clear()
        except StoreDamagedError:
            if self.settings.shared.address:
                raise
            store = self.__dict__.pop("replies", None)
            if store is not None:
                store.close()
            discard(self.folder.cache / "replies.sqlite")
            return 0

    @cached_property
    def runs(self) -> Runs:
        """The run store: in the ledger, which may be shared."""
        return flow.Runs(self.settings.shared.place(self.folder.ledger))

    @cached_property
    def store(self) -> Store:
        """Documents, chunks and vectors."""
        root = self.folder.root
        return index.open_store(self.settings.store, root / ".ragwright", root=root)

    @cached_property
    def views(self) -> Views:
        """Open views of the store, by snapshot."""
        return index.Views(self.store)

    @cached_property
    def runner(self) -> Runner:
        """The runner with a handler for every kind of request."""
        budget = self.settings.budget
        session = self.session
        options = flow.RunnerOptions(
            concurrency=budget.concurrency,
            jobs=1 if session.background else session.jobs,
            hold=AnswersUnderWay(self.folder.data).any if session.background else None,
            reuse=session.reuse,
            attempt=session.attempt,
            seed=session.seed,
        )
        return flow.Runner(
            ProjectHandlers(self, self.views),
            options,
            replies=self.replies,
            budget=self.budget,
            at_work=self._while_requesting,
        )

    @contextmanager
    def _while_requesting(self) -> Iterator[None]:
        """While requests are made, nobody forgets what they may store."""
        with self.work.working("requests", brief=True, everywhere=True):
            self.drop_erased()
            yield

    def drop_erased(self) -> None:
        """Drop what is held in memory of an index from which something was erased since.

        Searches of such a snapshot then fail with a SnapshotGoneError.
        """
        position = self.erasures.position
        if position != self._erased:
            self._erased = position
            self.views.drop()
            for runner in self.runners:
                runner.forget_searches()

    @cached_property
    def databases(self) -> Databases:
        """The SQL databases that questions may be answered from."""
        mine, own = ((p.settings.store, p.settings.ingest.parser) for p in (self, self._base))
        # a variant with other documents has no tables
        sheets = self.folder.sheets if mine == own else None
        return retrieve.Databases(self.settings.retrieve.databases, self.folder.root, sheets)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """Counts tokens: the embedding model's own, else the keyword analyzer's words."""
        model = self.settings.embed.model
        own = self.models.tokenizer(model) if model else None
        return own or models.WordTokenizer()

    @cached_property
    def count(self) -> Callable[[str], int]:
        """Number of tokens of a text, by :attr:`tokenizer`; cached for repeated passages."""
        return lru_cache(_COUNTED)(self.tokenizer.count)

    @cached_property
    def chunker(self) -> Chunker:
        """Cuts documents as the settings say."""
        return ingest.make_chunker(self.settings.chunk, self.tokenizer)

    @cached_property
    def analyzer(self) -> Analyzer:
        """Cuts queries and documents into the words of the keyword index."""
        return models.make_analyzer(self.settings.keyword)

    @cached_property
    def index_spec(self) -> IndexSpec:
        """The settings under which documents are indexed and searched.

        Its ``dimensions`` are 0 if a server embeds and none of its vectors is known yet.
        """
        analyzer = self.analyzer.spec
        model = self.settings.embed.model
        parser, chunker = self.settings.ingest.parser, self.chunker.spec
        if parser != ingest.OURS:  # documents read by another one are another index
            chunker += f"; read by {parser}"
        if not model:
            return index.IndexSpec(chunker, analyzer)
        identity = self.models.embedder_identity(model)
        return index.IndexSpec(
            chunker,
            analyzer,
            identity,
            self._known_dimensions(model, identity),
            self.models.vector_rule(model).similarity,
        )

    def _known_dimensions(self, model: str, identity: str) -> int:
        """Length of the model's vectors if known without a paid call."""
        local = self.models.embedder(model)
        if local is not None:
            return local.dimensions
        built = (spec.dimensions for spec in self.store.index_specs() if spec.embedder == identity)
        length = next(built, self.settings.embed.dimensions or 0)
        if length:
            self.models.known_dimensions[model] = length
        return length

    def settled_spec(self) -> IndexSpec:
        """The index spec; a server is called once if the length of its vectors is unknown."""
        spec = self.index_spec
        if spec.embedder and not spec.dimensions:
            return self.measured_spec()
        return spec

    def measured_spec(self) -> IndexSpec:
        """The index spec with the present length of the server's vectors, measured again."""
        model = self.settings.embed.model
        self.models.known_dimensions.pop(model, None)
        # Passages, which are never answered from the cache; two, as their vectors must differ.
        probe = flow.embed(model, ["How long is a vector?", "As long as it was."], "passage")
        length = int(self.runner.run(probe).shape[1])
        self.models.known_dimensions[model] = length
        spec = self.__dict__["index_spec"] = replace(self.index_spec, dimensions=length)
        return spec

    @cached_property
    def personas(self) -> Mapping[str, Persona]:
        """Personas by name: the shipped ones, overridden by the project's own."""
        if self._base is not self:
            return self._base.personas
        return {**answer.load_shipped_personas(), **self.own_personas}

    @cached_property
    def own_personas(self) -> Mapping[str, Persona]:
        """Personas by name that are files of the project."""
        if self._base is not self:
            return self._base.own_personas
        return answer.load_personas(self.folder.personas) if self.folder.personas.is_dir() else {}

    # -- answering questions -----------------------------------------------------------------

    def documents(self) -> Iterator[Document]:
        """Documents of the index, by id, one in memory at a time."""
        return self.store.documents(self.index_spec)

    def partial_note(self) -> tuple[str, ...]:
        """A note if the index may be partial; empty if the last ingest ended."""
        if not self.folder.ingest_marker.exists():
            return ()
        return (
            "an ingest is running or was interrupted: the index may be partial (run ingest again)",
        )

    @property
    def filled_by(self) -> str:
        """The commands that build the index of this project."""
        records = (self.folder.root / "records").is_dir()
        over = "".join(
            f" --set {shlex.quote(override)}"
            for override in self.session.overrides
            if override.partition("=")[0].partition(".")[0] in _INDEXING
        )
        first = f"ragwright ingest{over}"
        commands = [first] if self.settings.sources or not records else []
        return " and ".join([*commands, *([f"ragwright records refresh{over}"] if records else [])])

    def target(self) -> Target:
        """The target of searches: the newest snapshot under the present settings.

        Raises:
            RetrieveError: Nothing has been ingested under these settings; if there is an index for
                other settings, the error says which part changed (a model, or its files), and what
                to do.
        """
        spec = self.index_spec
        if not self.store.holds(spec):
            raise building.nothing_indexed(
                spec,
                self.store.index_specs(),
                self.settings.embed.model,
                self.folder.file,
                self.filled_by,
            )
        # the view is opened here, so that a concurrent ingest cannot remove it
        snapshot = self.views.snapshot(spec)
        model, options = self.settings.embed.model, self.settings.retrieve
        glossary = None
        if "glossary" in options.query.methods:
            glossary = building.project_glossary(
                options.glossary, self.folder.parts, self.folder.cache, self.store, spec
            )
        return retrieve.Target(
            snapshot,
            model,
            spec.dimensions,
            spec.similarity,
            analyzer=self.analyzer,
            tokenizer=self.models.tokenizer(model) if model else None,
            glossary=glossary,
            stages=retrieve.open_stages(options.stages, self.settings.section)
            if options.stages
            else (),
        )

    def persona(self, name: str = "") -> Persona:
        """The persona of a name, ``answer.persona`` for the empty one.

        Raises:
            PromptError: There is none, or its file is wrong.
        """
        wanted = name or self.settings.answer.persona
        # an invalid file fails only commands that need it
        return answer.pick_persona(wanted, self.personas) if wanted else Persona("")

    def plan(self, history: Sequence[Message] = ()) -> AskPlan:
        """Settings of answering, without question, persona and index.

        Args:
            history: Turns before the question.

        Raises:
            ConfigError: The name of the model is unknown; raised once, not for every row.
        """
        search = self.settings.retrieve
        for name in (
            self.settings.answer.model,
            search.rerank.model,
            search.query.model if search.query.methods else "",
            search.iterate.model,
            search.route.model if search.route.method == "model" else "",
        ):
            if name:
                self.models.settings_of(name)
        window_of = partial(answer.generator_window, models=self.models, replies=self.replies)
        settings = self.settings
        # Schemas are read only if a question may be routed to a database.
        routed = search.route.method != "index"
        known = search.databases or self.folder.sheets.is_file()
        # a template is read once for all answers
        plan = answer.AskPlan(
            settings.answer,
            answer.read_prompt(settings.prompt) if settings.prompt.template else settings.prompt,
            self.tokenizer,
            window_of,
            retrieve=settings.retrieve,
            history=tuple(history),
            notes=self.partial_note(),
            databases=self.databases.described() if routed and known else (),
        )
        # variants are measured as they are
        guards = self._base is self and self.folder.promise.exists()
        if not guards:
            return plan
        guard_of = load_addition("guards", "promise", where=str(self.folder.promise))
        return replace(plan, guard=guard_of(self))


class ProjectHandlers(dict[type[Any], HandlerSource]):
    """The handler of each kind of request; those that parts add are found by name.

    Args:
        project: The project.
        views: Views that searches are answered from.
    """

    def __init__(self, project: Project, views: Views) -> None:
        super().__init__(models.model_handlers(project.models))
        self._project = project
        self[flow.Search] = self[flow.Lookup] = index.ViewHandler(views)

    def __missing__(self, kind: type[Any]) -> HandlerSource:
        """The handler of a further kind.

        Raises:
            KeyError: No part carries it out.
        """
        project = self._project
        if kind is flow.Fetch:
            self[kind] = ingest.FetchHandler(project.settings.fetch)
        elif kind is flow.Sql:
            self[kind] = retrieve.SqlHandler(project.databases)
        else:
            handlers = {known.name: known for known in list_own_additions("handlers")}
            self[kind] = handlers[kind.__name__].load()(project)
        return self[kind]


_ASKED = attrgetter("models", "embed", "store", "fetch", "budget", "retrieve.databases")
"""The settings that the meaning of requests depends on."""
