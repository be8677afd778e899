"""Testsets made from a project's own documents, or from rows of other tools."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, zip_longest
from pathlib import Path
from typing import TypeAlias

from ..answer import pick_persona
from ..core import (
    ConfigError,
    Document,
    GoldSpan,
    Mapped,
    MetaValue,
    Row,
    Span,
    TestsetError,
    count_noun,
    load_shipped_mapping,
    read_mapping,
    suggest_name,
    value_hash,
)
from ..flow import Flow, Forecast, Job, RunSummary, embed, run_job
from ..measure import MeasureSetup
from ..models import NO_MODEL
from ..project import Project, refuse_forget
from ._candidates import (
    FEW_DOCUMENTS,
    Candidate,
    Survey,
    Synthesis,
    leak_of,
    locate_quote,
    reject_near_duplicates,
    synthesis_of,
)
from ._questions import (
    UNUSABLE,
    Passage,
    QuestionWriter,
    candidate_body,
    candidates_of,
    cloze_questions,
    heading_questions,
    level_lines,
    order_spans,
    spread,
    write_questions,
)
from ._rows import read_rows
from ._splits import assign_splits, fold_clusters
from ._stale import move_row, stale_rows

_OFFLINE = {"cloze": cloze_questions, "heading": heading_questions}
"""Kinds that are made without a model."""

KINDS = ("model", *_OFFLINE)
"""Origins of questions."""

_Item: TypeAlias = tuple[str, Callable[[], Flow[tuple[Candidate, ...]]]]
"""Id and flow of a passage that a model writes on."""

_ROUNDS = 4
"""Most rounds with further passages if too many candidates were rejected."""

_SHORTEST_PASSAGE = 200
_MAX_TOKENS = 2000


@dataclass(frozen=True, slots=True)
class SynthesisOptions:
    """Options of making a testset.

    Attributes:
        questions: Number of questions; each has a row per persona.
        kinds: ``model``, ``cloze``, ``heading``, in equal shares; by default the model if there is
            one, else cloze and heading, which no person would ask.
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
    seed: int = 0
    resume: bool = False


@refuse_forget("synth")
def synthesize(project: Project, options: SynthesisOptions) -> tuple[Synthesis, RunSummary | None]:
    """Make a testset from the documents of the index; also return the summary of the model's run.

    Raises:
        TestsetError: No question could be made; with the most common reason.
        ConfigError: A kind, level or persona is unknown, or a model is needed and none is set.
        RetrieveError: Nothing has been ingested.
    """
    kinds = _request_kinds(project, options)
    writing = _writing_options(project, options) if "model" in kinds else None
    project.target()  # raises with a hint if nothing is indexed
    survey = survey_of(project)
    share = math.ceil(options.questions / len(kinds))
    lists: list[list[Candidate]] = []
    summaries: list[RunSummary] = []
    for kind in kinds:
        if kind == "model" and writing is not None:
            by_model, summaries = _model_candidates(project, options, writing, survey, share)
            lists.append(by_model)
        else:
            offline = spread(project.store.document, survey, _OFFLINE[kind], options.seed)
            lists.append(list(_until_accepted(offline, options.questions)))
    candidates = _distinct_candidates(project, lists, survey)
    names = {candidate.span.document_id for candidate in candidates if not candidate.reason}
    texts = {
        document.id: document.text
        for document in map(project.store.document, sorted(names))
        if document is not None
    }
    sums = {
        name: sum(getattr(of_round, name) for of_round in summaries)
        for name in ("total", "kept", "done", "errored", "skipped")
    }
    summary = replace(summaries[-1], **sums) if summaries else None
    stopped = any(not of_round.complete for of_round in summaries)
    notes = ["the run was stopped before its end: continue it with --resume"] if stopped else []
    synthesis = synthesis_of(candidates, options.questions, survey, texts, notes)
    if not synthesis.rows and (summary is None or summary.reason is None):
        commonest = next(iter(synthesis.rejected), "no passage was long enough")
        hint = "ingest more prose, or ask for other --kinds"
        if commonest == UNUSABLE:
            hint = "name another model with --model: this one does not write the requested JSON"
        raise TestsetError(f"no question could be made: {commonest}", hint=hint)
    return synthesis, summary


