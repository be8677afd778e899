"""The work of one model on a draft: calls, splitting and checking of replies, repeated requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from statistics import fmean
from typing import TypeAlias

from ..answer import MARGIN, DraftOptions, Window
from ..core import ConfigError, ModelError, RagwrightError, Usage
from ..flow import (
    INCOMPLETE,
    Chat,
    ChatReply,
    Complete,
    CompleteReply,
    Flow,
    Reply,
    Request,
    branch,
    gather,
    run_in_pool,
    send,
    sort_params,
)
from ._copies import normalise_case, shares_before, split_reply
from ._find import MOST_TEXTS, ONE_PER_CALL, DraftPlan, Pool
from ._prompt import (
    DraftCall,
    Form,
    Frame,
    SentPrompt,
    Shown,
    choose_examples,
    example_set,
    form_of,
)
from ._records import DraftPrompt, DraftPurpose, DraftRequest, DraftText

ONE_CALL = 15
"""Most texts that one call asks for at once, if that many of medium length fit."""

NEAR_COPY = 0.7
"""Share of a text's character 4-grams in an example above which it is a near copy."""

_LIST_TOKENS = 5
"""Tokens that a list adds per text: its number, punctuation, the line end."""

_MOST_CHARACTERS = 5.0
"""Upper bound on the mean characters per token of prose."""


@dataclass(frozen=True, slots=True)
class TextTokens:
    """Tokens of one text of a list, estimated from the pool and the length group.

    Attributes:
        least: Tokens of the shortest text of the group, with the most characters per token: a lower
            bound.
        likely: Mean of the examples, within the group.
        middling: Tokens of a text in the middle of the group.
        most: Tokens of the longest text of the group; without an upper bound, of an example.
    """

    least: float
    likely: float
    middling: float
    most: float


def text_tokens(request: DraftRequest, plan: DraftPlan, pool: Pool, window: Window) -> TextTokens:
    """Estimate the tokens of a text of the requested length.

    The ratio comes from the examples: texts of the same language and kind, counted like the model's
    prompts.
    """
    texts = [example.text for example in pool.examples]
    joined = "\n".join(texts)
    per_character = window.count(joined) / len(joined)
    average, longest = fmean(map(len, texts)), max(map(len, texts))
    least, under = plan.rules.bounds(request.length)
    most = max(longest, least) if under is None else under
    # The other estimates err upwards; a lower bound must err downwards.
    densest = per_character / MARGIN
    if window.tokenizer is None:
        densest = min(densest / MARGIN, 1 / _MOST_CHARACTERS)
    lower_bound = least * densest
    lengths = (
        min(max(average, least), most),
        max(average, least) if under is None else (least + under) / 2,
        most,
    )
    return TextTokens(
        max(lower_bound, _LIST_TOKENS),
        *(length * per_character + _LIST_TOKENS for length in lengths),
    )


def texts_per_call(count: int, options: DraftOptions, tokens: TextTokens) -> int:
    """Return the most texts that one call asks for, 1 or more: all of the longest length fit.

    Args:
        count: Total number of texts.
        options: Settings of calls and replies.
        tokens: Token estimates of a text.
    """
    if options.per_call is not None:
        return options.per_call
    if count <= min(ONE_CALL, options.max_tokens / (tokens.middling * MARGIN)):
        return count
    return max(1, int(options.max_tokens / (tokens.most * MARGIN)))


