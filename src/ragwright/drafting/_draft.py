"""Drafting as one flow: find similar records, build prompts, get texts, check them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from ..core import ConfigError, RagwrightError, Usage
from ..flow import Flow, gather, run_in_pool
from ..retrieve import Target
from ._copies import copies_among
from ._find import DraftPlan, Pool, check_biography, find_pool, settled_request
from ._records import DraftBatch, DraftPrompt, DraftRequest, DraftText
from ._write import Job, Known, Written, left_of, previewed, written_by


@dataclass(slots=True)
class Underway:
    """A draft under way, with its partial result if it is stopped."""

    job: Job | None = None

    def batch(self, known: Known, reason: str) -> DraftBatch | None:
        """The answered calls and their texts, marked partial; None if there are none.

        Args:
            known: The stored reply to a request, None where there is none.
            reason: Why the work was stopped.
        """
        made = [] if self.job is None else left_of(self.job, known)
        if self.job is None or not made:
            return None
        batch = _batch(self.job, made)
        return replace(
            batch, notes=(f"stopped before its end: {reason}", *batch.notes), partial=True
        )


def draft(
    request: DraftRequest, target: Target, plan: DraftPlan, underway: Underway | None = None
) -> Flow[DraftBatch]:
    """Texts in a client's style, by every model of the plan, from records found once.

    Records are found under soft filters: client, ask type, length, every topic and
    every tone. A model gets a sample of them as turns and writes all texts at once; with a length
    in ``one_per_call`` each text has its own call with mutually dissimilar examples. Missing texts
    and those of a wrong length are requested once more. Near copies are marked.

    With ``plan.preview`` prompts are built but not sent; it needs no model.
    ``underway`` holds the partial result if it is stopped (budget, interrupt).

    Raises:
        PromptError: An unknown name, with the nearest; too few records; a template that fails; a
            window that is too small.
        RetrieveError: The index holds no records.
        ModelError: Every model failed; with the error of each.
        ConfigError: There is no model.
    """
    asked = settled_request(request, plan)
    if not plan.models and not plan.preview:
        raise no_model()
    typed = request.client.strip()
    pool = yield from find_pool(asked, target, plan, typed)
    yield from check_biography(asked, target, plan, typed)
    job = Job(asked, plan, pool, target.snapshot)
    if underway is not None:
        underway.job = job
    if plan.preview:
        return (yield from run_in_pool(partial(_previewed, job)))
    outcomes = yield from gather([written_by(model, job) for model in plan.models], settle=True)
    made = [_settled(model, one) for model, one in zip(plan.models, outcomes, strict=True)]
    errors = [(one.model, one.error) for one in made if one.error is not None]
    if len(errors) == len(made):
        raise _all_failed(errors)
    return (yield from run_in_pool(partial(_batch, job, made)))


def no_model() -> ConfigError:
    """The error if no model is configured for drafts."""
    return ConfigError(
        "no chat model is configured",
        where="answer.draft.models",
        hint="--model provider:name, or answer.model or answer.draft.models in ragwright.yaml "
        "(openai:…, ollama:…, http://host/v1#name); --show-prompt and --dry-run need none",
    )


def _previewed(job: Job) -> DraftBatch:
    return _batch(job, [previewed(model, job) for model in job.plan.models or ("",)])


def _settled(model: str, outcome: Written | Exception) -> Written:
    """The result of a model; an error of its prompt does not affect other models."""
    if isinstance(outcome, Written):
        return outcome
    if not isinstance(outcome, RagwrightError):
        raise outcome
    note = f"{model}: {type(outcome).__name__}: {outcome.what}"
    return Written(model, notes=(note,), error=outcome)


def _all_failed(errors: Sequence[tuple[str, RagwrightError]]) -> RagwrightError:
    """One error for those of all models, of their common kind."""
    _, first = errors[0]
    if len(errors) == 1:
        return first
    kind = next(k for k in type(first).__mro__ if all(isinstance(error, k) for _, error in errors))
    told = "; ".join(f"{model}: {type(error).__name__}: {error.what}" for model, error in errors)
    ways = dict.fromkeys(error.hint for _, error in errors if error.hint)
    every: RagwrightError = kind(
        f"each of the {len(errors)} models failed: {told}",
        where=", ".join(dict.fromkeys(error.where for _, error in errors if error.where)) or None,
        hint="; ".join(ways) or None,
    )
    every.__cause__ = first
    return every


def _batch(job: Job, made: Sequence[Written]) -> DraftBatch:
    prompts: list[DraftPrompt] = []
    texts: list[DraftText] = []
    notes = [*job.plan.notes, *job.pool.found.notes]
    for one in made:
        texts += [replace(text, prompt=len(prompts) + text.prompt) for text in one.texts]
        prompts += one.prompts
        notes += one.notes
    return DraftBatch(
        job.request,
        tuple(_marked(texts, job.pool, job.plan.options.near_copy)),
        tuple(prompts),
        job.pool.found.hits,
        job.pool.found.query,
        job.pool.found.mode,
        tuple(one.model for one in made if one.model),
        tuple(dict.fromkeys(notes)),
        # The cost of a failed call is unknown; it must not hide that of the others.
        sum((prompt.usage for prompt in prompts if not prompt.error), Usage()),
        bool(prompts) and all(prompt.cached for prompt in prompts),
        snapshot=job.snapshot,
    )


def _marked(texts: Sequence[DraftText], pool: Pool, threshold: float) -> list[DraftText]:
    """Texts with their near copies: examples of the pool, and earlier texts."""
    examples = [(example.hit.document_id, example.text) for example in pool.examples]
    found = copies_among([text.text for text in texts], examples, threshold)
    return [
        replace(text, marks=(*text.marks, *map(str, copies))) if copies else text
        for text, copies in zip(texts, found, strict=True)
    ]
