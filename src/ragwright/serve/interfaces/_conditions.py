"""Conditions of other programs as our filters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from ...core import Filter, prefix_filter
from .._errors import ApiError
from .._wire import Body

Value: TypeAlias = str | int | float | bool


class Comparison(Body):
    """OpenAI's comparison of one attribute."""

    type: Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin"]
    key: Annotated[str, Field(min_length=1, max_length=200)]
    value: Value | list[Value]


class Compound(Body):
    """OpenAI's combination of conditions."""

    type: Literal["and", "or"]
    filters: list[Comparison | Compound] = Field(min_length=1, max_length=32)


def filters_of(condition: Comparison | Compound | None) -> tuple[Filter, ...]:
    """The hard filters of a condition, all of which a passage must meet.

    Raises:
        ApiError: 400; conditions of several attributes are joined by ``or``.
    """
    if condition is None:
        return ()
    if isinstance(condition, Comparison):
        return _compared(condition)
    parts = [filters_of(part) for part in condition.filters]
    if condition.type == "and" or len(parts) == 1:
        return tuple(single for part in parts for single in part)
    if any(len(part) != 1 for part in parts):
        raise _not_one_attribute()
    return (_either([single for part in parts for single in part]),)


def _compared(condition: Comparison) -> tuple[Filter, ...]:
    values = condition.value if isinstance(condition.value, list) else [condition.value]
    operator = {"eq": "=", "in": "=", "ne": "!=", "nin": "!="}.get(condition.type)
    if operator is None:
        operator = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}[condition.type]
    return compared(condition.key, operator, values)


def compared(name: str, operator: str, values: Sequence[Value]) -> tuple[Filter, ...]:
    """The hard filters of a comparison: ``=``, ``!=``, ``>``, ``>=``, ``<``, ``<=`` or ``^``.

    ``^`` asks for values that begin so.

    Raises:
        ApiError: 400; a bound that is several values, or true or false.
    """
    if operator in ("=", "!="):
        return (Filter(name, tuple(values), exclude=operator == "!="),)
    if len(values) != 1 or isinstance(values[0], bool):
        raise ApiError(
            400, f"{name}: compare it with one number or text", "invalid_filter", param="filters"
        )
    bound = values[0]
    if operator == "^":
        return (prefix_filter(name, str(bound)),)
    low, high = (bound, None) if operator.startswith(">") else (None, bound)
    within = Filter(name, (), low, high)
    # Bounds of ours are inclusive.
    return (within,) if operator.endswith("=") else (within, Filter(name, (bound,), exclude=True))


def _not_one_attribute() -> ApiError:
    return ApiError(
        400,
        "`or` joins values of one attribute; send other alternatives as requests of their own",
        "invalid_filter",
        param="filters",
    )


def _either(alternatives: Sequence[Filter]) -> Filter:
    """Alternatives as one filter, where all of them name values of one attribute."""
    names = {single.field for single in alternatives}
    plain = all(single.values and not single.exclude for single in alternatives)
    if len(names) != 1 or not plain:
        raise _not_one_attribute()
    values = dict.fromkeys(value for single in alternatives for value in single.values)
    return Filter(names.pop(), tuple(values))
