"""Personas and the answering prompt: fifteen named parts, each of which can be switched off,
swapped or replaced; and their settings.

Parts are jinja2 templates in a YAML file; they are rendered once, in a sandbox. Questions,
personas and passages are values: nothing in them is ever rendered, and passages are
neutralised, so that the only ``[n]`` at the start of a line are those written here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from ..core import (
    Hit,
    Mapped,
    Persona,
    PromptError,
    load_shipped_mapping,
    option,
    passage_values,
    read_mapping,
    render,
    suggest_name,
    text_hash,
)
from ..flow import Message
from ..models import NO_MODEL

Method: TypeAlias = Literal["concatenate", "summarise_each", "running", "tree"]
HitOrder: TypeAlias = Literal["best_first", "best_last", "best_at_ends"]


@dataclass(frozen=True, slots=True)
class CorpusOptions:
    """Settings of answers from every chunk of the corpus."""

    max_chunks: int = option(
        500, "Most chunks a chat model reads for one question, one call each.", ge=1
    )


@dataclass(frozen=True, slots=True)
class DraftWeights:
    """Weights of the soft filters; a topic's weight counts once for each topic."""

    client: float = option(8.0, "Weight of the client.", ge=0)
    ask_type: float = option(5.0, "Weight of the ask type.", ge=0)
    topic: float = option(3.0, "Weight of each topic.", ge=0)
    length: float = option(2.0, "Weight of the length group.", ge=0)
    tone: float = option(1.0, "Weight of each tone.", ge=0)


@dataclass(frozen=True, slots=True)
class DraftOptions:
    """Settings of drafting texts from similar records."""

    models: tuple[str, ...] = option((), "Models that write drafts; empty: answer.model.")
    examples: int = option(15, "Examples shown in a prompt.", ge=1)
    pool: int = option(30, "Number of records found from which examples are taken.", ge=1)
    weights: DraftWeights = option(DraftWeights, "Weight of each soft filter.")
    threshold: float | None = option(
        None, "Least similarity of an example (in keyword search: least BM25 score)."
    )
    unfiltered: bool = option(True, "Include records that meet no soft filter, after all others.")
    per_call: int | None = option(
        None, "Most texts per call; empty: as many as fit max_tokens.", ge=1
    )
    max_tokens: int = option(1500, "Most tokens of one reply.", ge=16)
    temperature: float = option(0.8, "Sampling temperature.", ge=0, le=2)
    seed: int = option(0, "Seed of the choice of examples; another seed gives other prompts.")
    prompt: str = option("", "YAML file with the prompt's texts; empty for the shipped one.")


REFUSED = "The documents found do not answer this question."
"""The text of an abstention where no chat model wrote one."""

DEFAULT_CUE = "The passages do not answer this question."
DEFAULT_ERROR_CUE = "There is a factual error in the passages."


@dataclass(frozen=True, slots=True)
class PromptOptions:
    """Composition of the prompt; presets and switches are combined."""

    template: str = option("", "YAML file with the parts; empty for the shipped one.")
    preset: str = option(
        "complete", "Ablation preset, such as without_style; the page Prompt presets lists all 16."
    )
    parts: tuple[str, ...] = option(
        (),
        "Only these parts; empty for all. Parts: role, tailor, ignore_debris, only_context,"
        " cite, key_information, insufficient, readable_sentences, persona_length, persona_style,"
        " no_extraneous, answer_language, context, question, turn_markers.",
    )
    without: tuple[str, ...] = option((), "Parts left out.")
    order: tuple[str, ...] = option((), "Parts to put first, in this order; the others follow.")
    swap: tuple[tuple[str, str], ...] = option((), "Pairs of parts to swap.")
    replace: Mapping[str, str] = option(dict, "Part -> its text or the name of a variant.")
    company: str = option("", "The company, product or organisation the answers are for.")
    cue: str = option(DEFAULT_CUE, "Words at the start of a reply when the passages do not answer.")
    error_cue: str = option(
        DEFAULT_ERROR_CUE,
        "Words at the start of a reply when a passage is wrong, for the variant report_errors.",
    )


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """Settings of answering from passages."""

    model: str = option(
        NO_MODEL, "Chat model; snippet: none, the best passages are shown, cut to what matches."
    )
    persona: str = option("", "Default persona.")
    max_tokens: int = option(700, "Most tokens of a reply.", ge=1)
    temperature: float = option(0.0, "Sampling temperature.", ge=0, le=2)
    context_tokens: int = option(6000, "Most tokens of passages in the prompt.", ge=100)
    hit_order: HitOrder = option(
        "best_first", "Order of passages: best_first, best_last or best_at_ends."
    )
    consolidate: Method = option(
        "concatenate",
        "Context: concatenate passages, or summarise them by a model first: summarise_each, "
        "running, tree.",
    )
    threshold: float = option(
        0.7,
        "Without a chat model: what a passage must hold of the question's words, by their rarity, "
        "against that and the rarest word it lacks; if none does, the answer abstains.",
        ge=0,
        le=1,
    )
    closed_book: bool = option(False, "Ask the model without passages (closed book).")
    corpus: CorpusOptions = option(CorpusOptions, "Questions about the whole corpus.")
    draft: DraftOptions = option(DraftOptions, "Drafting texts from records.")


