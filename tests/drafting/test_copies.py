"""Replies as models write them, the texts they hold, and near copies among those."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given, strategies as st

from ragwright.drafting import copies_among, shares_before, split_reply

GUESSED = "unsure: split at blank lines or line ends"
UNSPLIT = "not split: the reply shows no list"

ABC = ["Vote now.", "Chip in $5.", "Rush your name!"]
A, B, C = ABC
TWELVE = [f"Text {n}!" for n in range(1, 13)]


def numbered(form: str, texts: list[str] = ABC, gap: str = "\n") -> str:
    return gap.join(form.format(n=n, t=text) for n, text in enumerate(texts, 1))


FORMS = [
    "[{n}] {t}", "**{n}**. {t}", "**{n}. {t}**", "*{n}.* {t}", "#{n}. {t}", "{n}: {t}",
    "{n} - {t}", "### {n}. {t}", "{n}.\n{t}", "* {t}", "• {t}",
    "– {t}", "+ {t}", '{n}. "{t}"', "{n}. “{t}”", "{n}. « {t} »",
    "{n}. „{t}“", "{n}. '{t}'", "{n}. `{t}`", '{n}. **"{t}"**', "**Message {n}:** {t}",
    "Draft #{n}: {t}", "{n}. {t} (9 characters)",
    "{n}. {t} [~20 chars]", "{n}. {t} - 14 characters",
]  # fmt: skip
SPACED = ["## {n}.\n{t}", "- {t}", "**Option {n}**\n{t}", '{n}. "{t}"\n(12 characters)']

SURE: dict[str, tuple[str, list[str]]] = {
    **{form: (numbered(form), ABC) for form in FORMS},
    **{f"{form}, blank lines": (numbered(form, gap="\n\n"), ABC) for form in SPACED},
    "Arabic digits": (f"١. {A}\n٢. {B}\n٣. {C}", ABC),
    "Devanagari digits": (f"१) {A}\n२) {B}\n३) {C}", ABC),
    "preamble": (f"Sure! Here are 3 texts:\n\n{numbered('{n}. {t}')}", ABC),
    "preamble without a colon": (f"Here are your texts.\n{numbered('{n}) {t}')}", ABC),
    "preamble in another language": (f"Voici trois messages :\n{numbered('{n}. {t}')}", ABC),
    "preamble, bold": (f"**Texts for Jane Doe:**\n\n{numbered('{n}. {t}')}", ABC),
    "closing": (f"{numbered('{n}. {t}')}\n\nLet me know if you want changes!", ABC),
    "preamble and closing": (f"Certainly!\n\n{numbered('- {t}')}\n\nWould you like more?", ABC),
    "several lines": (f"1. {A}\nToday.\n2. {B}\n3. {C}", [f"{A}\nToday.", B, C]),
    "indented lines": (f"1. {A}\n   Today.\n2. {B}\n3. {C}", [f"{A}\nToday.", B, C]),
    "blank line within": (f"1. {A}\n\nToday.\n\n2. {B}\n\n3. {C}", [f"{A}\n\nToday.", B, C]),
    "list within": (f"1. {A}\n  - soon\n  - mail\n2. {B}\n3. {C}", [f"{A}\n- soon\n- mail", B, C]),
    "numbers within": (f"1. 2. of 3\n2. 7 days. 3 go.\n3. {C}", ["2. of 3", "7 days. 3 go.", C]),
    "a line with a year": (f"1. {A}\n2024 it is.\n2. {B}\n3. {C}", [f"{A}\n2024 it is.", B, C]),
    "a time": (f"1. {A}\n5:30 tonight\n2. {B}\n3. {C}", [f"{A}\n5:30 tonight", B, C]),
    "emphasis within": (f"1. **Vote** now.\n2. {B}\n3. {C}", ["**Vote** now.", B, C]),
    "quotes within": (f'1. "No" is "no".\n2. {B}\n3. {C}', ['"No" is "no".', B, C]),
    "apostrophes": (f"1. Don't wait, it's on.\n2. {B}\n3. {C}", ["Don't wait, it's on.", B, C]),
    "a link": (f"1. See https://x.org/1\n2. {B}\n3. {C}", ["See https://x.org/1", B, C]),
    "fence": (f"```\n{numbered('{n}. {t}')}\n```", ABC),
    "fence with remarks": (f"Sure:\n\n```text\n{numbered('{n}. {t}')}\n```\nLet me know!", ABC),
    "Windows lines": (numbered("{n}. {t}").replace("\n", "\r\n"), ABC),
    "fewer": (f"1. {A}\n2. {B}", [A, B]),
    "one of three": (f"1. {A}", [A]),
    "more": (numbered("{n}. {t}", [*ABC, "More."]), [*ABC, "More."]),
    "an empty one": (f"1. {A}\n2.\n3. {C}", [A, C]),
    "from zero": (f"0. {A}\n1. {B}\n2. {C}", ABC),
    "empty": ("", []),
    "blank": (" \n\t\n", []),
}  # fmt: skip

OPEN: dict[str, tuple[str, list[str], str]] = {
    "in one line": (f"1. {A} 2. {B} 3. {C}", [f"{A} 2. {B} 3. {C}"], ""),
    "paragraphs": (f"{A}\n\n{B}\n\n{C}", ABC, GUESSED),
    "rules": (f"{A}\n---\n{B}\n---\n{C}", ABC, GUESSED),
    "lines": (f"{A}\n{B}\n{C}", ABC, GUESSED),
    "no list": (f"{A} {B}", [f"{A} {B}"], UNSPLIT),
    "other paragraphs": (f"{A}\n\n{B}", [f"{A}\n\n{B}"], UNSPLIT),
    "a number twice": (f"1. {A}\n1. early\n2. {B}\n3. {C}", [f"{A}\n1. early", B, C], ""),
    "a line with a date": (f"1. {A}\n12. of May\n2. {B}", [f"{A}\n12. of May", B], ""),
    "a number left out": (f"1. {A}\n3. {C}", [A, C], ""),
    "beginning again": (f"1. {A}\n2. {B}\n1. {C}", [A, f"{B}\n1. {C}"], ""),
    "the first has none": (f"{A}\n\n2. {B}\n3. {C}", ABC, ""),
    "a last paragraph": (f"1. {A}\n2. {B}\n\nPaid by J.", [A, f"{B}\n\nPaid by J."], ""),
}

ONE: dict[str, tuple[str, list[str]]] = {
    "bare": (A, [A]),
    "quoted": (f'"{A}"', [A]),
    "announced": (f"Sure! Here is a text:\n\n{A}", [A]),
    "announced in a line": (f"Here's the message:\n{A}", [A]),
    "numbered": (f"1. {A}", [A]),
    "labelled": (f"**Text 1:** {A}", [A]),
    "paragraphs": (f"{A}\n\n{B}", [f"{A}\n\n{B}"]),
    "a colon of its own": (f"Breaking:\n\n{A}", [f"Breaking:\n\n{A}"]),
    "closed": (f"{A}\n\nLet me know if it fits.", [A]),
    "counted": (f"{A}\n\n(Character count: 9)", [A]),
    "fence": (f"```\n{A}\n```", [A]),
    "a dash": (f"- {A}", [A]),
    "bold": (f"**{A}**", [A]),
    "interjection": (f"Certainly!\n\n{A}", [A]),
    "a text that opens like a reply": (
        f"Okay, we need you!\n\n{A}",
        [f"Okay, we need you!\n\n{A}"],
    ),
    "a text that closes like one": (f"{A}\n\nRemember to vote.", [f"{A}\n\nRemember to vote."]),
    "sorry in a text": ("I'm sorry I missed you. Vote now.", ["I'm sorry I missed you. Vote now."]),
}

REFUSED = [
    "I'm sorry, but I can't help with that.",
    "I cannot write political messages.",
    "As an AI language model, I am unable to create campaign content.",
    "I apologize, but I won't produce texts that put pressure on donors.",
    "Unfortunately, I'm not able to write these.",
    "Es tut mir leid, ich kann dabei nicht helfen.",
]


CASES = {
    **{f"list: {name}": (reply, 3, texts, "") for name, (reply, texts) in SURE.items()},
    **{f"open: {name}": (reply, 3, texts, doubt) for name, (reply, texts, doubt) in OPEN.items()},
    **{f"one: {name}": (reply, 1, texts, "") for name, (reply, texts) in ONE.items()},
    "two digits": (numbered("{n}. {t}", TWELVE), 12, TWELVE, ""),
    "refuses in part": ("I can't draft it all, so:\n1. Vote.\n2. Go.", 2, ["Vote.", "Go."], ""),
}


@pytest.mark.parametrize("name", CASES)
def test_the_texts_of_a_reply_and_their_doubt(name: str) -> None:
    reply, wanted, texts, doubt = CASES[name]
    if name in ("list: empty", "list: blank"):
        doubt = UNSPLIT
    assert split_reply(reply, wanted) == (texts, doubt, "")


@pytest.mark.parametrize("wanted", [1, 3])
@pytest.mark.parametrize("reply", REFUSED)
def test_refusals(reply: str, wanted: int) -> None:
    texts, _, refusal = split_reply(reply, wanted)
    assert (texts, bool(refusal)) == ([], True)


WORD = st.text("abcdefgh", min_size=1, max_size=8)
TEXT = st.lists(WORD, min_size=2, max_size=8).map(" ".join)
FORM = st.sampled_from(
    ["{n}. {t}", "{n}) {t}", "({n}) {t}", "**{n}.** {t}", "Text {n}: {t}", "- {t}"]
)


@given(st.lists(TEXT, min_size=2, max_size=9), FORM, st.sampled_from(["\n", "\n\n"]))
def test_every_list_comes_back(texts: list[str], form: str, gap: str) -> None:
    assert split_reply(numbered(form, texts, gap), len(texts)) == (texts, "", "")


@given(st.text(max_size=200), st.integers(1, 6))
def test_any_reply_is_taken_apart(reply: str, wanted: int) -> None:
    for text in split_reply(reply, wanted)[0]:
        assert text.strip() == text != ""


# -- near copies ---------------------------------------------------------------------------------

MESSAGE = "Friend, the clinic on Elm Street closes tonight. Will you chip in $5?"


def containment(one: str, other: str) -> float:
    """Share of the n-grams of the shorter text that are in the other one."""
    return float(next(shares_before([one, other], 1))[0])


def slow(one: str, other: str) -> float:
    """Containment as it reads, letter by letter."""

    def grams(text: str) -> set[str]:
        folded = unicodedata.normalize("NFKC", text).casefold()
        plain = " ".join(re.sub(r"[\W_]+", " ", folded).split())
        return {plain[i : i + 4] for i in range(len(plain)) if len(plain[i : i + 4]) == 4}

    a, b = grams(one), grams(other)
    small = a if len(a) <= len(b) else b
    if len(small) < 20:
        return -1.0
    return sum(gram in a and gram in b for gram in small) / len(small)


@given(st.text("abc d.É!", max_size=80), st.text("abc d.É!", max_size=80))
def test_as_the_definition_reads(one: str, other: str) -> None:
    expected = slow(one, other)
    found = containment(one, other)
    assert found == containment(other, one)
    assert found == (expected if expected >= 0 else found)
    assert found in (0.0, 1.0) or expected >= 0


@pytest.mark.parametrize(
    ("one", "other", "low", "high"),
    [
        (MESSAGE, MESSAGE.upper().replace(",", " -- ").replace(" ", "\n"), 1.0, 1.0),
        (MESSAGE, f"Hello! {MESSAGE} Reply STOP.", 1.0, 1.0),
        (MESSAGE, "Schools need teachers, and teachers need a raise this year.", 0.0, 0.2),
        # short texts are copies only where they are equal
        ("Chip in now", "Please chip in now, friend, before midnight!", 0.0, 0.0),
        ("Chip in now", "CHIP IN, NOW!", 1.0, 1.0),
        ("", "", 0.0, 0.0),
        ("!!", "??", 0.0, 0.0),
    ],
)
def test_case_punctuation_and_spaces_do_not_count(
    one: str, other: str, low: float, high: float
) -> None:
    assert low <= containment(one, other) <= high


def test_the_nearest_is_named_once_in_examples_and_texts_before() -> None:
    others = [("record:1", "Other words altogether, about schools."), ("record:2", MESSAGE)]
    [found] = copies_among([MESSAGE + " Now!"], others, 0.7)
    assert found == ("near copy of record:2 (1.00)",)
    assert copies_among([MESSAGE], others[:1], 0.7) == [()]
    assert copies_among([], others, 0.7) == []
    *none, [last] = copies_among([MESSAGE, "Schools need teachers.", MESSAGE.upper()], [], 0.7)
    assert (none, last) == ([(), ()], "near copy of text 1 (1.00)")
