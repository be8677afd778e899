"""Patterns over a batch of texts: searched and replaced, by whichever engine runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import PatternError, PatternToken, WorkerEndedError, require, run_pattern
from .._seams import ArrowTable
from ._kernels import disputed_words, found_in, rewritten, tells_apart, undisputed
from ._plan import Pattern, Plan, Replace, plan_of, quoted, tokens_of
from ._rust import Odd

_Rows = NDArray[np.bool_]


def matches(
    texts: ArrowTable, keys: ArrowTable, patterns: Sequence[Pattern], seconds: float
) -> _Rows:
    """Which patterns are found in which texts: shape (rows, patterns).

    Args:
        texts: Large strings; nothing is found in a null.
        keys: Key of each row, for messages.
        patterns: To search for.
        seconds: That one pattern may take on one row where Python runs it.

    Raises:
        PatternError: A pattern took longer; it and the row are named.
    """
    plans = [plan_of(pattern.find) for pattern in patterns]
    found = _searched(texts, [p.loose if p.rust is None else p.rust for p in plans])
    found &= np.asarray(texts.is_valid())[:, np.newaxis]
    doubtful = {at: found[:, at].copy() for at, plan in enumerate(plans) if plan.rust is None}
    odd = {kind: _odd_rows(texts, kind) for kind in {k for p in plans for k in p.odd}}
    for at, kinds in _left_to_python(texts, plans, odd, found).items():
        theirs = np.logical_or.reduce([odd[kind] for kind in kinds])
        rows = np.nonzero(theirs)[0]
        found[rows, at] = _searched(texts.take(rows), [plans[at].loose])[:, 0]
        doubtful[at] = theirs & found[:, at]
    for at, maybe in doubtful.items():
        rows = np.nonzero(maybe)[0]
        found[rows, at] = _run(patterns[at], None, texts, keys, (rows, seconds))
    return found


def _left_to_python(
    texts: ArrowTable, plans: Sequence[Plan], odd: Mapping[Odd, _Rows], found: _Rows
) -> dict[int, list[Odd]]:
    """Patterns and kinds of rows that Python must see, after Rust saw to words where it can."""
    left: dict[int, list[Odd]] = {
        at: kinds
        for at, plan in enumerate(plans)
        if (kinds := [kind for kind in sorted(plan.odd) if odd[kind].any()])
    }
    words = [at for at, kinds in left.items() if "word" in kinds]
    alike = [at for at in words if not tells_apart(plans[at].classes)]
    if alike:
        rows = np.nonzero(odd["word"])[0]
        there = _searched(undisputed(texts.take(rows)), [plans[at].rust for at in alike])
        found[np.ix_(rows, np.asarray(alike))] = there
        for at in alike:
            left[at].remove("word")
    return {at: kinds for at, kinds in left.items() if kinds}


def replaced(
    texts: ArrowTable, keys: ArrowTable, steps: Sequence[Replace], seconds: float
) -> ArrowTable:
    """Texts after replacements in order: an Arrow array of large strings.

    Args:
        texts: Large strings; nulls stay.
        keys: Key of each row, for messages.
        steps: In order.
        seconds: That one pattern may take on one row where Python runs it.

    Raises:
        PatternError: A pattern took longer; it and the row are named.
    """
    left = list(steps)
    while left:
        chain = _chain(left)
        if chain:
            texts = _chained(texts, keys, chain, seconds)
            del left[: len(chain)]
        else:
            texts = _by_python(texts, keys, left.pop(0), seconds)
    return texts


def _chain(steps: Sequence[Replace]) -> list[Replace]:
    """The first steps that Rust runs, up to one that may bring in what makes a row odd."""
    found = []
    for step in steps:
        tokens = _tokens(step)
        if not plan_of(step.pattern.find).replaces_in_rust(tokens):
            break
        found.append(step)
        if any(isinstance(token, str) and not _harmless(token) for token in tokens):
            break
    return found


def _harmless(literal: str) -> bool:
    return literal.isascii() and "\n" not in literal


def _chained(
    texts: ArrowTable, keys: ArrowTable, steps: Sequence[Replace], seconds: float
) -> ArrowTable:
    pa = require("pyarrow", "records", "cleaning records")
    kinds = {kind for step in steps for kind in plan_of(step.pattern.find).odd}
    odd = np.zeros(len(texts), np.bool_)
    for kind in kinds:
        # a row without a line break never ends in one, whatever is taken out of it
        odd |= found_in(texts, [r"\n"])[:, 0] if kind == "line" else _odd_rows(texts, kind)
    if not odd.any():
        return rewritten(texts, [_told(step) for step in steps])
    plain, doubtful = np.nonzero(~odd)[0], np.nonzero(odd)[0]
    done = rewritten(texts.take(plain), [_told(step) for step in steps])
    slow, their_keys = texts.take(doubtful), keys.take(doubtful)
    for step in steps:
        if plan_of(step.pattern.find).odd:
            slow = _by_python(slow, their_keys, step, seconds)
        else:
            slow = rewritten(slow, [_told(step)])
    back = np.argsort(np.concatenate([plain, doubtful]), kind="stable")
    return pa.concat_arrays([done, slow]).take(pa.array(back))


def _by_python(texts: ArrowTable, keys: ArrowTable, step: Replace, seconds: float) -> ArrowTable:
    """A replacement by Python, on the rows in which the loose pattern is found."""
    pa = require("pyarrow", "records", "cleaning records")
    maybe = _searched(texts, [plan_of(step.pattern.find).loose])[:, 0]
    rows = np.nonzero(maybe & np.asarray(texts.is_valid()))[0]
    if not len(rows):
        return texts
    made = _run(step.pattern, _tokens(step), texts, keys, (rows, seconds))
    both = pa.concat_arrays([texts, pa.array(made, pa.large_string())])
    at = np.arange(len(texts))
    at[rows] = np.arange(len(texts), len(both))
    return both.take(pa.array(at))


def _searched(texts: ArrowTable, patterns: Sequence[str | None]) -> _Rows:
    """:func:`found_in` where None is found everywhere."""
    found = np.ones((len(texts), len(patterns)), np.bool_)
    real = [at for at, pattern in enumerate(patterns) if pattern is not None]
    found[:, real] = found_in(texts, [pattern for pattern in patterns if pattern is not None])
    return found


def _odd_rows(texts: ArrowTable, kind: Odd) -> _Rows:
    if kind == "line":
        return found_in(texts, [r"\n\z"])[:, 0]
    return disputed_words(texts)


def _run(
    pattern: Pattern,
    tokens: tuple[PatternToken, ...] | None,
    texts: ArrowTable,
    keys: ArrowTable,
    which: tuple[NDArray[Any], float],
) -> list[Any]:
    rows, seconds = which
    given = texts.take(rows).to_pylist()
    try:
        return run_pattern(pattern.find, tokens, given, seconds)
    except WorkerEndedError as error:
        key = keys[int(rows[error.step])].as_py()
        if error.how:
            raise PatternError(
                f"the pattern {quoted(pattern.find)} failed on the row {key!r}: {error.how}",
                where=pattern.where,
            ) from error
        raise PatternError(
            f"the pattern {quoted(pattern.find)} took longer than {seconds:g} s on the row "
            f"{key!r}: it backtracks",
            where=pattern.where,
            hint="avoid a loop within a loop, such as (a+)+, or a look-around around one; "
            "pattern_seconds in the file allows more time",
        ) from error


def _tokens(step: Replace) -> tuple[PatternToken, ...]:
    return tokens_of(step.replacement.text, step.pattern.find)


def _told(step: Replace) -> tuple[str, str]:
    """Pattern and replacement as Rust's engine writes them."""
    plan: Plan = plan_of(step.pattern.find)
    parts = (f"${{{t}}}" if isinstance(t, int) else t.replace("$", "$$") for t in _tokens(step))
    return str(plan.rust), "".join(parts)