def forecast_synthesis(project: Project, options: SynthesisOptions) -> Forecast:
    """Forecast the calls and cost of making a testset if no candidate is rejected.

    Rejected candidates are replaced from further passages, in up to three more rounds.

    Raises:
        ConfigError: As :func:`synthesize`.
    """
    kinds = _request_kinds(project, options)
    if "model" not in kinds:
        return project.runner.forecast([])
    writing = _writing_options(project, options)
    project.target()  # raises with a hint if nothing is indexed
    survey = survey_of(project)
    first = math.ceil(math.ceil(options.questions / len(kinds)) / options.per_chunk)
    items = islice(_items_of(project, options, writing, survey), first)
    return project.runner.forecast(make for _, make in items)


def import_testset(project: Project, path: str | Path) -> Synthesis:
    """Make rows of a file a testset of this project: gold located, labelled, split.

    Raises:
        TestsetError: The rows cannot be read; with file and line.
        RetrieveError: Nothing has been ingested.
    """
    project.target()
    rows = read_rows(path, questions=True)
    survey = survey_of(project)
    with project.store.reading(project.index_spec) as reading:
        documents = ((kept.document.id, kept.document.text) for kept in reading.documents())
        imported, faults = import_rows(rows, documents, survey)
    leaks = sorted(leak for row in imported if isinstance(leak := row.metadata.get("leak"), float))
    spanned = sum(bool(row.reference_spans) for row in imported)
    note = f"{spanned} of {len(imported)} rows have their gold as spans of the documents"
    return Synthesis(imported, {"imported": len(imported)}, faults, tuple(leaks), (note,))


def survey_of(project: Project) -> Survey:
    """Survey the indexed documents in one pass: rare words, chunks, repeated text."""
    with project.store.reading(project.index_spec) as reading:
        survey = Survey(reading.analyzer)
        for stored in reading.documents():
            survey.add(
                stored.document.id,
                stored.document.text,
                [Span(chunk.start, chunk.end) for chunk in stored.chunks],
            )
    return survey


def _passages_of(document: Document, survey: Survey, seed: int) -> Iterator[Passage]:
    """Yield chunks for questions, in a seeded order.

    Boilerplate, duplicates, and chunks below 200 characters are skipped.
    """
    for span in order_spans(survey.usable(document.id, document.text), document.id, seed):
        text = document.text[span.start : span.end]
        if len(text.strip()) >= _SHORTEST_PASSAGE:
            yield Passage(document.id, span, text, document.language)


def _request_kinds(project: Project, options: SynthesisOptions) -> tuple[str, ...]:
    for kind in options.kinds:
        if kind not in KINDS:
            raise ConfigError(
                f"unknown kind {kind!r}", where="--kinds", hint=f"one of {', '.join(KINDS)}"
            )
    if options.questions < 1 or options.per_chunk < 1:
        raise ConfigError(
            f"{count_noun(options.questions, 'question')}, {options.per_chunk} per chunk",
            hint="ask for at least one",
        )
    if options.kinds:
        return tuple(dict.fromkeys(options.kinds))
    return ("model",) if _writing_model(project, options) else tuple(_OFFLINE)


def _writing_model(project: Project, options: SynthesisOptions) -> str:
    model = options.model or project.settings.answer.model
    return "" if model == NO_MODEL else model


