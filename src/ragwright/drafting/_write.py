"""A draft: the calls of each model, the splitting and checking of replies, and its batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TypeAlias

from ..core import ConfigError, ModelError, RagwrightError, Usage
from ..flow import INCOMPLETE, Chat, ChatReply, Flow, branch, gather, run_in_pool, send, sort_params
from ..retrieve import Target
from ._copies import copies_among, normalise_case, shares_before, split_reply
from ._find import (
    MOST_TEXTS,
    ONE_PER_CALL,
    DraftPlan,
    Pool,
    check_biography,
    find_pool,
    settle_request,
)
from ._prompt import (
    Frame,
    Shown,
    TextTokens,
    choose_examples,
    example_set,
    text_tokens,
    texts_per_call,
)
from ._records import DraftBatch, DraftPrompt, DraftRequest, DraftText

NEAR_COPY = 0.7
"""Share of a text's character 4-grams in an example above which it is a near copy."""


def portions(count: int, most: int) -> list[int]:
    """Split a count into the fewest parts of at most ``most``, as even as possible.

    No parts for 0. Even parts leave every reply some room, and rarely change with the estimate.
    """
    parts = -(-count // most)
    return [count // parts + (number < count % parts) for number in range(parts)]


FORECAST = "forecast"
"""Finish reason of a stand-in reply in a dry run."""

_FREE = Usage(cost=0.0)
"""Usage of a stored reply."""

_SAMPLES = 2 * MOST_TEXTS
"""Number of samples per seed: equal prompts with different seeds are different samples."""


@dataclass(frozen=True, slots=True, eq=False)
class DraftJob:
    """A draft in progress: a resolved request, the plan, and the examples."""

    request: DraftRequest
    plan: DraftPlan
    pool: Pool
    snapshot: str

    @property
    def single(self) -> bool:
        """True if each call asks for one text with its own examples."""
        return self.request.length in ONE_PER_CALL


@dataclass(slots=True, eq=False)
class _Call:
    """A call: its request and its record; once it is done, its texts or why there are none."""

    request: Chat
    prompt: DraftPrompt
    texts: list[_ReceivedText] = field(default_factory=list)
    refused: str = ""
    error: RagwrightError | None = None
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _ReceivedText:
    """A text as received, with its call; ``fault`` is the reason for requesting one again."""

    text: str
    call: _Call
    marks: tuple[str, ...] = ()
    fault: str = ""

    @property
    def wrong_length(self) -> bool:
        """True if it is complete, but too long or too short."""
        return self.fault.startswith("too ")


def draft(request: DraftRequest, target: Target, plan: DraftPlan) -> Flow[DraftBatch]:
    """Draft texts in a client's style, by every model of the plan, from records found once.

    Soft filters choose the records: client, ask type, length, every topic and every tone. A model
    gets a sample of them as turns and writes all texts at once; of long texts
    each text has its own call with mutually dissimilar examples. Missing texts and those of a wrong
    length are requested once more. Near copies are marked.

    With ``plan.preview`` prompts are built but not sent; no model is needed.

    Raises:
        PromptError: An unknown name, with the nearest; too few records; a template that fails; a
            window that is too small.
        RetrieveError: The index holds no records.
        ModelError: Every model failed; with the error of each.
    """
    settled = settle_request(request, plan)
    typed = request.client.strip()
    pool = yield from find_pool(settled, target, plan, typed)
    yield from check_biography(settled, target, plan, typed)
    job = DraftJob(settled, plan, pool, target.snapshot)
    writers = [DraftWriter(model, job) for model in plan.models or ("",)]
    if plan.preview:
        return (yield from run_in_pool(partial(_preview_batch, job, writers)))
    outcomes = yield from gather([writer.write() for writer in writers], settle=True)
    for writer, outcome in zip(writers, outcomes, strict=True):
        if isinstance(outcome, RagwrightError):  # of its prompt: other models go on
            writer.calls, writer.failure = [], outcome
            writer.notes = [f"{writer.model}: {type(outcome).__name__}: {outcome.what}"]
        elif isinstance(outcome, Exception):
            raise outcome
    errors = [(writer.model, error) for writer in writers if (error := writer.error())]
    if len(errors) == len(writers):
        raise _combined_error(errors)
    return (yield from run_in_pool(partial(_batch_of, job, writers)))


def _preview_batch(job: DraftJob, writers: Sequence[DraftWriter]) -> DraftBatch:
    for writer in writers:
        writer.calls = writer.first_calls()
        writer.add_notes([])
    return _batch_of(job, writers)


def _combined_error(errors: Sequence[tuple[str, RagwrightError]]) -> RagwrightError:
    """Combine the errors of all models, in their common class."""
    first = errors[0][1]
    if len(errors) == 1:
        return first
    kind = next(k for k in type(first).__mro__ if all(isinstance(error, k) for _, error in errors))
    each = "; ".join(f"{model}: {type(error).__name__}: {error.what}" for model, error in errors)
    combined: RagwrightError = kind(
        f"each of the {len(errors)} models failed: {each}", where=first.where, hint=first.hint
    )
    combined.__cause__ = first
    return combined


def _batch_of(job: DraftJob, writers: Sequence[DraftWriter]) -> DraftBatch:
    prompts: list[DraftPrompt] = []
    texts: list[DraftText] = []
    for writer in writers:
        first, calls = len(prompts), writer.calls
        texts += [
            DraftText(text.text, writer.model, first + calls.index(text.call), text.marks)
            for text in writer.texts
        ]
        prompts += [call.prompt for call in calls]
    # Near copies are marked: of examples of the pool, and of earlier texts.
    examples = [(example.hit.document_id, example.text) for example in job.pool.examples]
    copies = copies_among([text.text for text in texts], examples, NEAR_COPY)
    notes = [note for writer in writers for note in writer.notes]
    return DraftBatch(
        job.request,
        tuple(
            replace(text, marks=(*text.marks, *near))
            for text, near in zip(texts, copies, strict=True)
        ),
        tuple(prompts),
        job.pool.retrieved.hits,
        job.pool.retrieved.query,
        job.pool.retrieved.mode,
        tuple(writer.model for writer in writers if writer.model),
        tuple(dict.fromkeys((*job.plan.notes, *job.pool.retrieved.notes, *notes))),
        # The cost of a failed call is unknown; it must not hide that of the others.
        sum((prompt.usage for prompt in prompts if not prompt.error), Usage()),
        bool(prompts) and all(prompt.cached for prompt in prompts),
        snapshot=job.snapshot,
    )


class DraftWriter:
    """Builds and makes the calls of one model; holds its calls, kept texts, and notes."""

    def __init__(self, model: str, job: DraftJob) -> None:
        self.model = model
        self.job = job
        self.calls: list[_Call] = []
        self.texts: list[_ReceivedText] = []
        self.notes: list[str] = []
        self.failure: RagwrightError | None = None
        self._used: set[Shown] = set()

    @cached_property
    def _frame(self) -> Frame:
        return Frame(self.job.request, self.job.plan, self.job.plan.window(self.model))

    @cached_property
    def _token_estimates(self) -> TextTokens:
        """Tokens of a text; counted with the first call, off the loop."""
        return text_tokens(self.job.request, self.job.plan, self.job.pool, self._frame.window)

    def error(self) -> RagwrightError | None:
        """Return the error of its prompt or of its first call; None if a call succeeded."""
        errors = [call.error for call in self.calls]
        return self.failure or (errors[0] if errors and all(errors) else None)

    def add_notes(self, notes: Sequence[str]) -> None:
        """Add notes; each then names the model."""
        prefix = f"{self.model}: " if self.model else ""
        self.notes = [f"{prefix}{note}" for note in (*self.notes, *notes)]

    def write(self) -> Flow[None]:
        """Make the first calls, and one more round for missing or faulty texts.

        A failed call becomes a note; texts of a wrong length are replaced if the second calls
        return better ones, else they stay, marked.

        Raises:
            PromptError: The prompt cannot be rendered, or does not fit the window.
        """
        wanted = self.job.request.count
        yield from self._ask((yield from run_in_pool(self.first_calls)))
        first = list(self.calls)
        good, faulty, _ = _sort_texts(first)
        unanswered = sum(call.prompt.wanted for call in first if call.error or call.refused)
        short = max(0, wanted - len(good) - unanswered)
        # Declared before any decision: a dry run counts the calls of the worst case as high.
        estimate = yield from branch(0, 0, wanted)
        if estimate is not None:
            short = estimate
        if short:
            # New samples, so that no stored reply is used.
            lengths = [len(text.text) for text in faulty if text.wrong_length]
            yield from self._ask(
                (yield from run_in_pool(partial(self._plan_calls, short, lengths)))
            )
        self.texts = yield from run_in_pool(self._merged_texts)
        notes = _call_notes(self.calls)
        if estimate is None:
            notes += _count_notes(first, short, len(self.texts), wanted)
        self.add_notes(notes)

    def first_calls(self) -> list[_Call]:
        """Plan one call for all texts if they fit a reply, else as few as needed; or one each."""
        return self._plan_calls(self.job.request.count, ())

    def _plan_calls(self, count: int, lengths: Sequence[int]) -> list[_Call]:
        """Plan further calls for a number of texts; each chooses new examples.

        ``lengths`` are those of earlier texts of a wrong length.
        """
        job, plan = self.job, self.job.plan
        most, calls = 1, []
        if not job.single:
            most = texts_per_call(job.request.count, plan.options, self._token_estimates)
        for number, size in enumerate(portions(count, most), len(self.calls)):
            chosen = choose_examples(job.pool, plan, number, job.single, self._used)
            self._used.add(example_set(chosen))
            earlier, lengths = tuple(lengths[:size]), lengths[size:]
            messages, fitting = self._frame.fit(chosen, size, earlier)
            if fitting < len(chosen):
                note = (
                    f"{len(chosen) - fitting} of {len(chosen)} examples left out: the model's "
                    f"window of {self._frame.window.tokens} tokens is full"
                )
                self.notes += [note] if note not in self.notes else []
            prompt = DraftPrompt(
                self.model,
                tuple((turn.role, turn.content) for turn in messages),
                tuple(example.hit.chunk_id for example in chosen[:fitting]),
                size,
                "length" if earlier else "missing" if self.calls else "first",
                plan.options.seed * _SAMPLES + number,
            )
            request = Chat(
                self.model,
                messages,
                params=sort_params(
                    {"max_tokens": plan.options.max_tokens, "temperature": plan.options.temperature}
                ),
                sample=prompt.sample,
                sources=tuple(
                    dict.fromkeys(example.hit.document_id for example in chosen[:fitting])
                ),
                likely=(
                    round(size * self._token_estimates.least),
                    round(size * self._token_estimates.likely),
                ),
            )
            calls.append(_Call(request, prompt))
        return calls

    def _ask(self, calls: Sequence[_Call]) -> Flow[None]:
        self.calls += calls
        yield from gather([self._make_call(call) for call in calls])

    def _make_call(self, call: _Call) -> Flow[None]:
        try:
            reply = yield from send(call.request, ChatReply)
        except (ModelError, ConfigError) as error:
            call.error = error
            call.prompt = replace(call.prompt, error=f"{type(error).__name__}: {error.what}")
        else:
            self._finish(call, reply)

    def _finish(self, call: _Call, reply: ChatReply) -> None:
        options, text, finish = self.job.plan.options, reply.text, reply.finish
        call.dropped = reply.dropped
        call.prompt = replace(
            call.prompt,
            reply=text,
            finish=finish,
            usage=_FREE if reply.cached else reply.usage,
            cached=reply.cached,
        )
        if reply.finish == FORECAST:
            return
        texts, doubt, call.refused = split_reply(
            "" if reply.finish == "refusal" else text, call.prompt.wanted
        )
        if reply.finish in INCOMPLETE and reply.finish != "length" and not texts:
            call.refused = call.refused or text or INCOMPLETE[reply.finish]
        for number, part in enumerate(texts, 1):
            fault = self._length_fault(part)
            marks = [mark for mark in (doubt, fault) if mark]
            if finish == "length" and number == len(texts):
                fault = f"cut: the reply ended at its limit of {options.max_tokens} tokens"
                marks.append(fault)
            call.texts.append(_ReceivedText(part, call, tuple(marks), fault))

    def _length_fault(self, text: str) -> str:
        """Describe how a text misses the requested length group; empty if it fits."""
        least, under = self.job.plan.rules.bounds(self.job.request.length)
        if under is not None and len(text) >= under:
            return f"too long: {len(text)} of {under}"
        return f"too short: {len(text)} of {least}" if len(text) < least else ""

    def _merged_texts(self) -> list[_ReceivedText]:
        """Choose the texts to keep: good ones first, then the best of the rest of both rounds."""
        first = [call for call in self.calls if call.prompt.purpose == "first"]
        later = [text for call in self.calls[len(first) :] for text in call.texts]
        wanted = self.job.request.count
        good, faulty, repeats = _sort_texts(first)
        chosen, new = good[:wanted], [text for text in later if not text.fault]
        places = list(range(len(chosen)))
        shares = shares_before([text.text for text in (*chosen, *new)], len(chosen))
        for place, text in enumerate(new, len(chosen)):
            if len(chosen) >= wanted:
                break
            is_copy = (next(shares)[places] >= NEAR_COPY).any()
            (repeats if is_copy else chosen).append(text)
            places += [] if is_copy else [place]
        faulty += [text for text in later if text.fault]
        # A cut text is incomplete: any other is preferred.
        faulty.sort(key=lambda text: not text.wrong_length)
        return (chosen + faulty + repeats)[:wanted]


_Texts: TypeAlias = list[_ReceivedText]


def _sort_texts(calls: Sequence[_Call]) -> tuple[_Texts, _Texts, _Texts]:
    """Sort the texts of some calls into good, faulty, and equal to that of another call.

    Equal texts of one reply all stay, and are marked as repeats.
    """
    good, faulty, repeats = _Texts(), _Texts(), _Texts()
    first_calls: dict[str, _Call] = {}
    for text in (text for call in calls for text in call.texts):
        if text.fault:
            faulty.append(text)
            continue
        first = first_calls.setdefault(normalise_case(text.text) or text.text, text.call)
        (good if first is text.call else repeats).append(text)
    return good, faulty, repeats


def _call_notes(calls: Sequence[_Call]) -> list[str]:
    notes = []
    for call in calls:
        prompt = call.prompt
        if prompt.finish == FORECAST:
            continue
        if call.error is not None:
            notes.append(prompt.error)
        elif call.refused:
            notes.append(f"refused: {call.refused}")
        elif prompt.finish == "length":
            notes.append(
                "a reply was cut at its limit of tokens (raise answer.draft.max_tokens, or "
                "lower answer.draft.per_call)"
            )
        elif not prompt.reply.strip():
            notes.append("an empty reply")
        if call.dropped:
            notes.append(f"the server does not support {', '.join(call.dropped)}; left out")
    return list(dict.fromkeys(notes))


def _count_notes(first: Sequence[_Call], short: int, received: int, wanted: int) -> list[str]:
    notes = []
    if short:
        notes.append(f"{short} of {wanted} texts were requested again")
    if received < wanted:
        notes.append(f"{received} of {wanted} texts came back")
    surplus = sum(len(call.texts) for call in first) - wanted
    if surplus > 0:
        notes.append(f"{wanted + surplus} texts came back, {wanted} were requested")
    return notes
