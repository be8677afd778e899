"""Nuggets of rows: drafted by a model from gold passages and answers, or taken from a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ...core import ConfigError, Mapped, Nugget, Row, TestsetError, value_hash
from ...flow import Flow, Forecast, Job, RunSummary, run_job
from ...measure import (
    JudgeCall,
    MeasureSetup,
    ReplyForm,
    asked,
    object_schema,
    ordered,
    read_object,
    schema_text,
    text_of,
)
from ...models import NO_MODEL
from ...project import Project, at_work
from ..rows import nugget_record, read_rows
from ._synthesizing import prompt_file

MOST_NUGGETS = 20
_IMPORTANCES = ("vital", "okay")
_MAX_TOKENS = 2000
OTHER_MODEL = (
    "No nuggets result from these. Stop with Ctrl-C, then name another model with --model: this "
    "one does not write the requested JSON."
)


@dataclass(frozen=True, slots=True)
class NuggetDraft:
    """The nuggets of one row, or why there are none."""

    nuggets: tuple[Nugget, ...] = ()
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NuggetDrafts:
    """Rows with their nuggets.

    Attributes:
        rows: All rows, in their order.
        drafted: Rows that got nuggets; ``kept`` those that had some before.
        failed: Reason -> number of rows without nuggets.
    """

    rows: tuple[Row, ...]
    drafted: int
    kept: int
    failed: Mapping[str, int]

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of vital and okay nuggets."""
        every: Counter[str] = Counter(
            nugget.importance for row in self.rows for nugget in row.nuggets
        )
        return {name: every[name] for name in _IMPORTANCES}


def draft_for(row: Row, setup: MeasureSetup, prompt: Mapped) -> Flow[NuggetDraft]:
    """Draft the nuggets of a row from its gold passages and gold answer; one call.

    Raises:
        ModelError: The server fails.
    """
    judged = yield from asked(_drafting_call(row, prompt), setup)
    if judged.value is None:
        return NuggetDraft(reason="no usable reply after a retry")
    return NuggetDraft(judged.value, "" if judged.value else "the model found no nugget")


@at_work("synth")
def draft_nuggets(
    project: Project, rows: Sequence[Row], *, model: str = "", resume: bool = False
) -> tuple[NuggetDrafts, RunSummary]:
    """Draft nuggets for the rows that have gold and no nuggets yet.

    Rows get ``nuggets_drafted``, the model, in their metadata until a person decides on them.

    Raises:
        ConfigError: No chat model is set.
        TestsetError: No row has gold to draft from.
    """
    setup, prompt, waiting = _drafting(project, rows, model)
    job: Job[NuggetDraft] = Job(
        kind="synth",
        manifest={
            "nuggets": setup.model,
            "prompt": dict(prompt.values),
            "rows": value_hash([[row.id, *map(list, _gold_of(row))] for row in waiting]),
        },
        items=[(row.id, partial(draft_for, row, setup, prompt)) for row in waiting],
        encode=_draft_body,
        resume=resume,
    )
    summary = run_job(project.runner, project.runs, job)
    drafts: dict[str, NuggetDraft] = {}
    for stored in project.runs.rows(summary.run):
        if stored.state == "done":
            nuggets = tuple(Nugget(**nugget) for nugget in stored.body["nuggets"])
            drafts[stored.id] = NuggetDraft(nuggets, stored.body["reason"])
        elif stored.state == "errored":
            drafts[stored.id] = NuggetDraft(reason=f"the call failed: {stored.body.get('error')}")
    return _with_drafts(rows, drafts, setup.model), summary


def forecast_nuggets(project: Project, rows: Sequence[Row], *, model: str = "") -> Forecast:
    """Forecast the calls and cost of :func:`draft_nuggets`.

    Raises:
        ConfigError: As :func:`draft_nuggets`.
    """
    setup, prompt, waiting = _drafting(project, rows, model)
    return project.runner.forecast(partial(draft_for, row, setup, prompt) for row in waiting)


