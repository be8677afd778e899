"""Drafting as one flow: find similar records, build prompts, call models, check texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from ..core import ConfigError, RagwrightError, Usage
from ..flow import Flow, gather, run_in_pool
from ..retrieve import Target
from ._copies import copies_among
from ._find import DraftPlan, Pool, check_biography, find_pool, settle_request
from ._records import DraftBatch, DraftPrompt, DraftRequest, DraftText
from ._write import (
    NEAR_COPY,
    DraftJob,
    Known,
    ModelDrafts,
    partial_results,
    preview_calls,
    write_texts,
)


@dataclass(slots=True)
class Underway:
    """A draft in progress, with its partial result if it is stopped."""

    job: DraftJob | None = None

    def batch(self, known: Known, reason: str) -> DraftBatch | None:
        """Return the answered calls and their texts, marked partial; None if there are none.

        Args:
            known: Returns the stored reply to a request, None if there is none.
            reason: Reason of the stop.
        """
        results = [] if self.job is None else partial_results(self.job, known)
        if self.job is None or not results:
            return None
        batch = _batch_of(self.job, results)
        return replace(
            batch, notes=(f"stopped before its end: {reason}", *batch.notes), partial=True
        )


def draft(
    request: DraftRequest, target: Target, plan: DraftPlan, underway: Underway | None = None
) -> Flow[DraftBatch]:
    """Draft texts in a client's style, by every model of the plan, from records found once.

    Soft filters choose the records: client, ask type, length, every topic and every tone. A model
    gets a sample of them as turns and writes all texts at once; of long texts
    each text has its own call with mutually dissimilar examples. Missing texts and those of a wrong
    length are requested once more. Near copies are marked.

    With ``plan.preview`` prompts are built but not sent; no model is needed. ``underway`` holds the
    partial result if the draft is stopped (budget, interrupt).

    Raises:
        PromptError: An unknown name, with the nearest; too few records; a template that fails; a
            window that is too small.
        RetrieveError: The index holds no records.
        ModelError: Every model failed; with the error of each.
        ConfigError: There is no model.
    """
    settled = settle_request(request, plan)
    if not plan.models and not plan.preview:
        raise no_model()
    typed = request.client.strip()
    pool = yield from find_pool(settled, target, plan, typed)
    yield from check_biography(settled, target, plan, typed)
    job = DraftJob(settled, plan, pool, target.snapshot)
    if underway is not None:
        underway.job = job
    if plan.preview:
        return (yield from run_in_pool(partial(_preview_batch, job)))
    outcomes = yield from gather([write_texts(model, job) for model in plan.models], settle=True)
    results = [
        _result_or_failure(model, outcome)
        for model, outcome in zip(plan.models, outcomes, strict=True)
    ]
    errors = [(result.model, result.error) for result in results if result.error is not None]
    if len(errors) == len(results):
        raise _combined_error(errors)
    return (yield from run_in_pool(partial(_batch_of, job, results)))


def no_model() -> ConfigError:
    """Return the error if no model is configured for drafts."""
    return ConfigError(
        "no chat model is configured",
        where="answer.draft.models",
        hint="--model provider:name, or answer.model or answer.draft.models in ragwright.yaml "
        "(openai:…, ollama:…, http://host/v1#name); --show-prompt and --dry-run need none",
    )


def _preview_batch(job: DraftJob) -> DraftBatch:
    return _batch_of(job, [preview_calls(model, job) for model in job.plan.models or ("",)])


def _result_or_failure(model: str, outcome: ModelDrafts | Exception) -> ModelDrafts:
    """Return the result of a model; an error of its prompt does not affect other models."""
    if isinstance(outcome, ModelDrafts):
        return outcome
    if not isinstance(outcome, RagwrightError):
        raise outcome
    note = f"{model}: {type(outcome).__name__}: {outcome.what}"
    return ModelDrafts(model, notes=(note,), error=outcome)


def _combined_error(errors: Sequence[tuple[str, RagwrightError]]) -> RagwrightError:
    """Combine the errors of all models, in their common class."""
    _, first = errors[0]
    if len(errors) == 1:
        return first
    kind = next(k for k in type(first).__mro__ if all(isinstance(error, k) for _, error in errors))
    messages = "; ".join(
        f"{model}: {type(error).__name__}: {error.what}" for model, error in errors
    )
    hints = dict.fromkeys(error.hint for _, error in errors if error.hint)
    combined: RagwrightError = kind(
        f"each of the {len(errors)} models failed: {messages}",
        where=", ".join(dict.fromkeys(error.where for _, error in errors if error.where)) or None,
        hint="; ".join(hints) or None,
    )
    combined.__cause__ = first
    return combined


def _batch_of(job: DraftJob, results: Sequence[ModelDrafts]) -> DraftBatch:
    prompts: list[DraftPrompt] = []
    texts: list[DraftText] = []
    notes = [*job.plan.notes, *job.pool.retrieved.notes]
    for result in results:
        texts += [replace(text, prompt=len(prompts) + text.prompt) for text in result.texts]
        prompts += result.prompts
        notes += result.notes
    return DraftBatch(
        job.request,
        tuple(_with_copy_marks(texts, job.pool)),
        tuple(prompts),
        job.pool.retrieved.hits,
        job.pool.retrieved.query,
        job.pool.retrieved.mode,
        tuple(result.model for result in results if result.model),
        tuple(dict.fromkeys(notes)),
        # The cost of a failed call is unknown; it must not hide that of the others.
        sum((prompt.usage for prompt in prompts if not prompt.error), Usage()),
        bool(prompts) and all(prompt.cached for prompt in prompts),
        snapshot=job.snapshot,
    )


def _with_copy_marks(texts: Sequence[DraftText], pool: Pool) -> list[DraftText]:
    """Mark the near copies of texts: examples of the pool, and earlier texts."""
    examples = [(example.hit.document_id, example.text) for example in pool.examples]
    return [
        replace(text, marks=(*text.marks, *map(str, copies))) if copies else text
        for text, copies in zip(
            texts, copies_among([text.text for text in texts], examples, NEAR_COPY), strict=True
        )
    ]