def _writing_options(project: Project, options: SynthesisOptions) -> QuestionWriter:
    model = _writing_model(project, options)
    if not model:
        raise ConfigError(
            "no chat model is set to write questions",
            where="answer.model",
            hint="name one with --model, or use --kinds cloze,heading",
        )
    writers, checkers = _prompt_files(project, "synth"), _prompt_files(project, "answerable")
    levels = options.levels or tuple(level_lines(writers[""]))
    for known in map(level_lines, writers.values()):
        for level in levels:
            if level not in known:
                raise ConfigError(
                    f"unknown level {level!r}", where="--levels", hint=suggest_name(level, known)
                )
    tokens = max(_MAX_TOKENS, 300 * options.per_chunk * (1 + len(options.personas)))
    return QuestionWriter(
        setup=MeasureSetup(model=model, max_tokens=tokens),
        files={
            name: (writers.get(name, writers[""]), checkers.get(name, checkers[""]))
            for name in sorted({*writers, *checkers})
        },
        levels=levels,
        count=options.per_chunk,
        personas=tuple(pick_persona(name, project.personas) for name in options.personas),
    )


def _prompt_files(project: Project, name: str) -> dict[str, Mapped]:
    """Return language -> prompt file with a name, empty for the others: the project's own
    ``NAME.yaml`` replaces all shipped ones, its ``NAME.xx.yaml`` that of one language.
    """
    files = {
        language: load_shipped_mapping(
            "testsets", f"prompts/{name}{language and '.'}{language}.yaml"
        )
        for language in ("", "fr")
    }
    keys, folder = files[""].values, project.folder.prompts
    for file in (*folder.glob(f"{name}.yaml"), *sorted(folder.glob(f"{name}.??.yaml"))):
        language = file.stem.removeprefix(name).removeprefix(".")
        files = {**(files if language else {}), language: read_mapping(file)}
        files[language].check_keys(keys, "a prompt of synth")
    return files


def _items_of(
    project: Project, options: SynthesisOptions, writing: QuestionWriter, survey: Survey
) -> Iterator[_Item]:
    for passage in spread(project.store.document, survey, _passages_of, options.seed):
        yield passage.id, partial(write_questions, passage, writing, survey.vocabulary.source)


def _model_candidates(
    project: Project,
    options: SynthesisOptions,
    writing: QuestionWriter,
    survey: Survey,
    wanted: int,
) -> tuple[list[Candidate], list[RunSummary]]:
    """Let the model write candidates, in rounds of one stored job until enough are accepted."""
    waiting = _items_of(project, options, writing, survey)
    candidates: list[Candidate] = []
    summaries: list[RunSummary] = []
    accepted = 0
    for number in range(_ROUNDS):
        missing = (wanted - accepted) / options.per_chunk
        items = list(islice(waiting, math.ceil(missing if number == 0 else 1.5 * missing)))
        if not items and summaries:
            break
        manifest = {
            **writing.manifest(),
            "snapshot": project.target().snapshot,
            "passages": value_hash([name for name, _ in items]),
        }
        job = Job(
            kind="synth",
            manifest=manifest,
            items=items,
            encode=candidate_body,
            sources=_documents_of,
            resume=options.resume,
        )
        summary = run_job(project.runner, project.runs, job)
        summaries.append(summary)
        for row in project.runs.rows(summary.run):
            if row.state == "done":
                candidates += candidates_of(row.body)
            elif row.state == "errored":
                reason = f"the call failed: {row.body.get('error')}"
                candidates.append(Candidate("model", "", "", GoldSpan(row.id, 0, 0), reason=reason))
        distinct = reject_near_duplicates(candidates, survey.vocabulary.source)
        accepted = sum(not candidate.reason for candidate in distinct)
        if accepted >= wanted or not summary.complete:
            break
    return candidates, summaries


def _documents_of(candidates: Iterable[Candidate]) -> list[str]:
    return list(dict.fromkeys(candidate.span.document_id for candidate in candidates))


def _until_accepted(candidates: Iterable[Candidate], accepted: int) -> Iterator[Candidate]:
    for candidate in candidates:
        if accepted == 0:
            return
        yield candidate
        accepted -= not candidate.reason


