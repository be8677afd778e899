"""Write an answer from passages: the question alone, the prompt, the reply, its citations."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..core import Answer, AnswerPromise, Hit, Persona, load_shipped_mapping, render
from ..flow import INCOMPLETE, ChatReply, Flow, Message, chat
from ..models import NO_MODEL, Analyzer, Tokenizer, no_text_error, words
from ..retrieve import QueryDatabase, RetrieveOptions, StageHooks
from ._marks import resolve_citations
from ._prompt import REFUSED, AnswerOptions, PromptOptions
from ._snippets import snippet_answer
from ._window import ConsolidateOptions, PromptFrame, Window, consolidate, recent_turns

_ABOUT_PASSAGES = (
    *("context", "only_context", "cite", "ignore_debris", "key_information", "insufficient"),
    "tailor",
)
"""Parts of a prompt that a closed-book question leaves out."""


@dataclass(frozen=True, slots=True)
class AnswerGuard:
    """A certified threshold for answers, and what to say about it.

    Attributes:
        certificate: Name of the certificate.
        score: Name of the score, for notes.
        threshold: Least score of an answer that is shown.
        score_of: Scores an answer; None means that it has no such score, and is withheld.
        line: The promise in one sentence, while it holds.
        promised: The promise as part of a sentence: ``at most 5 % of answers wrong``.
        snapshot: State of the index that was certified.
        retrieve: Settings of the search that was certified.
        personas: Names of the personas that were certified.
        suspended: What changed since the certification; empty if nothing did.
    """

    certificate: str
    score: str
    threshold: float
    score_of: Callable[[Answer], Flow[float | None]]
    line: str
    promised: str
    snapshot: str
    retrieve: RetrieveOptions
    personas: tuple[str, ...] = ("",)
    suspended: str = ""

    def answer_options(self, options: AnswerOptions) -> AnswerOptions:
        """Settings under this guard: no abstention by the passages, so every answer is scored."""
        return replace(options, threshold=0.0)

    def sentence(self, snapshot: str) -> str:
        """What the certificate says of answers from a state of the index."""
        if changed := self.changed(snapshot):
            return (
                f"The promise of {self.promised} is suspended: {changed}; "
                "run `ragwright promise --again`"
            )
        return self.line

    def promise(self, answer: Answer, snapshot: str, scope: str = "") -> AnswerPromise:
        """What the certificate says of an answer, without its score.

        ``scope`` is that of :func:`apply_promise`.
        """
        holds = not self.changed(snapshot)
        if not scope and answer.persona not in self.personas:
            scope = (
                f"answers for the persona {answer.persona!r}"
                if answer.persona
                else "answers without a persona"
            )
        line = self.sentence(snapshot)
        if holds and scope:
            line = f"The promise of {self.promised} does not cover {scope}"
        return AnswerPromise(line, self.certificate, self.threshold, holds=holds and not scope)

    def changed(self, snapshot: str) -> str:
        """What suspends the promise; empty while it holds."""
        changes = (self.suspended, "" if snapshot == self.snapshot else "the documents changed")
        return ", ".join(filter(None, changes))


@dataclass(frozen=True, slots=True)
class AskPlan:
    """The settings for answering a question.

    Attributes:
        options: Model, context and limits.
        prompt: Its composition; :func:`read_prompt` reads a template once for all answers.
        tokenizer: Counts the tokens of the context if ``window_of`` is not given; None for an
            estimate from words.
        window_of: Returns a chat model's window by its name (see
            :func:`generator_window`); called for each persona's model.
        on_context: Gets the passages of a prompt before the model is asked.
        retrieve: Settings of routing and retrieval.
        history: Earlier turns, oldest first; the question is then rewritten to stand alone.
        notes: Notes added to every answer.
        databases: Databases of the route ``sql``, with their schemas.
        hooks: Hooks between the stages of the search, for diagnosis.
        guard: Withholds answers that score too low; None shows all.
        keywords: Text for the keyword channel in place of the question; see :class:`Condensed`.
        stream: The reply is shown while it is being written.
    """

    options: AnswerOptions = AnswerOptions()
    prompt: PromptOptions = PromptOptions()
    tokenizer: Tokenizer | None = None
    window_of: Callable[[str], Window] | None = None
    on_context: Callable[[Sequence[Hit]], None] | None = None
    retrieve: RetrieveOptions = RetrieveOptions()
    history: tuple[Message, ...] = ()
    notes: tuple[str, ...] = ()
    databases: tuple[QueryDatabase, ...] = ()
    hooks: StageHooks | None = None
    guard: AnswerGuard | None = None
    keywords: str = ""
    stream: bool = False

    def window(self, model: str) -> Window:
        """The window of a chat model."""
        return Window(tokenizer=self.tokenizer) if self.window_of is None else self.window_of(model)


def answer(
    question: str, persona: Persona, hits: Sequence[Hit], plan: AskPlan | None = None
) -> Flow[Answer]:
    """An answer for a persona from retrieved passages, with citations, or an abstention.

    Without a chat model these are snippets, with words of the passages alone to weigh them.

    Args:
        question: A question that stands alone (see :func:`condense`).
        persona: Reader of the answer; its ``model`` overrides the project's.
        hits: Passages, best first.
        plan: Settings.

    Raises:
        ModelReplyError: The chat model's reply is empty.
        PromptError: The prompt cannot be rendered.
    """
    chosen = plan or AskPlan()
    if (persona.model or chosen.options.model) == NO_MODEL:
        return snippet_answer(question, persona, hits, threshold=chosen.options.threshold)
    return (yield from write(question, persona, hits, chosen))


def write(question: str, persona: Persona, hits: Sequence[Hit], plan: AskPlan) -> Flow[Answer]:
    """An answer written by a chat model from the passages that fit its context."""
    options = plan.options
    model = persona.model or options.model
    blank = Answer(question, "", persona.name, model=model)
    if options.closed_book:
        hits = ()
    elif not hits:
        return replace(blank, text=REFUSED, abstained=True, notes=("nothing was retrieved",))
    parts = plan.prompt
    if options.closed_book:
        parts = replace(parts, without=(*parts.without, *_ABOUT_PASSAGES))
    frame = PromptFrame(
        question, persona, parts, plan.window(model), options.max_tokens, options.hit_order
    )
    room = frame.room(options.context_tokens)
    consolidation = ConsolidateOptions(
        options.consolidate, model, room, window=frame.window, hard=room < options.context_tokens
    )
    context = yield from consolidate(question, hits, consolidation)
    if not context.hits and not options.closed_book:
        return replace(
            blank,
            text=REFUSED,
            abstained=True,
            notes=context.notes or ("no passage fits the context",),
            usage=context.usage,
        )
    prompt, shown_hits, dropped = frame.fit(context.hits, context.summary)
    params = {"max_tokens": options.max_tokens, "temperature": options.temperature}
    sources = list(dict.fromkeys(hit.document_id for hit in shown_hits))
    if plan.on_context is not None:
        plan.on_context(shown_hits)
    reply = yield from chat(model, prompt.messages, params, stream=plan.stream, sources=sources)
    text = reply.text.strip()
    if not text:
        raise no_text_error(reply, model)
    citations, citation_notes = resolve_citations(text, shown_hits)
    refused = reply.finish == "refusal"
    abstained = refused or abstains(text, plan.prompt.cue)
    if not (citations or abstained or options.closed_book):
        citation_notes += ("the answer cites no passage",)
    return replace(
        blank,
        text=text,
        abstained=abstained,
        citations=citations,
        hits=shown_hits,
        cached=reply.cached and context.cached,
        prompt=tuple((m.role, m.content) for m in prompt.messages),
        usage=context.usage + reply.usage,
        notes=(*context.notes, *dropped, *_reply_notes(reply, options), *citation_notes),
        finish={"refusal": "content_filter", "tool_calls": "stop"}.get(reply.finish, reply.finish),
    )


def _reply_notes(reply: ChatReply, options: AnswerOptions) -> list[str]:
    """Notes for the user on the reply."""
    notes = []
    if reply.finish == "length":
        notes.append(f"the reply was cut at {options.max_tokens} tokens")
    elif reply.finish in INCOMPLETE:
        notes.append(INCOMPLETE[reply.finish])
    if reply.dropped:
        notes.append(f"the server does not support {', '.join(reply.dropped)}; left out")
    return [*notes, *reply.notes]


def abstains(text: str, cue: str) -> bool:
    """True if a reply says, by the configured cue, that the context does not answer.

    The cue is searched for in the first two sentences, ignoring case, spacing, quotes and the last
    stop.
    """
    folded_cue = _folded_text(cue)
    opening = _folded_text(" ".join(re.split(r"(?<=[.!?…])\s+", text.strip())[:2]))
    return bool(folded_cue) and folded_cue in opening


def avg_chunk_score(answered: Answer) -> float | None:
    """Mean similarity of the passages of an answer to its question (dense channel).

    None if no passage has a dense score: keyword scores are not similarities.
    """
    scores = [hit.channels["dense"].score for hit in answered.hits if "dense" in hit.channels]
    return sum(scores) / len(scores) if scores else None


def _folded_text(text: str) -> str:
    return " ".join(re.sub(r"[\W_]+", " ", text.casefold()).split())


@dataclass(frozen=True, slots=True)
class Condensed:
    """A question that can be understood alone.

    Attributes:
        text: The question to retrieve and answer with.
        method: ``as asked``, ``rule`` (terms of an earlier question were added), or the model.
        notes: Which turns were left out.
        keywords: Text for the keyword channel in place of ``text``: words of the question and of
            earlier turns, each repeated by its weight; empty if it is searched as ``text``.
    """

    text: str
    method: str
    notes: tuple[str, ...] = ()
    keywords: str = ""


_POINTING = re.compile(
    r"\b(?:it|its|itself|they|them|their|theirs|he|him|his|she|her|hers|this|that|these|those"
    r"|there|one|ones|both|former|latter|such|same"
    r"|il|elle|ils|elles|lui|leur|leurs|celui|celle|ceux|celles|celui-ci|celle-ci|cela|ça|ceci"
    r"|y|en|son|sa|ses|cette|cet|ces|ce dernier|cette dernière"
    r"|er|sie|ihm|ihr|ihre|dessen|deren|diese[rsmn]?|dort|davon|dazu"
    r"|ello|ella|ellos|ellas|esto|eso|ese|esa|allí)\b",
    re.IGNORECASE,
)
_CONTINUING = re.compile(
    r"^\W*(?:and|or|but|so|also|what about|how about|what else|why(?: not)?\W*$|et|mais|ou|alors"
    r"|qu['’]en est-il|pourquoi\W*$|und|oder|aber|y|pero|e|ma)\b",
    re.IGNORECASE,
)
_IMPERSONAL = re.compile(
    r"\b(?:is it|was it|il y a|y a-t-il|il faut|faut-il|il est|est-il|existe-t-il|is there"
    r"|are there|was there|were there|this (?:document|manual|page)|en \d+|qu['’]est-ce que)\b",
    re.IGNORECASE,
)


_MAX_TOKENS = 200
_OF_QUESTION, _EARLIER, _DECAY = 10, 3, 0.7
_MOST_WORDS = 300

CONVERSATION = "ragwright:conversation"
"""Source of replies to prompts that hold earlier answers: whatever those quoted."""


def condense(
    question: str, history: Sequence[Message], model: str = "", window: Window | None = None
) -> Flow[Condensed]:
    """A follow-up question rewritten so that it can be searched and answered by itself.

    Args:
        question: The last question.
        history: Earlier turns, oldest first, roles ``user`` and ``assistant``.
        model: Chat model; empty or ``snippet`` for the rule (:func:`condense_by_rule`).
        window: The model's; the oldest turns that do not fit it are left out, with a note.
    """
    if not history:
        return Condensed(question, "as asked")
    if model in {"", NO_MODEL}:
        return condense_by_rule(question, history)
    data = load_shipped_mapping("answer", "prompts/condense.yaml")
    fixed = data.text("system") + data.text("user") + question
    turns, notes = recent_turns(history, fixed, _MAX_TOKENS, window or Window())
    values = {"history": turns, "question": question}
    reply = yield from chat(
        model,
        [Message(role, render(data.text(role), values)) for role in ("system", "user")],
        {"temperature": 0.0, "max_tokens": _MAX_TOKENS},
        sources=[CONVERSATION],
    )
    text = " ".join(reply.text.split()).strip("\"'«» ")
    if not text:
        return Condensed(question, "as asked", notes)
    return Condensed(text, model, notes)


def condense_by_rule(question: str, history: Sequence[Message]) -> Condensed:
    """The question with the salient terms of the last one, if it refers back.

    A question refers back if it holds a pronoun or a demonstrative, begins like a continuation
    ("and", "what about", "et"), or has at most one content word. Salient terms are the content
    words of the last user question that the new one lacks, in their order.
    """
    questions = [turn.content for turn in history if turn.role == "user"]
    if not questions:
        return Condensed(question, "as asked")
    keywords = weigh_words(question, history)
    if stands_alone(question, history):
        return Condensed(question, "as asked", keywords=keywords)
    analyzer = Analyzer()
    present = set(analyzer.tokens(question))
    terms: list[str] = []
    for word in words(questions[-1]):
        tokens = analyzer.tokens(word)
        if tokens and not present.intersection(tokens) and word not in terms:
            terms.append(word)
    if not terms:
        return Condensed(question, "as asked", keywords=keywords)
    return Condensed(f"{question} ({' '.join(terms[:8])})", "rule", keywords=keywords)


def weigh_words(question: str, history: Sequence[Message]) -> str:
    """The words of a question and of the turns before it, each repeated by its weight.

    A word of the question counts 10 times. One that only earlier questions hold counts 3 times, by
    0.7 less for each question that lies between; one of the last answer counts once. BM25 adds the
    weight of a rare word to this one. Chosen on one half of MTRAG-UN by
    keyword search. Empty if the earlier turns add no word.
    """
    analyzer = Analyzer()
    present = set(analyzer.tokens(question))
    counts: dict[str, int] = {}
    questions = [turn.content for turn in history if turn.role == "user"]
    answers = [turn.content for turn in history if turn.role == "assistant"]
    weighted = [(text, round(_EARLIER * _DECAY**age)) for age, text in enumerate(questions[::-1])]
    for text, weight in (*weighted, *((text, 1) for text in answers[-1:])):
        for word in dict.fromkeys(words(text)):
            tokens = analyzer.tokens(word)
            if weight and tokens and not present.issuperset(tokens):
                present.update(tokens)
                counts[word] = weight
        if len(counts) >= _MOST_WORDS:
            break
    if not counts:
        return ""
    own = [word for word in words(question) if analyzer.tokens(word)]
    return " ".join((*own * _OF_QUESTION, *(w for w, n in counts.items() for _ in range(n))))


def stands_alone(question: str, history: Sequence[Message]) -> bool:
    """True if a question can be understood without its history, as far as its words show."""
    if not history:
        return True
    if _CONTINUING.search(question) or len(set(Analyzer().tokens(question))) < 2:
        return False
    return not _POINTING.search(_IMPERSONAL.sub(" ", question))
