"""The questions of a rehearsal: rows of a test set, and those that were served."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..core import ConfigError, Row, StoreError, counted
from ..drafting import OutputQuery, moment, project_outputs, served_row
from ..experiment import unanswered
from ..testsets import project_testset
from ._records import RehearsedQuestion

if TYPE_CHECKING:
    from ..project import Project
    from ._options import Rehearsing

_ANSWER = "answer"
"""Kind of the batch that a served answer is."""


def rehearsed_questions(
    project: Project, options: Rehearsing
) -> tuple[tuple[RehearsedQuestion, ...], tuple[str, ...]]:
    """The questions, most asked first, and notes on those that were left out.

    Raises:
        ConfigError: No question was served, and no test set is named.
        TestsetError: The test set cannot be read.
    """
    questions: list[RehearsedQuestion] = []
    notes: list[str] = []
    if options.served or (options.served is None and not options.testset):
        served, left_out = _served_questions(project, options)
        questions += served
        notes += left_out
        if not served and not options.testset:
            whose = f" for {options.scope}" if options.scope else ""
            raise ConfigError(
                f"no question was served{whose} that could be asked again",
                where="ragwright rehearse",
                hint="name a test set: --testset testsets/main.jsonl; questions are kept when they "
                "are asked through `ragwright serve` with serve.keep_answers; those of one "
                "tenant: --scope TENANT",
            )
    if options.testset:
        testset = project_testset(
            project.folder, options.testset, "", limit=options.limit, seed=options.seed
        )
        questions += [RehearsedQuestion(unanswered(row)) for row in testset.rows]
        notes += testset.notes
    return tuple(sorted(questions, key=lambda question: -question.asked)), tuple(notes)


def _served_questions(
    project: Project, options: Rehearsing
) -> tuple[list[RehearsedQuestion], list[str]]:
    """Questions of served answers, each once with how often it was asked."""
    since = moment(options.since) if options.since else ""
    query = OutputQuery(kind="text", scope=options.scope, since=since)
    known: dict[tuple[str, str], RehearsedQuestion] = {}
    follow_ups = 0
    try:
        for output in project_outputs(project).find(query):
            text = output.request.get("question")
            if not isinstance(text, str) or not text.strip():
                continue  # a draft
            if output.request.get("asked_before"):
                follow_ups += 1
                continue
            persona = str(output.request.get("persona") or "")
            before = known.get((text, persona))
            if before is not None:
                before = replace(before, asked=before.asked + 1, served=output.text)
            else:
                row = Row(served_row(text, persona), text, persona_name=persona)
                before = RehearsedQuestion(row, served=output.text)
            known[text, persona] = before
    except StoreError:
        if not project.folder.ledger.exists():
            return [], []
        raise
    ranked = sorted(known.values(), key=lambda question: (-question.asked, question.row.id))
    notes = []
    if follow_ups:
        notes.append(
            f"{counted(follow_ups, 'served question', 'served questions')} followed earlier turns "
            "and cannot be asked again: of those turns only the questions are stored"
        )
    unknown = {q.row.persona_name for q in ranked} - {"", *project.personas}
    if unknown:
        ranked = [q for q in ranked if q.row.persona_name not in unknown]
        notes.append(
            f"left out: questions for personas that are gone: {', '.join(sorted(unknown))}"
        )
    if options.limit is not None and len(ranked) > options.limit:
        notes.append(f"the {options.limit} most asked of {len(ranked)} served questions")
    return ranked[: options.limit], notes
