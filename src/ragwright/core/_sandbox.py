"""Jinja2's sandbox with bounds on the output and the work of a template.

The sandbox of jinja2 keeps a template away from Python, but not from ``'x' * 10 ** 10`` or from
loops in loops. Here every step of a template, and every text and list that it makes, is charged to
an allowance: loops by the iteration, outputs, operators, filters and calls by the size of their
inputs and results. Steps that can make large results from small inputs (a width, a factor, a
replacement) are estimated before they run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from contextvars import ContextVar
from functools import partial, wraps
from typing import Any

from ._errors import PromptError

_STEP = 32
"""Charge for a step; a character is 1. Bounds the time of steps without output."""

_FREE = 32_000_000
"""Characters that any template may make."""

_TIMES = 16
"""Multiple of the size of the values that is added to it."""

_BITS = 4_000
"""Longest whole number; Python prints no more than 4,300 digits."""

_WIDEST = 10_000
"""Largest width, indent or number of decimals."""

_LAZY = frozenset(
    {
        "attr",
        "count",
        "d",
        "default",
        "first",
        "items",
        "last",
        "length",
        "map",
        "reject",
        "rejectattr",
        "select",
        "selectattr",
    }
)
"""Filters that read nothing of their input, or read it piece by piece."""

_WIDTHS = frozenset(
    {
        "batch",
        "center",
        "expandtabs",
        "indent",
        "ljust",
        "pprint",
        "rjust",
        "round",
        "slice",
        "to_bytes",
        "tojson",
        "wordwrap",
        "zfill",
    }
)
"""Filters and methods that take a width."""

_LONGEST_SEPARATOR = 100

_WIDE = re.compile(r"%[^a-zA-Z%]*(?:\d{5}|\*)|\{[^{}]*(?:\d{5}|\{)")
"""A format with a width of five digits or one from an argument."""


class _Allowance:
    """The remaining allowance of a render, in characters.

    What the values add to it is counted only once the rest is spent: hardly any template does.
    """

    __slots__ = ("_left", "_values")

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._left = _FREE
        self._values: Mapping[str, Any] | None = values

    def spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            self._extend()
            if self._left < 0:
                raise _too_much()

    def size(self, value: Any) -> int:
        """Approximate characters of a value; counting ends above what is left."""
        characters = _size(value, self._left)
        if characters > self._left and self._values is not None:
            self._extend()
            characters = _size(value, self._left)
        return characters

    def _extend(self) -> None:
        values, self._values = self._values, None
        if values is not None:
            self._left += _TIMES * _size(values, 1 << 30)


_allowance: ContextVar[_Allowance] = ContextVar("allowance")


def rendered(template: Any, values: Mapping[str, Any]) -> str:
    """The text of a template that :func:`sandbox` has compiled.

    Raises:
        PromptError: It exceeds the allowance.
        Exception: Whatever an expression in it raises.
    """
    token = _allowance.set(_Allowance(values))
    try:
        text: str = template.render(values)
    finally:
        _allowance.reset(token)
    return text


def sandbox() -> Any:
    """An environment whose templates are rendered by :func:`rendered`."""
    from jinja2 import StrictUndefined, pass_context
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    # No HTML is made here, so nothing is escaped: a model must see the text as it is. Nothing is
    # evaluated while compiling, before there is an allowance: hence `optimized` and `finalize`
    # with a context.
    environment: Any = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined,
        autoescape=False,
        optimized=False,
        finalize=pass_context(lambda context, value: _counted(value)),
    )
    environment.intercepted_binops = frozenset(environment.default_binop_table)
    environment.call_binop = partial(_operator, environment.call_binop)
    environment.call = partial(_call, environment.call)
    environment._parse = partial(_parsed, environment._parse)
    for name, function in environment.filters.items():
        environment.filters[name] = _bounded(name, function)
    environment.filters[_LOOP] = _steps
    environment.filters[_JOINED] = lambda parts: "".join(str(_counted(part)) for part in parts)
    return environment


_LOOP = "of the loop"
_JOINED = "joined"  # neither name can be written in a template


def _parsed(parse: Callable[..., Any], source: str, name: Any, filename: Any) -> Any:
    """The tree of a template in which loops, text and ``~`` go through our own filters."""
    from jinja2 import nodes

    tree = parse(source, name, filename)

    def through(name: str, node: Any) -> Any:
        return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)

    for loop in tree.find_all(nodes.For):
        if loop.recursive:
            raise PromptError("the template has a recursive loop", hint="write loops in loops")
        loop.iter = through(_LOOP, loop.iter)
    for output in tree.find_all(nodes.Output):
        output.nodes = [
            nodes.Const(part.data, lineno=part.lineno)
            if isinstance(part, nodes.TemplateData)
            else part
            for part in output.nodes
        ]
    return _Joins(through).visit(tree)


class _Joins:
    """Puts every ``a ~ b`` of a tree through the filter that counts its parts."""

    def __init__(self, through: Callable[[str, Any], Any]) -> None:
        self._through = through

    def visit(self, node: Any) -> Any:
        from jinja2 import nodes

        for name, value in node.iter_fields():
            if isinstance(value, nodes.Node):
                setattr(node, name, self.visit(value))
            elif isinstance(value, list):
                value[:] = [self.visit(v) if isinstance(v, nodes.Node) else v for v in value]
        if isinstance(node, nodes.Concat):
            return self._through(_JOINED, nodes.List(node.nodes, lineno=node.lineno))
        return node


def _steps(values: Any) -> Iterator[Any]:
    """The values of a loop, each charged as a step."""
    for value in values:
        _allowance.get().spend(_STEP)
        yield value


def _counted(value: Any) -> Any:
    """A value that becomes text, charged by its whole content."""
    allowance = _allowance.get()
    allowance.spend(_STEP + allowance.size(value))
    return value


def _charged_result(value: Any) -> Any:
    """The result of a step, charged; a lazy list is charged as it is read."""
    if isinstance(value, Iterator):
        return (_charged_result(item) for item in value)
    size = len(value) if isinstance(value, str | bytes) else 8 * _length(value)
    _allowance.get().spend(_STEP + size)
    return value


def _operator(plain: Callable[..., Any], context: Any, sign: str, left: Any, right: Any) -> Any:
    if sign == "*":
        for whole, times in ((left, right), (right, left)):
            if isinstance(times, int) and isinstance(whole, str | bytes | list | tuple):
                _allowance.get().spend(max(times, 0) * max(1, _allowance.get().size(whole)))
    elif sign == "**" and isinstance(left, int) and isinstance(right, int):
        if left.bit_length() * right > _BITS:
            raise _too_much()
    elif sign == "%" and isinstance(left, str | bytes):
        _check_format(left)
        _counted(right)
    result = plain(context, sign, left, right)
    if isinstance(result, int) and result.bit_length() > _BITS:
        raise _too_much()
    return _charged_result(result)


def _call(plain: Callable[..., Any], context: Any, function: Any, *args: Any, **named: Any) -> Any:
    method = getattr(function, "__wrapped__", function)  # the sandbox wraps str.format
    owner = getattr(method, "__self__", None)
    if isinstance(owner, str | bytes | int):  # their methods read and repeat what they are given
        _check(method.__name__, owner, args, named)
    elif function is context.environment.globals["lipsum"]:
        raise PromptError("the template calls lipsum, which prompts may not use")
    return _charged_result(plain(context, function, *args, **named))


def _bounded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter that charges what it reads and makes."""
    value_at = 1 if hasattr(function, "jinja_pass_arg") else 0  # a context before the value

    @wraps(function)
    def bounded(*args: Any, **named: Any) -> Any:
        if name not in _LAZY:
            _check(name, args[value_at], args[value_at + 1 :], named)
        return _charged_result(function(*args, **named))

    return bounded