_SHIPPED = ("engineer", "marketing")


def load_persona(path: str | Path) -> Persona:
    """The persona of a YAML file; its name is the file's if no ``name`` is given.

    Raises:
        PromptError: An unknown key (the nearest is named), a value of the wrong kind, or not YAML;
            with file and line.
    """
    return _read_persona(read_mapping(Path(path)), Path(path).stem)


def load_personas(folder: str | Path) -> Mapping[str, Persona]:
    """Personas of all YAML files of a folder by name, in order of their names.

    Raises:
        PromptError: A file is wrong (see :func:`load_persona`), or two have the same name.
    """
    by_name: dict[str, tuple[Persona, Path]] = {}
    paths = [p for p in Path(folder).glob("*.y*ml") if p.suffix in {".yaml", ".yml"}]
    for path in sorted(paths):
        persona = load_persona(path)
        if persona.name in by_name:
            raise PromptError(
                f"two personas are called {persona.name!r}",
                where=str(path),
                hint=f"the other is {by_name[persona.name][1]}; rename one",
            )
        by_name[persona.name] = persona, path
    return {name: by_name[name][0] for name in sorted(by_name)}


def load_shipped_personas() -> Mapping[str, Persona]:
    """The personas that come with the package, by name."""
    return {
        name: _read_persona(load_shipped_mapping("answer", f"personas/{name}.yaml"), name)
        for name in _SHIPPED
    }


def pick_persona(name: str, personas: Mapping[str, Persona]) -> Persona:
    """The persona with a name; a neutral one without instructions for the empty name.

    Raises:
        PromptError: No such persona; the nearest is named.
    """
    if not name:
        return Persona("")
    if name not in personas:
        raise PromptError(f"unknown persona {name!r}", hint=suggest_name(name, personas))
    return personas[name]


def _read_persona(data: Mapped, name: str) -> Persona:
    data.check_keys([f.name for f in fields(Persona)], "a persona")
    texts = {key: data.text(key) for key in data.values if key != "name"}
    return replace(Persona(data.text("name") or name), **texts)


PARTS = (
    "role",
    "tailor",
    "ignore_debris",
    "only_context",
    "cite",
    "key_information",
    "insufficient",
    "readable_sentences",
    "persona_length",
    "persona_style",
    "no_extraneous",
    "answer_language",
    "context",
    "question",
    "turn_markers",
)
"""The fifteen parts, in the order of the complete prompt."""

MARKERS = ("instruction_tokens", "assistant_cue")
"""The two halves of ``turn_markers``; each can be switched off alone."""

_OF_A_PERSONA = tuple(
    field.name for field in fields(Persona) if isinstance(getattr(Persona(""), field.name), str)
)
"""The fields of a persona that are text."""


@dataclass(frozen=True, slots=True)
class ReadPrompt(PromptOptions):
    """Options with their template, read once: later edits of the file have no effect."""

    parsed: Mapped | None = None

    @property
    def fingerprint(self) -> str:
        """Hash of the template's file, empty for the shipped one."""
        return "" if self.parsed is None else text_hash(repr(self.parsed.values))


@dataclass(frozen=True, slots=True)
class Prompt:
    """A rendered prompt.

    Attributes:
        messages: The turns to send.
        parts: (name, text) of each part, in order; empty ones are left out.
        text: The whole prompt as one text, for models without turns.
    """

    messages: tuple[Message, ...]
    parts: tuple[tuple[str, str], ...]
    text: str


@dataclass(frozen=True, slots=True)
class _Plan:
    """The parts to render: names in order, templates, active markers."""

    names: tuple[str, ...]
    texts: Mapping[str, str]
    system: frozenset[str]
    markers: Mapping[str, str]
    data: Mapped


def compose(
    question: str,
    persona: Persona,
    hits: Sequence[Hit],
    options: PromptOptions | None = None,
    *,
    summary: str = "",
) -> Prompt:
    """The prompt for a question, a persona and its passages, numbered from 1 in their order.

    ``summary`` replaces the passages if the context was summarised as a whole.

    Raises:
        PromptError: An unknown part, preset or variant; a template that fails, with its part.
    """
    chosen = options or PromptOptions()
    plan = _parts_plan(chosen)
    guard = tuple(text for text in plan.markers.values() if text)
    values = {
        "question": question.strip(),
        "persona": {name: getattr(persona, name).strip() for name in _OF_A_PERSONA},
        "passages": [passage_values(number, hit, guard) for number, hit in enumerate(hits, 1)],
        "summary": summary.strip(),
        "company": chosen.company,
        "cue": chosen.cue,
        "error_cue": chosen.error_cue,
    }
    rendered = [(name, _rendered_part(plan, name, values)) for name in plan.names]
    parts = [(name, text) for name, text in rendered if text]
    system = [text for name, text in parts if name in plan.system]
    user = [text for name, text in parts if name not in plan.system]
    opened, closed = plan.markers["instruction_open"], plan.markers["instruction_close"]
    cue = plan.markers["assistant_cue"]
    first = system or user
    if opened:
        first.insert(0, opened)
    user += [mark for mark in (closed, cue) if mark]
    messages = [Message("system", "\n\n".join(system))] if system else []
    if user:
        messages.append(Message("user", "\n\n".join(user)))
    body = [text for _, text in parts]
    pieces = [t for t in (opened, *body, closed, cue) if t]
    if marks := "\n\n".join(t for t in (opened, closed, cue) if t):
        parts.append(("turn_markers", marks))
    return Prompt(tuple(messages), tuple(parts), "\n\n".join(pieces))


