"""Patterns over a batch of texts: search and replacement, by the chosen engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import PatternError, PatternToken, WorkerEndedError, require, run_pattern
from .._seams import ArrowTable
from ._dialects import LAST_BREAK, Plan
from ._kernels import found_in, rewritten
from ._plan import Pattern, Replace, plan_of, quoted, tokens_of


def matches(
    texts: ArrowTable, keys: ArrowTable, patterns: Sequence[Pattern], seconds: float
) -> NDArray[np.bool_]:
    """Search texts for patterns: a mask of the hits, shape (rows, patterns).

    Args:
        texts: Large strings; nothing is found in a null.
        keys: Key of each row, for messages.
        patterns: To search for.
        seconds: Most seconds of one pattern on one row if Python runs it.

    Raises:
        PatternError: A pattern took longer; it and the row are named.
    """
    plans = [plan_of(pattern.find) for pattern in patterns]
    hits = found_in(texts, [p.loose if p.rust is None else p.rust for p in plans])
    for at, rows in enumerate(_python_rows(texts, plans, hits)):
        hits[rows, at] = _run(patterns[at], None, texts, keys, (rows, seconds))
    return hits


def replaced(
    texts: ArrowTable, keys: ArrowTable, steps: Sequence[Replace], seconds: float
) -> ArrowTable:
    """Texts after replacements in order: an Arrow array of large strings.

    Args:
        texts: Large strings; nulls stay.
        keys: Key of each row, for messages.
        steps: In order.
        seconds: Most seconds of one pattern on one row if Python runs it.

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
            texts = _replaced_once(texts, keys, left.pop(0), seconds)
    return texts


def _python_rows(
    texts: ArrowTable, plans: Sequence[Plan], hits: NDArray[np.bool_]
) -> list[NDArray[np.intp]]:
    """For each pattern the rows that Python must check after Rust."""
    kinds = {plan.odd for plan in plans if plan.odd}
    some = np.nonzero(_any_of(texts, kinds))[0]
    searches = sorted(kinds | {plan.loose for plan in plans if plan.odd})
    theirs = dict(zip(searches, found_in(texts.take(some), searches).T, strict=True))
    rows = []
    for at, plan in enumerate(plans):
        wanted = hits[:, at] & (plan.rust is None)
        if plan.odd and plan.rust is not None:
            wanted[some] = theirs[plan.odd] & theirs[plan.loose]
        rows.append(np.nonzero(wanted)[0])
    return rows


def _any_of(texts: ArrowTable, kinds: Iterable[str]) -> NDArray[np.bool_]:
    alternatives = "|".join(sorted(kinds))
    return found_in(texts, [alternatives])[:, 0] if alternatives else np.zeros(len(texts), np.bool_)


def _chain(steps: Sequence[Replace]) -> list[Replace]:
    """The first steps that Rust runs, up to one that may bring in what the engines dispute."""
    chain = []
    for step in steps:
        tokens = _tokens(step)
        if not plan_of(step.pattern.find).replaces(tokens):
            break
        chain.append(step)
        if not all(isinstance(t, int) or (t.isascii() and t.isprintable()) for t in tokens):
            break
    return chain


def _chained(
    texts: ArrowTable, keys: ArrowTable, steps: Sequence[Replace], seconds: float
) -> ArrowTable:
    plans = [plan_of(step.pattern.find) for step in steps]
    # a row without a line break never ends in one, whatever is taken out of it
    kinds = {plan.odd.replace(LAST_BREAK, r"\n") for plan in plans if plan.odd}
    odd = _any_of(texts, kinds)
    done = rewritten(texts, [_rust_step(step) for step in steps])
    rows = np.nonzero(odd)[0]
    slow, their_keys = texts.take(rows), keys.take(rows)
    for step in steps:
        slow = _replaced_once(slow, their_keys, step, seconds)
    return _with(done, rows, slow)


def _replaced_once(
    texts: ArrowTable, keys: ArrowTable, step: Replace, seconds: float
) -> ArrowTable:
    """A replacement by Rust, and by Python on the rows that it must see."""
    pa = require("pyarrow", "records", "cleaning records")
    plan, tokens = plan_of(step.pattern.find), _tokens(step)
    in_rust = plan.replaces(tokens)
    plan = plan if in_rust else replace(plan, rust=None)
    hits = found_in(texts, [plan.loose])
    rows = _python_rows(texts, [plan], hits)[0]
    rewritten_texts = _run(step.pattern, tokens, texts, keys, (rows, seconds))
    done = rewritten(texts, [_rust_step(step)]) if in_rust else texts
    return _with(done, rows, pa.array(rewritten_texts, pa.large_string()))


def _with(texts: ArrowTable, rows: NDArray[np.intp], others: ArrowTable) -> ArrowTable:
    """The texts with others in some rows."""
    pa = require("pyarrow", "records", "cleaning records")
    if not len(rows):
        return texts
    at = np.arange(len(texts))
    at[rows] = np.arange(len(texts), len(texts) + len(rows))
    return pa.concat_arrays([texts, others]).take(pa.array(at))


def _run(
    pattern: Pattern,
    tokens: tuple[PatternToken, ...] | None,
    texts: ArrowTable,
    keys: ArrowTable,
    which: tuple[NDArray[Any], float],
) -> list[Any]:
    rows, seconds = which
    row_texts = texts.take(rows).to_pylist()
    try:
        return run_pattern(pattern.find, tokens, row_texts, seconds)
    except WorkerEndedError as error:
        key = keys[int(rows[error.step])].as_py()
        if error.reason:
            raise PatternError(
                f"the pattern {quoted(pattern.find)} failed on the row {key!r}: {error.reason}",
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


def _rust_step(step: Replace) -> tuple[str, str]:
    """Pattern and replacement as Rust's engine writes them."""
    parts = (f"${{{t}}}" if isinstance(t, int) else t.replace("$", "$$") for t in _tokens(step))
    return str(plan_of(step.pattern.find).rust), "".join(parts)
