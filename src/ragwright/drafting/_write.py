"""The work of one model on a draft: calls, splitting and checking of replies, repeated requests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TypeAlias

from ..core import ConfigError, ModelError, RagwrightError, Usage
from ..flow import (
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
    sorted_params,
)
from ._calls import TextTokens, portions, text_tokens, texts_per_call
from ._copies import normalised, shares_before
from ._find import MOST_TEXTS, DraftPlan, Pool
from ._prompt import Composed, Form, Frame, Shown, Wanted, chosen_examples, form_of, shown
from ._records import DraftPrompt, DraftPurpose, DraftRequest, DraftText
from ._split import split_reply

FORECAST = "forecast"
"""Finish reason of a stand-in reply in a dry run."""

Known: TypeAlias = Callable[[Request], Reply | None]
"""Returns the stored reply to a request, if any."""

_FREE = Usage(cost=0.0)
"""Usage of a stored reply."""

_SAMPLES = 2 * MOST_TEXTS
"""Samples per seed: equal prompts with different seeds are different samples."""


@dataclass(frozen=True, slots=True)
class Job:
    """The common input of all models of a draft: a resolved request, the plan, the examples.

    ``desks`` are those of the models, in order, with the calls begun by each.
    """

    request: DraftRequest
    plan: DraftPlan
    pool: Pool
    snapshot: str = ""
    desks: list[_DraftWriter] = field(default_factory=list, repr=False, compare=False)

    @property
    def single(self) -> bool:
        """True if each call asks for one text with its own examples."""
        return self.request.length in self.plan.options.one_per_call


@dataclass(frozen=True, slots=True)
class Written:
    """Result of one model: its calls, its texts (``prompt`` counts within these calls), notes.

    ``error`` is the error of its first call, None if one succeeded.
    """

    model: str
    prompts: tuple[DraftPrompt, ...] = ()
    texts: tuple[DraftText, ...] = ()
    notes: tuple[str, ...] = ()
    error: RagwrightError | None = None


@dataclass(frozen=True, slots=True)
class _Call:
    """A call to make: the request, and its record without a reply."""

    request: Chat | Complete
    form: Form
    prompt: DraftPrompt


@dataclass(frozen=True, slots=True)
class _Told:
    """A finished call: its record, its texts (``fault`` says why one is requested again)."""

    prompt: DraftPrompt
    texts: tuple[_Draft, ...] = ()
    refused: str = ""
    error: RagwrightError | None = None
    dropped: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class _Begun:
    """A call under way, with its result once known."""

    call: _Call
    told: _Told | None = None


@dataclass(frozen=True, slots=True)
class _Draft:
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
class _Sorted:
    """Texts by quality; ``repeats`` are equal to a text of another call."""

    good: list[_Draft] = field(default_factory=list)
    faulty: list[_Draft] = field(default_factory=list)
    repeats: list[_Draft] = field(default_factory=list)


def written_by(model: str, job: Job) -> Flow[Written]:
    """The texts of a model: the first calls, and one more round for missing or unusable texts.

    A call that fails is a note; texts of a wrong length are replaced if the second calls give
    better ones, else they stay, marked.

    Raises:
        PromptError: The prompt cannot be rendered, or does not fit the window.
    """
    desk = _DraftWriter(model, job)
    job.desks.append(desk)
    first = yield from desk.ask((yield from run_in_pool(desk.first_calls)))
    wanted = job.request.count
    sorted_out = _sorted_out(first)
    lost = sum(told.prompt.wanted for told in first if told.error or told.refused)
    short = max(0, wanted - len(sorted_out.good) - lost)
    # Declared before any decision: a dry run counts the calls of the worst case as high.
    planned = yield from branch(0, 0, wanted)
    if planned is not None:
        short = planned
    second: Sequence[_Told] = ()
    if short:
        more = partial(desk.more_calls, short, sorted_out.faulty)
        second = yield from desk.ask((yield from run_in_pool(more)))
    texts = yield from run_in_pool(partial(_merged, first, second, job))
    notes = [*desk.notes, *_call_notes([*first, *second])]
    if planned is None:
        notes += _count_notes(first, sorted_out, short, len(texts), wanted)
    return _written(model, [*first, *second], texts, _named(model, notes))


def left_of(job: Job, known: Known) -> list[Written]:
    """Results of each model if the work was stopped: from the calls with a reply.

    Args:
        job: The job under way.
        known: Returns the stored reply to a request, for calls in flight at the stop.
    """
    return [left for desk in job.desks if (left := _left_of(desk, known)).prompts]


def _left_of(desk: _DraftWriter, known: Known) -> Written:
    told = []
    for begun in desk.begun:
        if begun.told is None and (reply := known(begun.call.request)) is not None:
            assert isinstance(reply, ChatReply | CompleteReply)
            # Paid for by this draft: a reply stored earlier would have been received before.
            begun.told = desk.told(begun.call, replace(reply, cached=False))
        if begun.told is not None:
            told.append(begun.told)
    first = [one for one in told if one.prompt.purpose == "first"]
    second = [one for one in told if one.prompt.purpose != "first"]
    texts = _merged(first, second, desk.job)
    notes = [*desk.notes, *_call_notes(told)]
    notes.append(f"{len(texts)} of {desk.job.request.count} texts came back before the stop")
    replied = [one for one in told if one.error is None]
    return _written(desk.model, told if replied else (), texts, _named(desk.model, notes))


def _named(model: str, notes: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{model}: {note}" for note in notes)


def previewed(model: str, job: Job) -> Written:
    """The first calls of a model, without making them."""
    desk = _DraftWriter(model, job)
    prompts = tuple(call.prompt for call in desk.first_calls())
    return Written(model, prompts, notes=_named(model, desk.notes) if model else tuple(desk.notes))


class _DraftWriter:
    """Builds and makes the calls of one model."""

    def __init__(self, model: str, job: Job) -> None:
        self.model = model
        self.job = job
        self._frame = Frame(job.request, job.plan, form_of(model, job.plan), job.plan.window(model))
        self._used: set[Shown] = set()
        self.notes: list[str] = []
        self.begun: list[_Begun] = []

    @cached_property
    def _tokens(self) -> TextTokens:
        """Tokens of a text; counted with the first call, off the loop."""
        return text_tokens(self.job.request, self.job.plan, self.job.pool, self._frame.window)

    def first_calls(self) -> list[_Call]:
        """One call for all texts if they fit a reply, else as few as needed; or one for each."""
        return self._calls(self.job.request.count, ())

    def more_calls(self, short: int, faulty: Sequence[_Draft]) -> list[_Call]:
        """Calls for the missing texts; with new samples, so that none is answered from the
        store.
        """
        lengths = tuple(len(one.text) for one in faulty if one.wrong_length)
        return self._calls(short, lengths, len(self.begun))

    def _calls(self, count: int, lengths: Sequence[int], begin: int = 0) -> list[_Call]:
        """Calls for this number of texts, numbered from ``begin``; each with a new choice of
        examples.
        """
        calls, at = [], 0
        for number, size in enumerate(portions(count, self._most()), begin):
            known = tuple(lengths[at : at + size])
            purpose: DraftPurpose = "length" if known else "missing" if begin else "first"
            calls.append(self._call(number, Wanted(size, known), purpose))
            at += size
        return calls

    def _most(self) -> int:
        """Most texts per call."""
        job = self.job
        if job.single:
            return 1
        return texts_per_call(job.request.count, job.plan.options, self._tokens)

    def _call(self, number: int, wanted: Wanted, purpose: DraftPurpose) -> _Call:
        job, frame = self.job, self._frame
        chosen = chosen_examples(job.pool, job.plan, number, job.single, self._used)
        self._used.add(shown(chosen))
        composed, left = frame.fitted(chosen, wanted)
        if left:
            note = (
                f"{left} of {len(chosen)} examples left out: the model's window of "
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
        return _Call(self._request(composed, wanted.count, prompt.sample), frame.form, prompt)

    def ask(self, calls: Sequence[_Call]) -> Flow[list[_Told]]:
        """Results of the calls, in order, made side by side."""
        return (yield from gather([self._asked(call) for call in calls]))

    def _asked(self, call: _Call) -> Flow[_Told]:
        begun = _Begun(call)
        self.begun.append(begun)
        try:
            reply: ChatReply | CompleteReply
            if isinstance(call.request, Complete):
                reply = yield from send(call.request, CompleteReply)
            else:
                reply = yield from send(call.request, ChatReply)
        except (ModelError, ConfigError) as error:
            failed = f"{type(error).__name__}: {error.what}"
            begun.told = _Told(replace(call.prompt, error=failed), error=error)
        else:
            begun.told = self.told(call, reply)
        return begun.told

    def told(self, call: _Call, reply: ChatReply | CompleteReply) -> _Told:
        """A reply split into texts."""
        text = _before_stop(reply.text, call.form.stop) if call.prompt.text else reply.text
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
            return _Told(prompt)
        split = split_reply(text, call.prompt.wanted)
        refused = split.refused
        if reply.finish == "content_filter" and not split.parts:
            refused = refused or "the server's content filter withheld it"
        cut = finish == "length"
        texts = []
        for number, part in enumerate(split.parts, 1):
            fault = _wrong_length(part.text, self.job)
            marks = [mark for mark in (part.mark, fault) if mark]
            if cut and number == len(split.parts):
                most = self.job.plan.options.max_tokens
                fault = f"cut: the reply ended at its limit of {most} tokens"
                marks.append(fault)
            texts.append(_Draft(part.text, prompt, tuple(marks), fault))
        return _Told(prompt, tuple(texts), refused, dropped=reply.dropped)

    def _request(self, composed: Composed, count: int, sample: int) -> Chat | Complete:
        options = self.job.plan.options
        params = sorted_params(
            {
                "max_tokens": options.max_tokens,
                "temperature": options.temperature,
                "stop": self._frame.form.stop or None,
            }
        )
        sources = tuple(dict.fromkeys(one.hit.document_id for one in composed.examples))
        likely = (round(count * self._tokens.least), round(count * self._tokens.likely))
        request: Chat | Complete
        if composed.text:
            request = Complete(self.model, composed.text, params, sample=sample, sources=sources)
        else:
            request = Chat(self.model, composed.messages, params, sample=sample, sources=sources)
        return replace(request, likely=likely)


def _before_stop(text: str, stop: Sequence[str]) -> str:
    """A raw reply up to the first stop text, as not every server supports them."""
    ends = [at for one in stop if (at := text.find(one)) >= 0]
    return text[: min(ends)] if ends else text


def _wrong_length(text: str, job: Job) -> str:
    """How a text misses the requested length group; empty if it fits."""
    least, under = job.plan.rules.bounds(job.request.length)
    if under is not None and len(text) >= under:
        return f"too long: {len(text)} of {under}"
    if len(text) < least:
        return f"too short: {len(text)} of {least}"
    return ""


def _sorted_out(told: Sequence[_Told]) -> _Sorted:
    """The texts of some calls by quality.

    Equal texts of one reply all stay, and are marked as repeats.
    """
    found, first = _Sorted(), dict[str, DraftPrompt]()
    for one in (one for call in told for one in call.texts):
        if one.fault:
            found.faulty.append(one)
        elif first.setdefault(normalised(one.text) or one.text, one.prompt) is one.prompt:
            found.good.append(one)
        else:
            found.repeats.append(one)
    return found


def _merged(first: Sequence[_Told], second: Sequence[_Told], job: Job) -> list[_Draft]:
    """The texts to keep: good ones first, then the best of the rest of both rounds."""
    texts, more = _sorted_out(first), [one for told in second for one in told.texts]
    wanted, threshold = job.request.count, job.plan.options.near_copy
    kept = texts.good[:wanted]
    repeats = list(texts.repeats)
    new = [one for one in more if not one.fault]
    places = list(range(len(kept)))
    shares = shares_before([one.text for one in (*kept, *new)], len(kept))
    for at, one in enumerate(new, len(kept)):
        if len(kept) >= wanted:
            break
        again = (next(shares)[places] >= threshold).any()
        (repeats if again else kept).append(one)
        places += [] if again else [at]
    left = [*texts.faulty, *(one for one in more if one.fault)]
    # A cut text is incomplete: any other is preferred.
    left.sort(key=lambda one: not one.wrong_length)
    return (kept + left + repeats)[:wanted]


def _call_notes(told: Sequence[_Told]) -> list[str]:
    """Notes on the calls, each once."""
    notes = []
    for one in told:
        prompt = one.prompt
        if prompt.finish == FORECAST:
            continue
        if one.error is not None:
            notes.append(prompt.error)
        elif one.refused:
            notes.append(f"refused: {one.refused}")
        elif not prompt.reply.strip():
            notes.append("an empty reply")
        elif prompt.finish == "length":
            notes.append(
                "a reply was cut at its limit of tokens (raise answer.draft.max_tokens, or "
                "lower answer.draft.per_call)"
            )
        if one.dropped:
            notes.append(f"the server does not support {', '.join(one.dropped)}; left out")
    return list(dict.fromkeys(notes))


def _count_notes(
    first: Sequence[_Told], found: _Sorted, short: int, came: int, wanted: int
) -> list[str]:
    """Notes on the number of texts."""
    notes = []
    if short:
        lengths = sum(one.wrong_length for one in found.faulty)
        counts = {
            "of a wrong length": lengths,
            "cut": len(found.faulty) - lengths,
            "equal to that of another call": len(found.repeats),
            "missing": short - len(found.faulty) - len(found.repeats),
        }
        why = ", ".join(f"{count} {what}" for what, count in counts.items() if count > 0)
        notes.append(f"{short} of {wanted} texts were requested again: {why}")
    if came < wanted:
        notes.append(f"{came} of {wanted} texts came back")
    surplus = sum(len(told.texts) for told in first) - wanted
    if surplus > 0:
        notes.append(f"{wanted + surplus} texts came back, {wanted} were requested")
    return notes


def _written(
    model: str, told: Sequence[_Told], kept: Sequence[_Draft], notes: tuple[str, ...]
) -> Written:
    prompts = [one.prompt for one in told]
    place = {id(prompt): at for at, prompt in enumerate(prompts)}
    of = [place[id(draft.prompt)] for draft in kept]
    shares = {at: shared(prompts[at].usage, of.count(at)) for at in set(of)}
    texts = [
        DraftText(draft.text, model, at, draft.marks, shares[at].pop(0))
        for at, draft in zip(of, kept, strict=True)
    ]
    errors = [one.error for one in told]
    error = errors[0] if errors and None not in errors else None
    return Written(model, tuple(prompts), tuple(texts), notes, error)


def shared(usage: Usage, count: int) -> list[Usage]:
    """A call's usage split evenly into parts that add up to it; the first part counts the call."""
    shares = []
    for number in range(count):
        cost = None if usage.cost is None else usage.cost / count
        shares.append(
            Usage(
                usage.calls if not number else 0,
                _part(usage.prompt_tokens, number, count),
                _part(usage.completion_tokens, number, count),
                cost,
                round(usage.seconds / count, 3),
            )
        )
    return shares


def _part(whole: int, number: int, count: int) -> int:
    return whole // count + (number < whole % count)
