"""All built-in measures, and those of the user: ``module:function`` and a column of the rows."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import cache
from typing import Any

from ..core import MeasureError, Row, load_object
from ._define_judged import JUDGED
from ._define_models import EMBEDDING, LOGPROB
from ._define_retrieval import RETRIEVAL
from ._define_text import CAPABILITY, TEXT
from ._definition import Definition, MeasureScale

COLUMN = Definition(
    name="Column",
    kind="column",
    summary="The number, or true or false, in a column of the rows that ragwright does not read.",
    needs=(),
    low=0.0,
    high=None,
    higher_is_better=True,
    source="the rows file; its scale is unknown, higher counts as better",
    parameters=("column",),
)

_DEFINITIONS = (*RETRIEVAL, *TEXT, *EMBEDDING, *LOGPROB, *CAPABILITY, *JUDGED, COLUMN)

_BY_NAME = {definition.name: definition for definition in _DEFINITIONS}
_WORDS = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}


def definitions() -> tuple[Definition, ...]:
    """Every built-in measure, sorted by name."""
    return tuple(sorted(_DEFINITIONS, key=lambda definition: definition.name.lower()))


def find(name: str) -> Definition | None:
    """The measure with this name, None if there is none; ``module:function`` is not imported."""
    return _custom(name) if ":" in name else _BY_NAME.get(name)


@cache
def _custom(address: str) -> Definition:
    return Definition(
        name=address,
        kind="custom",
        summary="A function of your own.",
        needs=(),
        low=0.0,
        high=None,
        higher_is_better=True,
        source=address,
        validated="",
    )


def custom_function(address: str) -> Callable[[Row], Any]:
    """The function at ``module:function``.

    Raises:
        PluginError: No such module or function.
        MeasureError: It cannot be called with a row.
    """
    function = load_object(address, where="measures")
    hint = "write def name(row): ... that returns a number, true, false or None"
    if not callable(function) or inspect.isclass(function):
        raise MeasureError(f"{address} is not a function", where="measures", hint=hint)
    if inspect.iscoroutinefunction(function):
        raise MeasureError(f"{address} is async", where="measures", hint=hint)
    checked: Callable[[Row], Any] = function
    return checked


def custom_scale(address: str) -> MeasureScale | None:
    """The scale in a function's attributes ``low``, ``high`` and ``higher_is_better``.

    Raises:
        PluginError: No such module or function.
        MeasureError: The attributes are no scale.
    """
    function = custom_function(address)
    names = ("low", "high", "higher_is_better")
    given = {name: getattr(function, name) for name in names if hasattr(function, name)}
    if not given:
        return None
    low, high, upward = given.get("low"), given.get("high"), given.get("higher_is_better", True)
    ends = _is_number(low) and (high is None or (_is_number(high) and high > low))
    if not ends or not isinstance(upward, bool):
        raise MeasureError(
            f"{address}: {given} is not a scale",
            where="measures",
            hint="set low to a number; high, if it is set, to a larger one; and "
            "higher_is_better to True or False",
        )
    return MeasureScale(float(given["low"]), None if high is None else float(high), upward)


def custom_value(row: Row, address: str) -> float | str:
    """What a function returns for a row, or why the row has no value.

    Raises:
        MeasureError: It returned something that is not a number.
    """
    value = custom_function(address)(row)
    if value is None:
        return f"{address} returned None"
    if isinstance(value, str | bytes) or not hasattr(value, "__float__"):
        raise MeasureError(f"{address} returned {value!r:.80}, not a number, true, false or None")
    return float(value)


def column_value(row: Row, column: str) -> float | str:
    """The number in a column of a row, or why there is none.

    Raises:
        MeasureError: The column holds something that is not a number.
    """
    value = row.metadata.get(column)
    if value is None or (isinstance(value, str) and not value.strip()):
        return f"the row has no value in the column {column!r}"
    if isinstance(value, int | float):
        number = float(value)
    elif isinstance(value, str):
        number = _number(value.strip())
    else:
        number = math.nan
    if not math.isfinite(number):
        raise MeasureError(
            f"the column {column!r} holds {value!r:.80}, not a number, true or false"
        )
    return number


def _number(text: str) -> float:
    try:
        return _WORDS[text.lower()] if text.lower() in _WORDS else float(text)
    except ValueError:
        return math.nan


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