def _distinct_candidates(
    project: Project, lists: Sequence[Sequence[Candidate]], survey: Survey
) -> list[Candidate]:
    """Return distinct candidates, alternating between kinds, then the rejected.

    Words and, with an embedder, vectors show near-duplicates.
    """
    model = project.settings.embed.model
    accepted = [[candidate for candidate in each if not candidate.reason] for each in lists]
    turns = [one for turn in zip_longest(*accepted) for one in turn if one is not None]
    vectors = None
    if model and turns:
        vectors = project.runner.run(embed(model, [candidate.question for candidate in turns]))
    distinct = reject_near_duplicates(turns, survey.vocabulary.source, vectors)
    rejected = [candidate for each in lists for candidate in each if candidate.reason]
    return sorted([*distinct, *rejected], key=lambda candidate: bool(candidate.reason))


def import_rows(
    rows: Sequence[Row], documents: Iterable[tuple[str, str]], survey: Survey
) -> tuple[tuple[Row, ...], Mapping[str, int]]:
    """Return rows with gold as spans, ``kind``, ``leak`` and ``split``, and count faults.

    ``reference_contexts`` of a row without spans are searched for literally (white space may
    differ), in its ``reference_ids`` if it has some, else everywhere; only a passage at exactly one
    place becomes a span. Spans whose text moved get their new place. Existing labels are kept; rows
    are never dropped.

    Args:
        rows: Rows as read.
        documents: (id, text) of every document; read once.
        survey: Survey of the same documents.
    """
    wanted = {
        text for row in rows if not row.reference_spans for text in row.reference_contexts if text
    }
    named = {span.document_id for row in rows for span in row.reference_spans}
    places: dict[str, list[GoldSpan]] = {text: [] for text in wanted}
    texts: dict[str, str] = {}
    for name, text in documents:
        flat = " ".join(text.split())
        # Cheap check first: most passages are not in this document.
        inside = [p for p in wanted if p in text or " ".join(p.split()) in flat]
        for passage in inside:
            span, _ = locate_quote(passage, text, 0, name)
            places[passage] += [span] if span else [GoldSpan(name, 0, 0)] * 2
        if inside or name in named:
            texts[name] = text
    stale = stale_rows(rows, texts.get)
    counts = Counter(
        {
            "gold spans moved with their text": len({s.row_id for s in stale if s.now}),
            "gold spans whose text no longer exists": len({s.row_id for s in stale if not s.now}),
        }
    )
    located_rows = []
    for row in rows:
        row = move_row(row, stale)
        spans = list(row.reference_spans)
        for passage in filter(None, () if spans else row.reference_contexts):
            allowed = row.reference_ids
            matches = [s for s in places[passage] if not allowed or s.document_id in allowed]
            if len(matches) == 1:
                spans += matches
            elif matches:
                counts["a gold passage occurs in several places"] += 1
            else:
                counts["a gold passage is not in any document"] += 1
        located_rows.append(replace(row, reference_spans=tuple(dict.fromkeys(spans))))
    splits = assign_splits(located_rows)
    if len(set(splits.values())) < 2:
        # The rows are on one or few documents: split by passage, else nothing could be confirmed.
        splits = assign_splits(located_rows, clusters=fold_clusters(located_rows, FEW_DOCUMENTS))
    labelled = (_add_labels(row, splits[row.id], survey, texts) for row in located_rows)
    return tuple(labelled), {name: count for name, count in counts.items() if count}


def _add_labels(row: Row, split: str, survey: Survey, texts: Mapping[str, str]) -> Row:
    metadata: dict[str, MetaValue] = {"kind": "imported", "split": split}
    for span in row.reference_spans[:1]:
        leak = leak_of(row.user_input, span, survey, texts)
        metadata |= {} if leak is None else {"leak": leak}
    return replace(row, metadata={**metadata, **row.metadata})
