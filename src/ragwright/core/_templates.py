r"""Prompt templates: jinja2 in a sandbox, and document text that cannot imitate parts of a prompt.

A passage cannot imitate another one. Its text is neutralised before it enters a prompt: a
citation mark gets round brackets (``[3]`` -> ``(3)``, which also keeps the stray footnotes of a
source from being copied as citations; an index in code, ``x[0]``, stays), the title is one line,
and the prompt's own turn markers and chat control tokens (``<|…|>``, ``[INST]``) are broken up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Sized
from functools import cache, lru_cache
from typing import Any

from ._errors import PromptError
from ._records import Hit
from ._text import bracket_marks


def render(template: str, values: Mapping[str, Any], *, strip: bool = True) -> str:
    """A template rendered once in jinja2's sandbox; values are never rendered.

    White space at both ends is removed, unless ``strip`` is off.

    Raises:
        PromptError: The template is malformed, names an unknown value, does what the sandbox
            forbids, fails (``1 / 0``), or makes more than 64 million characters.
    """
    try:
        text = _capped_text(_compiled_template(template), values)
    except PromptError:
        raise
    except Exception as error:  # an expression may raise anything
        raise PromptError(
            f"the template fails: {str(error)[:300] or type(error).__name__}",
            hint=f"values it may use: {', '.join(values)}",
        ) from error
    return text.strip() if strip else text


@lru_cache(maxsize=256)
def _compiled_template(template: str) -> Any:
    """A compiled template; kept, since a run renders few."""
    return _sandbox().from_string(template)


_MOST_CHARACTERS = 64_000_000


def _capped_text(compiled: Any, values: Mapping[str, Any]) -> str:
    """The text of a template, given up when it is too long."""
    parts, left = [], _MOST_CHARACTERS
    for part in compiled.generate(values):
        parts.append(part)
        left -= len(part)
        if left < 0:
            raise _too_much_text()
    return "".join(parts)


@cache
def _sandbox() -> Any:
    """Jinja's sandbox; no HTML is made here, so nothing is escaped."""
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Sandbox(ImmutableSandboxedEnvironment):
        """Repetitions and powers are bounded before they are computed."""

        intercepted_binops = frozenset({"*", "**"})

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            """Apply an operator if its result is of a bounded size."""
            if operator == "**" and isinstance(right, int) and abs(right) > 4_000:
                raise _too_much_text()
            for whole, times in ((left, right), (right, left)):
                sized = isinstance(whole, Sized) and isinstance(times, int)
                if sized and len(whole) * times > _MOST_CHARACTERS:
                    raise _too_much_text()
            return super().call_binop(context, operator, left, right)

    return Sandbox(undefined=StrictUndefined, autoescape=False)


def _too_much_text() -> PromptError:
    return PromptError(
        "the template makes too much text", hint="shorten its loops, factors and repetitions"
    )


_CONTROL = re.compile(r"<(\|[^|>]{0,40}\|)>|\[(/?INST)\]|<(/?s)>|<(</?SYS>)>|<(/?think)>")


def passage_values(number: int, hit: Hit, guard: Sequence[str] = ()) -> dict[str, Any]:
    """The values of a passage for a template: number, title, page, text; neutralised."""
    title = " ".join((hit.title or hit.source).split())
    text = hit.text.strip()
    if hit.head is not None and hit.head.table:  # the passage begins in the middle of a table
        text = f"| {hit.head.table} |\n{text}"
    return {
        "number": number,
        "title": neutral(title, guard),
        "page": hit.page,
        "text": neutral(text, guard),
    }


def neutral(text: str, guard: Sequence[str] = ()) -> str:
    """Document text that cannot imitate a passage mark or a turn.

    Args:
        text: Text of a passage or a title.
        guard: Turn markers of the prompt; if a line of the text starts with one, a word joiner
            (U+2060) is put behind its first character.
    """
    # Last: a word joiner or a control token that is broken up may change what is code.
    return bracket_marks(guard_text(text, guard))


def guard_text(text: str, guard: Sequence[str] = ()) -> str:
    """Remove control tokens, and these marks at the start of lines.

    A word joiner (U+2060) separates the first character of such a mark from the rest.
    """
    text = break_control(text)
    for mark in guard:
        text = re.sub(
            rf"^([ \t]*)({re.escape(mark[0])})({re.escape(mark[1:])})",
            "\\1\\2\u2060\\3",
            text,
            flags=re.MULTILINE | re.IGNORECASE,
        )
    return text


def break_control(text: str) -> str:
    """Break up chat control tokens (``<|…|>``, ``[INST]``, ``<think>``) in a text."""
    return _CONTROL.sub(lambda m: f"({next(g for g in m.groups() if g)})", text)