def read_prompt(options: PromptOptions) -> ReadPrompt:
    """The options with their template read, unless the same file was read before.

    Raises:
        PromptError: The template's file is wrong, with file and line.
    """
    file = Path(options.template) if options.template else None
    if isinstance(options, ReadPrompt):
        parsed_file = None if options.parsed is None else Path(options.parsed.where)
        if parsed_file == file:
            return options
    chosen = {field.name: getattr(options, field.name) for field in fields(PromptOptions)}
    return ReadPrompt(**chosen, parsed=None if file is None else read_mapping(file))


def prompt_parts(options: PromptOptions | None = None) -> tuple[str, ...]:
    """Names of the parts of a prompt, in order.

    Includes parts that are empty for some personas.

    Raises:
        PromptError: The template's file is wrong (with file and line), or an unknown part, preset
            or variant is named.
    """
    plan = _parts_plan(options or PromptOptions())
    markers = ("turn_markers",) if any(plan.markers.values()) else ()
    return (*plan.names, *markers)


def presets() -> Mapping[str, Mapping[str, Any]]:
    """The ablation presets: name -> switches (``without``, ``swap``, ``replace``).

    ``source`` is the preset's number in the published comparison that the presets come from.
    """
    return dict(_shipped_prompt("presets").values)


def _parts_plan(options: PromptOptions) -> _Plan:
    """Parts, order and markers after template, preset and switches."""
    data = read_prompt(options).parsed or _shipped_prompt("default")
    data.check_keys(("order", "parts", "turn_markers", "system", "variants"), "a prompt file")
    base = _shipped_prompt("default").values
    texts = {**base["parts"], **_text_mapping(data, "parts")}
    variants = {**base["variants"], **_text_mapping(data, "variants")}
    markers = {**base["turn_markers"], **_text_mapping(data, "turn_markers")}
    part_names = (*texts, "turn_markers")
    if options.preset not in presets():
        raise PromptError(
            f"unknown prompt preset {options.preset!r}",
            hint=suggest_name(options.preset, presets()),
        )
    preset = presets()[options.preset]
    without = {*preset.get("without", ()), *options.without}
    swaps = [*preset.get("swap", ()), *options.swap]
    replaced = {**preset.get("replace", {}), **options.replace}
    _check_part_names([*without], (*part_names, *MARKERS), data.where)
    switched = [*options.parts, *options.order, *(n for pair in swaps for n in pair), *replaced]
    _check_part_names(switched, (*part_names, *markers), data.where)
    for name, text in replaced.items():
        (markers if name in markers else texts)[name] = variants.get(text, text)
    order = list(data.values.get("order") or base["order"])
    _check_part_names(order, part_names, data.place("order"))
    order = [*options.order, *(n for n in order if n not in options.order)]
    for first, second in swaps:
        i, j = order.index(first), order.index(second)
        order[i], order[j] = second, first
    names = [n for n in order if n not in without and (not options.parts or n in options.parts)]
    if "turn_markers" not in names:
        without |= set(MARKERS)
    off = {"assistant_cue"} & without
    if "instruction_tokens" in without:
        off |= {"instruction_open", "instruction_close"}
    return _Plan(
        tuple(n for n in names if n != "turn_markers"),
        texts,
        frozenset(data.values.get("system") or base["system"]),
        {name: "" if name in off else text.strip() for name, text in markers.items()},
        data,
    )


def _text_mapping(data: Mapped, key: str) -> dict[str, str]:
    """A mapping of texts under a key."""
    texts = data.values.get(key, {})
    if not isinstance(texts, dict) or any(not isinstance(v, str) for v in texts.values()):
        raise PromptError(f"{key!r} must hold names and texts", where=data.place(key))
    if key == "turn_markers":
        _check_part_names(texts, _shipped_prompt("default").values["turn_markers"], data.place(key))
    return texts


def _check_part_names(
    names: Sequence[str] | Mapping[str, str], allowed: Sequence[str], where: str
) -> None:
    for name in names:
        if name not in allowed:
            raise PromptError(
                f"unknown prompt part {name!r}", where=where, hint=suggest_name(name, allowed)
            )


def _shipped_prompt(name: str) -> Mapped:
    return load_shipped_mapping("answer", f"prompts/{name}.yaml")


def _rendered_part(plan: _Plan, name: str, values: Mapping[str, Any]) -> str:
    try:
        return render(plan.texts[name], values)
    except PromptError as error:
        raise PromptError(
            f"prompt part {name!r}: {error.what}",
            where=plan.data.placed.where("parts", name),
            hint=error.hint,
        ) from error
