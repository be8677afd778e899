"""Testsets made from a project's own documents: by a model, offline, or from rows of other
tools.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...answer import pick_persona
from ...core import (
    ConfigError,
    Document,
    GoldSpan,
    Mapped,
    Span,
    TestsetError,
    counted,
    read_mapping,
    shipped_mapping,
    text_hash,
    value_hash,
)
from ...flow import Flow, Forecast, Job, RunSummary, embed, run_job
from ...measure import MeasureSetup
from ...models import ExtractiveReranker
from ...project import Project, at_work
from ..rows import read_rows
from ._candidates import WEAK, Candidate, without_near_duplicates
from ._imported import imported_rows
from ._model_questions import (
    UNUSABLE,
    Passage,
    Writing,
    candidate_body,
    candidates_of,
    level_lines,
    write_questions,
)
from ._offline_questions import cloze_questions, heading_questions, spread
from ._strata import balanced, interleaved, stratum_of
from ._survey import Survey
from ._synthesis import Synthesis, synthesis_of
from ._template_questions import template_questions

_OFFLINE = {
    "template": template_questions,
    "cloze": cloze_questions,
    "heading": heading_questions,
}
KINDS = ("model", *_OFFLINE)
"""Origins of questions."""

_ROUNDS = 4
"""Most rounds with further passages if too many candidates were rejected."""

_POOL = 4
"""Candidates per question that is wanted: groups and forms are balanced by choosing among them."""

_SHORTEST_PASSAGE = 200
_MAX_TOKENS = 2000


@dataclass(frozen=True, slots=True)
class Synthesizing:
    """Settings for making a testset.

    Attributes:
        questions: Number of questions; each has a row per persona.
        kinds: ``model``, ``template``, ``cloze``, ``heading``, in equal shares; by default the
            model if there is one, else template.
        weak: Without a model, fill up with cloze and heading, which no person would ask.
        model: Chat model that writes; ``answer.model`` if empty.
        levels: Levels to ask the model for; all of its prompt file if empty.
        personas: Readers with a gold answer of their own (of a model's questions).
        per_chunk: Most questions on one chunk.
        seed: Seed of every choice.
        resume: Continue an unfinished run of the same settings and documents.
    """

    questions: int = 50
    kinds: tuple[str, ...] = ()
    model: str = ""
    levels: tuple[str, ...] = ()
    personas: tuple[str, ...] = ()
    per_chunk: int = 3
    weak: bool = False
    seed: int = 0
    resume: bool = False


@at_work("synth")
def synthesize(project: Project, how: Synthesizing) -> tuple[Synthesis, RunSummary | None]:
    """Make a testset from the documents of the index; also returns the outcome of the model's run.

    Raises:
        TestsetError: No question could be made; with the most common reason.
        ConfigError: A kind, level or persona is unknown, or a model is needed and none is set.
        RetrieveError: Nothing has been ingested.
    """
    kinds = _kinds(project, how)
    writing = _writing(project, how) if "model" in kinds else None
    project.target()  # raises with a hint if nothing is indexed
    survey = survey_of(project)
    reader = _Reader(project)
    share = math.ceil(how.questions / len(kinds))
    lists: list[list[Candidate]] = []
    summary: RunSummary | None = None
    for kind in kinds:
        if writing is not None and kind == "model":
            written, summary = _written(project, how, writing, survey, share)
            lists.append(written)
        else:
            made = spread(survey.chunks, reader.document, survey, _OFFLINE[kind], how.seed)
            spare = not (how.kinds or how.weak or kind == "template")
            lists.append(list(_until(made, how.questions * (1 if spare else _POOL))))
    lists = [balanced(each, survey.strata, survey.chunks) for each in lists]
    ranked = _in_turn(lists) if how.kinds else _strong_first(lists)
    if not how.kinds and not how.weak:
        ranked = [one.rejected(WEAK) if _left_out(one) else one for one in ranked]
    candidates = _distinct(project, ranked, survey, how.questions)
    texts = reader.texts(candidates)
    stopped = summary is not None and not summary.complete
    notes = ("the run was stopped before its end: continue it with --resume",) if stopped else ()
    synthesis = synthesis_of(candidates, how.questions, survey, texts, notes)
    if not synthesis.rows and (summary is None or summary.reason is None):
        commonest = next(iter(synthesis.rejected), "no passage was long enough")
        hint = "ingest more prose, add gaps and headings with --weak, or ask for other --kinds"
        if commonest == UNUSABLE:
            hint = "name another model with --model: this one does not write the JSON asked for"
        raise TestsetError(f"no question could be made: {commonest}", hint=hint)
    return synthesis, summary


def forecast_synthesis(project: Project, how: Synthesizing) -> Forecast:
    """Calls and cost of making a testset if no candidate is rejected.

    Rejected ones are replaced from further passages, in up to three more rounds.

    Raises:
        ConfigError: As :func:`synthesize`.
    """
    kinds = _kinds(project, how)
    if "model" not in kinds:
        return project.runner.forecast([])
    writing = _writing(project, how)
    analyzer = project.target().analyzer
    survey = survey_of(project)
    share = math.ceil(how.questions / len(kinds))
    first = islice(passages_of(project, survey, how.seed), math.ceil(share / how.per_chunk))
    source = survey.vocabulary.source if analyzer is None else analyzer
    return project.runner.forecast(
        partial(write_questions, passage, writing, source) for passage in first
    )


def import_testset(project: Project, path: str | Path) -> Synthesis:
    """Rows of a file as a testset of this project: gold located, labelled, split.

    Raises:
        TestsetError: The rows cannot be read; with file and line.
        RetrieveError: Nothing has been ingested.
    """
    project.target()
    rows = read_rows(path, questions=True)
    survey = survey_of(project)
    with project.store.reading(project.pair) as reading:
        documents = ((one.id, one.text) for one in reading.documents())
        made, faults = imported_rows(rows, documents, survey)
    leaks = sorted(leak for row in made if isinstance(leak := row.metadata.get("leak"), float))
    spanned = sum(bool(row.reference_spans) for row in made)
    note = f"{spanned} of {len(made)} rows have their gold as spans of the documents"
    return Synthesis(made, {"imported": len(made)}, faults, tuple(leaks), (note,))


def survey_of(project: Project) -> Survey:
    """One pass over the indexed documents: rare words, chunks, repeated text."""
    with project.store.reading(project.pair) as reading:
        survey = Survey(reading.analyzer)
        for one in reading.documents():
            chunks = [Span(chunk.start, chunk.end) for chunk in one.chunks]
            group = stratum_of(one.source, one.text, one.language)
            survey.add(one.id, one.text, chunks, group)
    return survey


def passages_of(project: Project, survey: Survey, seed: int) -> Iterator[Passage]:
    """Chunks for questions, in a seeded order, alternating between groups and documents.

    None is boilerplate, a duplicate, or shorter than 200 characters.
    """
    order = interleaved(survey.strata, survey.chunks, seed)
    queues = [_passages(project.store.document(name), survey, seed) for name in order]
    for turn in zip_longest(*queues):
        yield from (passage for passage in turn if passage is not None)


def _passages(document: Document | None, survey: Survey, seed: int) -> Iterator[Passage]:
    if document is None:
        return
    spans = survey.usable(document.id, document.text)
    for span in sorted(spans, key=lambda s: text_hash(f"{seed}\x00{document.id}\x00{s.start}")):
        text = document.text[span.start : span.end]
        if len(text.strip()) >= _SHORTEST_PASSAGE:
            yield Passage(document.id, span, text, document.language)


class _Reader:
    """Documents of the store; texts with candidates are kept in memory."""

    def __init__(self, project: Project) -> None:
        self._store = project.store

    def document(self, name: str) -> Document | None:
        return self._store.document(name)

    def texts(self, candidates: Sequence[Candidate]) -> Mapping[str, str]:
        names = {one.span.document_id for one in candidates if not one.reason}
        documents = (self._store.document(name) for name in sorted(names))
        return {one.id: one.text for one in documents if one is not None}


def _kinds(project: Project, how: Synthesizing) -> tuple[str, ...]:
    for kind in how.kinds:
        if kind not in KINDS:
            raise ConfigError(
                f"unknown kind {kind!r}", where="--kinds", hint=f"one of {', '.join(KINDS)}"
            )
    if how.questions < 1 or how.per_chunk < 1:
        raise ConfigError(
            f"{counted(how.questions, 'question')}, {how.per_chunk} per chunk",
            hint="ask for at least one",
        )
    if how.kinds:
        return tuple(dict.fromkeys(how.kinds))
    return ("model",) if _model(project, how) else tuple(_OFFLINE)


def _model(project: Project, how: Synthesizing) -> str:
    model = how.model or project.settings.answer.model
    return "" if model == ExtractiveReranker.name else model


def _writing(project: Project, how: Synthesizing) -> Writing:
    model = _model(project, how)
    if not model:
        raise ConfigError(
            "no chat model is set to write questions",
            where="answer.model",
            hint="name one with --model, or use --kinds template",
        )
    writer, checker = _prompt(project, "synth"), _prompt(project, "answerable")
    tokens = max(_MAX_TOKENS, 300 * how.per_chunk * (1 + len(how.personas)))
    return Writing(
        setup=MeasureSetup(model=model, max_tokens=tokens, format="json"),
        writer=writer,
        checker=checker,
        levels=how.levels or tuple(level_lines(writer)),
        count=how.per_chunk,
        personas=tuple(pick_persona(name, project.personas) for name in how.personas),
    )


def _prompt(project: Project, name: str) -> Mapped:
    """The project's own prompt file with a name, else the shipped one.

    Raises:
        PromptError: A key is unknown, with file and line.
    """
    shipped = shipped_mapping("testsets", f"prompts/{name}.yaml")
    own = project.folder.prompts / f"{name}.yaml"
    if not own.is_file():
        return shipped
    data = read_mapping(own)
    data.check_keys(shipped.values, "a prompt of synth")
    return data


def _written(
    project: Project, how: Synthesizing, writing: Writing, survey: Survey, wanted: int
) -> tuple[list[Candidate], RunSummary]:
    """Candidates written by the model, in rounds until enough are accepted."""
    source = survey.vocabulary.source
    passages = passages_of(project, survey, how.seed)
    found: list[Candidate] = []
    summaries: list[RunSummary] = []
    accepted = 0
    for number in range(_ROUNDS):
        due = (wanted - accepted) / how.per_chunk
        batch = list(islice(passages, math.ceil(due if number == 0 else 1.5 * due)))
        if not batch and summaries:
            break
        manifest = {
            **writing.manifest(),
            "snapshot": project.target().snapshot,
            "passages": value_hash([passage.id for passage in batch]),
        }
        items = [(p.id, partial(write_questions, p, writing, source)) for p in batch]
        written, summary = _round(project, how, manifest, items)
        found += written
        summaries.append(summary)
        distinct = without_near_duplicates(found, source)
        accepted = sum(not one.reason for one in distinct)
        if accepted >= wanted or not summary.complete:
            break
    return found, _summed(summaries)


def _round(
    project: Project,
    how: Synthesizing,
    manifest: Mapping[str, object],
    items: Sequence[tuple[str, Callable[[], Flow[tuple[Candidate, ...]]]]],
) -> tuple[list[Candidate], RunSummary]:
    """One stored job over some passages."""
    job = Job(
        kind="synth",
        manifest=manifest,
        items=items,
        encode=candidate_body,
        sources=lambda made: list(dict.fromkeys(one.span.document_id for one in made)),
        resume=how.resume,
    )
    summary = run_job(project.runner, project.runs, job)
    found: list[Candidate] = []
    for row in project.runs.rows(summary.run):
        if row.state == "done":
            found += candidates_of(row.body)
        elif row.state == "errored":
            failed = Candidate("model", "", "", GoldSpan(row.id, 0, 0))
            found.append(failed.rejected(f"the call failed: {row.body.get('error')}"))
    return found, summary


def _summed(rounds: Sequence[RunSummary]) -> RunSummary:
    last = rounds[-1]
    return replace(
        last,
        **{
            name: sum(getattr(one, name) for one in rounds)
            for name in ("total", "kept", "done", "errored", "skipped")
        },
    )


def _until(candidates: Iterable[Candidate], accepted: int) -> Iterator[Candidate]:
    """Candidates up to a number of accepted ones."""
    for candidate in candidates:
        if accepted == 0:
            return
        yield candidate
        accepted -= not candidate.reason


def _in_turn(lists: Sequence[Sequence[Candidate]]) -> list[Candidate]:
    """Accepted candidates, alternating between kinds, then the rejected ones."""
    accepted = [[one for one in each if not one.reason] for each in lists]
    turns = [one for turn in zip_longest(*accepted) for one in turn if one is not None]
    return [*turns, *(one for each in lists for one in each if one.reason)]


def _strong_first(lists: Sequence[Sequence[Candidate]]) -> list[Candidate]:
    """Questions as a person would ask them, then the weak ones in turn, then the rejected ones."""
    ordered = _in_turn(lists)
    return sorted(ordered, key=lambda one: (bool(one.reason), one.weak))


def _left_out(candidate: Candidate) -> bool:
    return candidate.weak and not candidate.reason


def _distinct(
    project: Project, candidates: Sequence[Candidate], survey: Survey, wanted: int
) -> list[Candidate]:
    """Distinct candidates in their order, up to a number, then the rejected ones.

    Near-duplicates are found by words and, with an embedder, by meaning. Only as many questions are
    embedded as are needed to find enough distinct ones.
    """
    model = project.settings.embed.model
    waiting = [one for one in candidates if not one.reason]
    looked: list[Candidate] = []
    judged: list[Candidate] = []
    vectors: list[NDArray[np.float32]] = []
    missing = wanted
    while waiting and missing > 0:
        size = max(missing, wanted // 4)
        batch, waiting = waiting[:size], waiting[size:]
        looked += batch
        if model:
            vectors.append(project.runner.run(embed(model, [one.question for one in batch])))
        known = np.concatenate(vectors) if vectors else None
        judged = without_near_duplicates(looked, survey.vocabulary.source, known)
        missing = wanted - sum(not one.reason for one in judged)
    return sorted([*judged, *(one for one in candidates if one.reason)], key=_is_rejected)


def _is_rejected(candidate: Candidate) -> bool:
    return bool(candidate.reason)