def portions(count: int, most: int) -> list[int]:
    """Split a count into the fewest parts of at most ``most``, as even as possible.

    No parts for 0. Even parts leave every reply some room, and rarely change with the estimate.
    """
    calls = -(-count // most)
    return [count // calls + (number < count % calls) for number in range(calls)]


FORECAST = "forecast"
"""Finish reason of a stand-in reply in a dry run."""

Known: TypeAlias = Callable[[Request], Reply | None]
"""A function that returns the stored reply to a request, if any."""

_FREE = Usage(cost=0.0)
"""Usage of a stored reply."""

_SAMPLES = 2 * MOST_TEXTS
"""Number of samples per seed: equal prompts with different seeds are different samples."""


@dataclass(frozen=True, slots=True)
class DraftJob:
    """The common input of all models of a draft: a resolved request, the plan, the examples.

    ``desks`` are the writers of the models, in order, each with its calls.
    """

    request: DraftRequest
    plan: DraftPlan
    pool: Pool
    snapshot: str = ""
    desks: list[_DraftWriter] = field(default_factory=list, repr=False, compare=False)

    @property
    def single(self) -> bool:
        """True if each call asks for one text with its own examples."""
        return self.request.length in ONE_PER_CALL


@dataclass(frozen=True, slots=True)
class ModelDrafts:
    """Result of one model: its calls, its texts (``prompt`` counts within these calls), notes.

    ``error`` is the error of its first call, None if one succeeded.
    """

    model: str
    prompts: tuple[DraftPrompt, ...] = ()
    texts: tuple[DraftText, ...] = ()
    notes: tuple[str, ...] = ()
    error: RagwrightError | None = None


@dataclass(frozen=True, slots=True)
class _DraftCall:
    """A call to make: the request, and its record without a reply."""

    request: Chat | Complete
    form: Form
    prompt: DraftPrompt


@dataclass(frozen=True, slots=True)
class _FinishedCall:
    """A finished call: its record and texts (``fault`` is the reason for requesting one again)."""

    prompt: DraftPrompt
    texts: tuple[_ReceivedText, ...] = ()
    refused: str = ""
    error: RagwrightError | None = None
    dropped: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class _StartedCall:
    """A started call, with its result once known."""

    call: _DraftCall
    finished: _FinishedCall | None = None


@dataclass(frozen=True, slots=True)
class _ReceivedText:
    """A text as received, with its call."""

    text: str
    prompt: DraftPrompt
    marks: tuple[str, ...] = ()
    fault: str = ""

    @property
    def wrong_length(self) -> bool:
        """True if it is complete, but too long or too short."""
        return self.fault.startswith("too ")


@dataclass(frozen=True, slots=True)
class _SortedTexts:
    """Texts by quality; ``repeats`` are equal to a text of another call."""

    good: list[_ReceivedText] = field(default_factory=list)
    faulty: list[_ReceivedText] = field(default_factory=list)
    repeats: list[_ReceivedText] = field(default_factory=list)


def write_texts(model: str, job: DraftJob) -> Flow[ModelDrafts]:
    """Write the texts of a model: the first calls, and one more round for missing or faulty texts.

    A failed call becomes a note; texts of a wrong length are replaced if the second calls return
    better ones, else they stay, marked.

    Raises:
        PromptError: The prompt cannot be rendered, or does not fit the window.
    """
    writer = _DraftWriter(model, job)
    job.desks.append(writer)
    first = yield from writer.ask((yield from run_in_pool(writer.first_calls)))
    wanted = job.request.count
    by_quality = _sort_texts(first)
    unanswered = sum(call.prompt.wanted for call in first if call.error or call.refused)
    short = max(0, wanted - len(by_quality.good) - unanswered)
    # Declared before any decision: a dry run counts the calls of the worst case as high.
    estimate = yield from branch(0, 0, wanted)
    if estimate is not None:
        short = estimate
    second: Sequence[_FinishedCall] = ()
    if short:
        second = yield from writer.ask(
            (yield from run_in_pool(partial(writer.more_calls, short, by_quality.faulty)))
        )
    texts = yield from run_in_pool(partial(_merged_texts, first, second, job))
    notes = [*writer.notes, *_call_notes([*first, *second])]
    if estimate is None:
        notes += _count_notes(first, by_quality, short, len(texts), wanted)
    return _result_of_model(model, [*first, *second], texts, _notes_of_model(model, notes))


def partial_results(job: DraftJob, known: Known) -> list[ModelDrafts]:
    """Return the results of each model if the work was stopped, from the calls with a reply.

    Args:
        job: The job in progress.
        known: Returns the stored reply to a request, for calls in flight at the stop.
    """
    return [result for writer in job.desks if (result := _partial_result(writer, known)).prompts]


def _partial_result(writer: _DraftWriter, known: Known) -> ModelDrafts:
    finished = []
    for started in writer.started:
        if started.finished is None and (reply := known(started.call.request)) is not None:
            assert isinstance(reply, ChatReply | CompleteReply)
            # Paid for by this draft: a reply stored earlier would have been received before.
            started.finished = writer.finish_call(started.call, replace(reply, cached=False))
        if started.finished is not None:
            finished.append(started.finished)
    first = [call for call in finished if call.prompt.purpose == "first"]
    texts = _merged_texts(
        first, [call for call in finished if call.prompt.purpose != "first"], writer.job
    )
    notes = [*writer.notes, *_call_notes(finished)]
    notes.append(f"{len(texts)} of {writer.job.request.count} texts came back before the stop")
    replied = [call for call in finished if call.error is None]
    return _result_of_model(
        writer.model, finished if replied else (), texts, _notes_of_model(writer.model, notes)
    )


def _notes_of_model(model: str, notes: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{model}: {note}" for note in notes)


def preview_calls(model: str, job: DraftJob) -> ModelDrafts:
    """Return the first calls of a model, without making them."""
    writer = _DraftWriter(model, job)
    prompts = tuple(call.prompt for call in writer.first_calls())
    return ModelDrafts(
        model, prompts, notes=_notes_of_model(model, writer.notes) if model else tuple(writer.notes)
    )


class _DraftWriter:
    """Builds and makes the calls of one model."""

    def __init__(self, model: str, job: DraftJob) -> None:
        self.model = model
        self.job = job
        self._frame = Frame(job.request, job.plan, form_of(model, job.plan), job.plan.window(model))
        self._used: set[Shown] = set()
        self.notes: list[str] = []
        self.started: list[_StartedCall] = []

    @cached_property
    def _token_estimates(self) -> TextTokens:
        """Tokens of a text; counted with the first call, off the loop."""
        return text_tokens(self.job.request, self.job.plan, self.job.pool, self._frame.window)

    def first_calls(self) -> list[_DraftCall]:
        """Plan one call for all texts if they fit a reply, else as few as needed; or one each."""
        return self._planned_calls(self.job.request.count, ())

    def more_calls(self, short: int, faulty: Sequence[_ReceivedText]) -> list[_DraftCall]:
        """Plan calls for the missing texts, with new samples, so that no stored reply is used."""
        return self._planned_calls(
            short, tuple(len(text.text) for text in faulty if text.wrong_length), len(self.started)
        )

    def _planned_calls(
        self, count: int, lengths: Sequence[int], begin: int = 0
    ) -> list[_DraftCall]:
        """Plan calls for a number of texts, numbered from ``begin``; each chooses new examples."""
        calls, position = [], 0
        for number, size in enumerate(portions(count, self._most_per_call()), begin):
            earlier_lengths = tuple(lengths[position : position + size])
            purpose: DraftPurpose = "length" if earlier_lengths else "missing" if begin else "first"
            calls.append(self._planned_call(number, DraftCall(size, earlier_lengths), purpose))
            position += size
        return calls

    def _most_per_call(self) -> int:
        """Most texts per call."""
        job = self.job
        if job.single:
            return 1
        return texts_per_call(job.request.count, job.plan.options, self._token_estimates)

    def _planned_call(self, number: int, wanted: DraftCall, purpose: DraftPurpose) -> _DraftCall:
        job, frame = self.job, self._frame
        chosen = choose_examples(job.pool, job.plan, number, job.single, self._used)
        self._used.add(example_set(chosen))
        composed, left_out = frame.fitted(chosen, wanted)
        if left_out:
            note = (
                f"{left_out} of {len(chosen)} examples left out: the model's window of "
                f"{frame.window.tokens} tokens is full"
            )
            self.notes += [note] if note not in self.notes else []
        prompt = DraftPrompt(
            self.model,
            frame.form.name,
            tuple((turn.role, turn.content) for turn in composed.messages),
            composed.text,
            tuple(example.hit.chunk_id for example in composed.examples),
            wanted.count,
            purpose,
            job.plan.options.seed * _SAMPLES + number,
        )
        return _DraftCall(
            self._model_request(composed, wanted.count, prompt.sample), frame.form, prompt
        )

    def ask(self, calls: Sequence[_DraftCall]) -> Flow[list[_FinishedCall]]:
        """Make the calls side by side; return their results in order."""
        return (yield from gather([self._make_call(call) for call in calls]))

    def _make_call(self, call: _DraftCall) -> Flow[_FinishedCall]:
        started = _StartedCall(call)
        self.started.append(started)
        try:
            reply: ChatReply | CompleteReply
            if isinstance(call.request, Complete):
                reply = yield from send(call.request, CompleteReply)
            else:
                reply = yield from send(call.request, ChatReply)
        except (ModelError, ConfigError) as error:
            started.finished = _FinishedCall(
                replace(call.prompt, error=f"{type(error).__name__}: {error.what}"), error=error
            )
        else:
            started.finished = self.finish_call(call, reply)
        return started.finished

    def finish_call(self, call: _DraftCall, reply: ChatReply | CompleteReply) -> _FinishedCall:
        """Split a reply into texts."""
        text = _up_to_stop(reply.text, call.form.stop) if call.prompt.text else reply.text
        # Text after a stop text that the server ignores may be cut; the part before is complete.
        finish = reply.finish if text == reply.text else "stop"
        prompt = replace(
            call.prompt,
            reply=text,
            finish=finish,
            usage=_FREE if reply.cached else reply.usage,
            cached=reply.cached,
            reply_usage=reply.usage,
        )
        if reply.finish == FORECAST:
            return _FinishedCall(prompt)
        split = split_reply("" if reply.finish == "refusal" else text, call.prompt.wanted)
        refused = split.refused
        if reply.finish in INCOMPLETE and reply.finish != "length" and not split.parts:
            refused = refused or text or INCOMPLETE[reply.finish]
        cut = finish == "length"
        texts = []
        for number, part in enumerate(split.parts, 1):
            fault = _length_fault(part.text, self.job)
            marks = [mark for mark in (part.mark, fault) if mark]
            if cut and number == len(split.parts):
                most = self.job.plan.options.max_tokens
                fault = f"cut: the reply ended at its limit of {most} tokens"
                marks.append(fault)
            texts.append(_ReceivedText(part.text, prompt, tuple(marks), fault))
        return _FinishedCall(prompt, tuple(texts), refused, dropped=reply.dropped)

    def _model_request(self, composed: SentPrompt, count: int, sample: int) -> Chat | Complete:
        options = self.job.plan.options
        params = sort_params(
            {
                "max_tokens": options.max_tokens,
                "temperature": options.temperature,
                "stop": self._frame.form.stop or None,
            }
        )
        sources = tuple(dict.fromkeys(example.hit.document_id for example in composed.examples))
        likely = (
            round(count * self._token_estimates.least),
            round(count * self._token_estimates.likely),
        )
        request: Chat | Complete
        if composed.text:
            request = Complete(self.model, composed.text, params, sample=sample, sources=sources)
        else:
            request = Chat(self.model, composed.messages, params, sample=sample, sources=sources)
        return replace(request, likely=likely)


def _up_to_stop(text: str, stop: Sequence[str]) -> str:
    """Return a raw reply up to the first stop text, as not every server supports them."""
    ends = [at for stop_text in stop if (at := text.find(stop_text)) >= 0]
    return text[: min(ends)] if ends else text


def _length_fault(text: str, job: DraftJob) -> str:
    """Describe how a text misses the requested length group; empty if it fits."""
    least, under = job.plan.rules.bounds(job.request.length)
    if under is not None and len(text) >= under:
        return f"too long: {len(text)} of {under}"
    if len(text) < least:
        return f"too short: {len(text)} of {least}"
    return ""


def _sort_texts(calls: Sequence[_FinishedCall]) -> _SortedTexts:
    """Sort the texts of some calls by quality.

    Equal texts of one reply all stay, and are marked as repeats.
    """
    by_quality, first_prompts = _SortedTexts(), dict[str, DraftPrompt]()
    for text in (text for call in calls for text in call.texts):
        if text.fault:
            by_quality.faulty.append(text)
        elif (
            first_prompts.setdefault(normalise_case(text.text) or text.text, text.prompt)
            is text.prompt
        ):
            by_quality.good.append(text)
        else:
            by_quality.repeats.append(text)
    return by_quality


def _merged_texts(
    first: Sequence[_FinishedCall], second: Sequence[_FinishedCall], job: DraftJob
) -> list[_ReceivedText]:
    """Choose the texts to keep: good ones first, then the best of the rest of both rounds."""
    texts, later_texts = _sort_texts(first), [text for call in second for text in call.texts]
    wanted, threshold = job.request.count, NEAR_COPY
    chosen = texts.good[:wanted]
    repeats = list(texts.repeats)
    new = [text for text in later_texts if not text.fault]
    places = list(range(len(chosen)))
    shares = shares_before([text.text for text in (*chosen, *new)], len(chosen))
    for place, text in enumerate(new, len(chosen)):
        if len(chosen) >= wanted:
            break
        is_copy = (next(shares)[places] >= threshold).any()
        (repeats if is_copy else chosen).append(text)
        places += [] if is_copy else [place]
    faulty = [*texts.faulty, *(text for text in later_texts if text.fault)]
    # A cut text is incomplete: any other is preferred.
    faulty.sort(key=lambda text: not text.wrong_length)
    return (chosen + faulty + repeats)[:wanted]


def _call_notes(calls: Sequence[_FinishedCall]) -> list[str]:
    """Return notes on the calls, each once."""
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


def _count_notes(
    first: Sequence[_FinishedCall], by_quality: _SortedTexts, short: int, received: int, wanted: int
) -> list[str]:
    """Return notes on the number of texts."""
    notes = []
    if short:
        lengths = sum(text.wrong_length for text in by_quality.faulty)
        counts = {
            "of a wrong length": lengths,
            "cut": len(by_quality.faulty) - lengths,
            "equal to that of another call": len(by_quality.repeats),
            "missing": short - len(by_quality.faulty) - len(by_quality.repeats),
        }
        reasons = ", ".join(f"{count} {reason}" for reason, count in counts.items() if count > 0)
        notes.append(f"{short} of {wanted} texts were requested again: {reasons}")
    if received < wanted:
        notes.append(f"{received} of {wanted} texts came back")
    surplus = sum(len(call.texts) for call in first) - wanted
    if surplus > 0:
        notes.append(f"{wanted + surplus} texts came back, {wanted} were requested")
    return notes


def _result_of_model(
    model: str,
    calls: Sequence[_FinishedCall],
    kept: Sequence[_ReceivedText],
    notes: tuple[str, ...],
) -> ModelDrafts:
    prompts = [call.prompt for call in calls]
    place = {id(prompt): position for position, prompt in enumerate(prompts)}
    prompt_places = [place[id(draft.prompt)] for draft in kept]
    shares = {
        position: split_usage(prompts[position].usage, prompt_places.count(position))
        for position in set(prompt_places)
    }
    texts = [
        DraftText(draft.text, model, position, draft.marks, shares[position].pop(0))
        for position, draft in zip(prompt_places, kept, strict=True)
    ]
    errors = [call.error for call in calls]
    error = errors[0] if errors and None not in errors else None
    return ModelDrafts(model, tuple(prompts), tuple(texts), notes, error)


def split_usage(usage: Usage, count: int) -> list[Usage]:
    """Split a call's usage evenly into parts that add up to it; the first part counts the call."""
    shares = []
    for number in range(count):
        cost = None if usage.cost is None else usage.cost / count
        shares.append(
            Usage(
                usage.calls if not number else 0,
                _even_part(usage.prompt_tokens, number, count),
                _even_part(usage.completion_tokens, number, count),
                cost,
                round(usage.seconds / count, 3),
            )
        )
    return shares


def _even_part(total: int, number: int, count: int) -> int:
    return total // count + (number < total % count)
