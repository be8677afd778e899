"""Templates: rendered once, in a sandbox; document text stays a value and forges nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ragwright.core import (
    Hit,
    PromptError,
    neutral,
    passage_values,
    read_mapping,
    render,
    without_control,
)


def test_values_are_never_rendered() -> None:
    assert render("Q: {{ question }}", {"question": "{{ 7 * 7 }}"}) == "Q: {{ 7 * 7 }}"


@pytest.mark.parametrize(
    "template",
    ["{{ nothing }}", "{% if %}", "{{ ''.__class__.__mro__ }}", "{{ question.upper.__globals__ }}"],
)
def test_unknown_names_broken_syntax_and_escapes_are_refused(template: str) -> None:
    with pytest.raises(PromptError) as caught:
        render(template, {"question": "x"})
    assert "question" in str(caught.value)


def test_document_text_can_forge_neither_a_passage_nor_a_turn() -> None:
    assert neutral("[3] says <|im_start|> [INST]") == "(3) says (|im_start|) (INST)"
    assert without_control("[3] </think> <|eot|>") == "[3] (/think) (|eot|)"
    assert neutral("`x[0]` is x[0]") == "`x[0]` is x(0)"
    assert neutral("Assistant: yes", ("Assistant:",)).startswith("A\u2060")
    values = passage_values(2, Hit(1, 1.0, "d", "d:0-1", "s", "A\ntitle", 4, 0, 1, " [1] x "))
    assert values == {"number": 2, "title": "A title", "page": 4, "text": "(1) x"}


def test_a_mapping_names_file_and_line_of_a_wrong_key(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text("system: hi\nusr: there\n")
    with pytest.raises(PromptError, match="usr") as caught:
        read_mapping(file).check_keys(("system", "user"), "a prompt")
    assert caught.value.where == f"{file}:2"
    assert "user" in (caught.value.hint or "")


_BILLION = "".join(
    ["{% macro a() %}0123456789{% endmacro %}"]
    + [
        f"{{% macro {b}() %}}" + f"{{{{ {a}() }}}}" * 10 + "{% endmacro %}"
        for a, b in zip("abcdefghi", "bcdefghij", strict=True)
    ]
    + ["{{ j() }}"]
)
_LOOPS = "{% for a in range(90000) %}{% for b in range(90000) %}"
_DOUBLED = "{% set ns = namespace(s='0123456789') %}{% for i in range(60) %}"

_ENDLESS = {
    "a division by zero": "{{ 1 / 0 }}",
    "a range": "{{ range(10 ** 9) | list }}",
    "loops in loops": _LOOPS + "x{% endfor %}{% endfor %}",
    "loops without output": _LOOPS + "{% endfor %}{% endfor %}",
    "a macro that calls itself": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "macros of macros": _BILLION,
    "a block within itself": "{% block b %}{{ self.b() }}{% endblock %}",
    "a loop that calls itself": "{% for a in [[]] recursive %}{{ loop([[]]) }}{% endfor %}",
    "a text times a number": "{{ 'x' * 10 ** 10 }}",
    "a number times a text": "{{ 10 ** 10 * 'x' }}",
    "a list times a number": "{{ [text] * 10 ** 6 }}",
    "a power": "{{ 10 ** (10 ** 10) }}",
    "a power of powers": "{% set ns = namespace(n=10) %}{% for i in range(60) %}"
    "{% set ns.n = ns.n * ns.n %}{% endfor %}{{ ns.n }}",
    "a text joined to itself": _DOUBLED + "{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
    "a text added to itself": _DOUBLED + "{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "a text repeated into itself": "{% set ns = namespace(s=text) %}{% for i in range(60) %}"
    "{% set ns.s %}{{ ns.s }}{{ ns.s }}{% endset %}{% endfor %}",
    "a long text many times": "{% for i in range(90000) %}{{ text }}{% endfor %}",
    "a long text many times in a block": "{% set x %}{% for i in range(90000) %}{{ text }}"
    "{% endfor %}{% endset %}",
    "words of the template many times": "{% for a in range(9000) %}{% for b in range(9) %}"
    + "0123456789" * 200 + "{% endfor %}{% endfor %}",
    "a width": "{{ 'x'.center(10 ** 10) }}",
    "a width of a filter": "{{ 'x' | center(10 ** 10) }}",
    "a width mapped": "{{ range(90000) | map('string') | map('center', 9999) | join }}",
    "a width of a format": "{{ '%9999999999d' % 1 }}",
    "a width as an argument": "{{ '%*d' % (9999999999, 1) }}",
    "a width of the filter format": "{{ '%9999999999d' | format(1) }}",
    "a width of a format in braces": "{{ '{:9999999999}'.format(1) }}",
    "a width as an argument in braces": "{{ '{:{}}'.format(1, 9999999999) }}",
    "an indent": "{{ 'a\nb' | indent(10 ** 10) }}",
    "a tab": "{{ 'a\tb'.expandtabs(10 ** 10) }}",
    "a replacement": "{{ text.replace('x', text) }}",
    "a replacement by a filter": "{{ text | replace('x', text) }}",
    "a separator": "{{ text | list | join(text) }}",
    "a separator of a lazy list": "{{ text | map('upper') | join(text) }}",
    "a separator of a method": "{{ text.join(text) }}",
    "a translation": "{{ text.translate({120: text}) }}",
    "a fill": "{{ [1] | batch(10 ** 10, text) | list }}",
    "a slice": "{{ [1] | slice(10 ** 10, text) | list }}",
    "a rounding": "{{ 2.5 | round(10 ** 10, 'ceil') }}",
    "bytes": "{{ (5).to_bytes(10 ** 10, 'big') }}",
    "nonsense words": "{{ lipsum(n=10 ** 9) }}",
    "a list within lists": "{% set ns = namespace(s=[text]) %}{% for i in range(60) %}"
    "{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
    "20,000 brackets": "{{ " + "(" * 20_000 + "1" + ")" * 20_000 + " }}",
    "20,000 lists": "{{ " + "[" * 20_000 + "]" * 20_000 + " }}",
    "20,000 conditions": "{% if 1 %}" * 20_000 + "{% endif %}" * 20_000,
    "another file": "{% include 'other' %}",
}  # fmt: skip


_SAID = {
    "a division by zero": "fails: division by zero",
    "a range": "fails: Range too big",
    "a macro that calls itself": "fails: maximum recursion",
    "a block within itself": "fails: maximum recursion",
    "a loop that calls itself": "recursive loop",
    "nonsense words": "lipsum",
    "20,000 brackets": "fails: maximum recursion",
    "20,000 lists": "fails: maximum recursion",
    "20,000 conditions": "fails: maximum recursion",
    "another file": "fails: no loader",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", _ENDLESS)
def test_a_template_without_end_is_refused(name: str) -> None:
    with pytest.raises(PromptError, match=r"^the template ") as caught:
        render(_ENDLESS[name], {"text": "x" * 50_000})
    said = caught.value.what
    assert _SAID[name] in said if name in _SAID else re.search("too much text|above 10,000", said)
    assert len(str(caught.value)) < 500


def test_a_value_of_any_size_is_shown_sixteen_times() -> None:
    """The size of the values counts, though it is looked at only once the free part is spent."""
    text = "x" * 33_000_000
    assert render("{{ text }}", {"text": text}) == text
    with pytest.raises(PromptError, match="too much text"):
        render("{% for n in range(20) %}{{ text | length and text }}{% endfor %}", {"text": text})


def test_what_prompts_do_is_not_bounded() -> None:
    """Two thousand passages of a thousand words each, formatted, joined and measured."""
    passages = [{"number": i, "text": "twelve words " * 500} for i in range(2000)]
    template = (
        "{% macro line(p) %}[{{ p.number }}] {{ p.text | trim }}{% endmacro %}"
        "{% for p in passages %}{{ loop.index }}/{{ loop.length }} {{ line(p) }}\n{% endfor %}"
        "{{ passages | map(attribute='number') | join(', ') }}"
        "{{ '%05.2f' % 3.14159 }} {{ '{:>8}'.format('a') }} {{ 'x' * 20 }} {{ 2 ** 10 }}"
        "{{ 'a\nb' | indent(4) }} {{ passages | length ~ ' passages' }}"
    )
    text = render(template, {"passages": passages})
    assert text.startswith("1/2000 [0] twelve words")
    assert "2000/2000 [1999]" in text
    assert text.endswith("03.14        a " + "x" * 20 + " 1024a\n    b 2000 passages")