def with_nuggets_of(rows: Sequence[Row], path: str | Path) -> NuggetDrafts:
    """Take the nuggets of a file, by id or else by question; rows with nuggets keep theirs.

    Raises:
        TestsetError: The file cannot be read, or has nuggets for none of the rows.
    """
    by_id: dict[str, tuple[Nugget, ...]] = {}
    by_question: dict[str, tuple[Nugget, ...]] = {}
    for row in read_rows(path):
        nuggets = tuple(replace(nugget, assignment="") for nugget in row.nuggets)
        by_id.setdefault(str(row.metadata.get("topic", row.id)), nuggets)
        by_question.setdefault(row.user_input.strip(), nuggets)
    drafts = {}
    for row in rows:
        nuggets = by_id.get(row.id) or by_question.get(row.user_input.strip(), ())
        drafts[row.id] = NuggetDraft(nuggets, "" if nuggets else "not in the file of nuggets")
    taken = _with_drafts(rows, drafts, "")
    if not taken.drafted and not taken.kept:
        raise TestsetError(
            "the file has nuggets for none of the rows",
            where=str(path),
            hint="`qid` must be the id of a row, or `query` its question",
        )
    return taken


def _drafting(
    project: Project, rows: Iterable[Row], model: str
) -> tuple[MeasureSetup, Mapped, list[Row]]:
    chosen = model or project.settings.answer.model
    if not chosen or chosen == NO_MODEL:
        raise ConfigError(
            "no chat model is set to draft nuggets",
            where="answer.model",
            hint="name one with --model, or take nuggets from a file with --from FILE",
        )
    waiting = [row for row in rows if not row.nuggets and any(_gold_of(row))]
    if not waiting:
        raise TestsetError(
            "no row needs nuggets: each has some, or has neither gold passages nor a gold answer",
            hint="make a testset with `ragwright synth`, or add `reference` to its rows",
        )
    setup = MeasureSetup(model=chosen, max_tokens=_MAX_TOKENS, format="json")
    return setup, prompt_file(project, "nuggets"), waiting


def _gold_of(row: Row) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The gold passages and the gold answer, without blank ones."""
    passages = [span.text for span in row.reference_spans] or [*row.reference_contexts]
    return (
        tuple(text for text in passages if text.strip()),
        (row.reference,) if row.reference.strip() else (),
    )


def _with_drafts(
    rows: Sequence[Row], drafts: Mapping[str, NuggetDraft], model: str
) -> NuggetDrafts:
    complete, failed, kept = [], Counter[str](), 0
    for row in rows:
        draft = drafts.get(row.id, NuggetDraft(reason="no gold passage and no gold answer"))
        if row.nuggets:
            kept += 1
        elif draft.nuggets:
            metadata = {**row.metadata, "nuggets_drafted": model or "file"}
            row = replace(row, nuggets=draft.nuggets, metadata=metadata)
        else:
            failed[draft.reason] += 1
        complete.append(row)
    drafted = len(rows) - kept - failed.total()
    return NuggetDrafts(tuple(complete), drafted, kept, dict(failed))


def _draft_body(draft: NuggetDraft) -> dict[str, Any]:
    return {"nuggets": [nugget_record(n) for n in draft.nuggets], "reason": draft.reason}


def _drafting_call(row: Row, prompt: Mapped) -> JudgeCall[tuple[Nugget, ...]]:
    passages, answers = _gold_of(row)
    spans = (span.document_id for span in row.reference_spans)
    return JudgeCall(
        prompt="nuggets",
        texts=(
            ("question", row.user_input),
            *((f"gold passage {number}", text) for number, text in enumerate(passages, 1)),
            *(("gold answer", text) for text in answers),
        ),
        read=_read_nuggets,
        schema=_DRAFT,
        stand_in=(Nugget("forecast"),),
        values={"count": MOST_NUGGETS},
        sources=tuple(dict.fromkeys(spans)),
        data=prompt,
        advice=OTHER_MODEL,
    )


def _read_nuggets(text: str, form: ReplyForm, finish: str) -> tuple[Nugget, ...]:
    entries = read_object(text, ("nuggets",), finish)["nuggets"]
    if not isinstance(entries, list) or len(entries) > MOST_NUGGETS:
        raise ValueError(f'"nuggets" must be a list of at most {MOST_NUGGETS} entries')
    nuggets = []
    for entry in entries:
        entry = ordered(entry, ("text", "importance"))
        if entry["importance"] not in _IMPORTANCES:
            raise ValueError('"importance" must be vital or okay')
        nuggets.append(
            Nugget(" ".join(text_of(entry["text"], "a nugget").split()), entry["importance"])
        )
    if len({nugget.text for nugget in nuggets}) < len(nuggets):
        raise ValueError("a nugget occurs twice")
    return tuple(nuggets)


_DRAFT = schema_text(
    {
        "nuggets": {
            "type": "array",
            "items": object_schema(
                {
                    "text": {"type": "string"},
                    "importance": {"type": "string", "enum": [*_IMPORTANCES]},
                }
            ),
        }
    }
)