def _check(name: str, owner: Any, args: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Charge the result of a filter or method that can make more than it reads.

    Raises:
        PromptError: A width is too large, or the result would exceed the allowance.
    """
    allowance = _allowance.get()
    arguments = [*args, *named.values()]
    read = allowance.size([owner, *arguments])
    allowance.spend(_STEP + read)
    if name in ("format", "format_map"):
        _check_format(owner)
    elif name in _WIDTHS:
        if any(isinstance(value, int) and value > _WIDEST for value in arguments):
            raise PromptError(f"the template gives {name} a number above {_WIDEST:,}")
        lines = 1 + sum(owner.count(c) for c in "\n\t") if isinstance(owner, str) else 1
        factors = [value if isinstance(value, int) else _size(value, read) for value in arguments]
        allowance.spend(lines * sum(abs(factor) for factor in factors))
    elif name in _PLACES:
        allowance.spend(_PLACES[name](owner, arguments))


def _joined_by(owner: Any, arguments: Sequence[Any]) -> int:
    """Characters of separators: the filter has the list first, the method of a text second."""
    pair = [owner, *arguments[:1]]
    separator = min((len(part) for part in pair if isinstance(part, str)), default=0)
    lists = [len(part) for part in pair if isinstance(part, Sized)]
    if len(lists) < len(pair) and separator > _LONGEST_SEPARATOR:
        raise _too_much()  # a lazy list: its length is not known
    return max(lists, default=0) * separator


def _replaced_by(owner: Any, arguments: Sequence[Any]) -> int:
    """Characters that a replacement inserts."""
    replacements = str(owner).count(str(arguments[0])) if arguments else 0
    return replacements * _size(arguments[1:2], _FREE)


_PLACES: Mapping[str, Callable[[Any, Sequence[Any]], int]] = {
    "join": _joined_by,
    "replace": _replaced_by,
    "translate": lambda owner, arguments: len(owner) * _size(arguments, _FREE),
}
"""Filters and methods that insert a text in many places, and how many characters they add."""


def _check_format(text: str | bytes) -> None:
    shown = text if isinstance(text, str) else text.decode("latin-1")
    if _WIDE.search(shown):
        raise PromptError(
            f"the template formats with a width above {_WIDEST:,}, or one from a value"
        )


def _length(value: Any) -> int:
    return len(value) if isinstance(value, str | bytes | list | tuple | dict | set | range) else 0


def _size(value: Any, most: int) -> int:
    """Approximate characters of a value and its content; counting ends above ``most``."""
    total = 0
    waiting = [value]
    while waiting and total <= most:
        item = waiting.pop()
        if isinstance(item, str | bytes):
            total += len(item)
        elif isinstance(item, Mapping):
            total += 8 * len(item)
            waiting += item.values()
        elif isinstance(item, list | tuple | set | range):
            total += 8 * len(item)
            waiting += () if isinstance(item, range) else item
        else:
            total += 8
    return total


def _too_much() -> PromptError:
    return PromptError(
        "the template makes too much text, or takes too many steps",
        hint="shorten its loops, factors and repetitions",
    )
