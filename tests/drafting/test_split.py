"""Replies as models write them, and the texts they hold."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from ragwright.drafting import split_reply

AT_BLANKS = "unsure: split at blank lines"
AT_LINES = "unsure: split at line ends"
LOOSE_START = "unsure: its first line may be a remark"
LOOSE_END = "unsure: its end may be a remark"
NO_LIST = "not split: the reply shows no list"
NUMBERS = "unsure: the numbers of the list do not count up by one"

ABC = ["Vote now.", "Chip in $5.", "Rush your name!"]
A, B, C = ABC
TWELVE = [f"Text {n}!" for n in range(1, 13)]


def numbered(form: str, texts: list[str] = ABC, gap: str = "\n") -> str:
    return gap.join(form.format(n=n, t=text) for n, text in enumerate(texts, 1))


SURE: dict[str, tuple[str, list[str]]] = {
    "dots": (numbered("{n}. {t}"), ABC),
    "dots, blank lines": (numbered("{n}. {t}", gap="\n\n"), ABC),
    "bracket": (numbered("{n}) {t}"), ABC),
    "brackets": (numbered("({n}) {t}"), ABC),
    "square brackets": (numbered("[{n}] {t}"), ABC),
    "bold number": (numbered("**{n}.** {t}"), ABC),
    "bold number, dot outside": (numbered("**{n}**. {t}"), ABC),
    "bold all": (numbered("**{n}. {t}**"), ABC),
    "italic number": (numbered("*{n}.* {t}"), ABC),
    "hash, dot": (numbered("#{n}. {t}"), ABC),
    "colon": (numbered("{n}: {t}"), ABC),
    "dash after": (numbered("{n} - {t}"), ABC),
    "heading": (numbered("### {n}. {t}"), ABC),
    "heading, text below": (numbered("## {n}.\n{t}", gap="\n\n"), ABC),
    "number alone on its line": (numbered("{n}.\n{t}"), ABC),
    "dashes": (numbered("- {t}"), ABC),
    "stars": (numbered("* {t}"), ABC),
    "bullets": (numbered("• {t}"), ABC),
    "en dashes": (numbered("– {t}"), ABC),
    "plus": (numbered("+ {t}"), ABC),
    "bullets, blank lines": (numbered("- {t}", gap="\n\n"), ABC),
    "quotes": (numbered('{n}. "{t}"'), ABC),
    "curly quotes": (numbered("{n}. “{t}”"), ABC),
    "guillemets": (numbered("{n}. « {t} »"), ABC),
    "German quotes": (numbered("{n}. „{t}“"), ABC),
    "single quotes": (numbered("{n}. '{t}'"), ABC),
    "backticks": (numbered("{n}. `{t}`"), ABC),
    "bold quotes": (numbered('{n}. **"{t}"**'), ABC),
    "labels": (numbered("Text {n}: {t}"), ABC),
    "labels, bold": (numbered("**Message {n}:** {t}"), ABC),
    "labels on their lines": (numbered("**Option {n}**\n{t}", gap="\n\n"), ABC),
    "labels, hash": (numbered("Draft #{n}: {t}"), ABC),
    "Arabic digits": (f"١. {A}\n٢. {B}\n٣. {C}", ABC),
    "Devanagari digits": (f"१) {A}\n२) {B}\n३) {C}", ABC),
    "preamble": (f"Sure! Here are 3 texts:\n\n{numbered('{n}. {t}')}", ABC),
    "preamble without a colon": (f"Here are your texts.\n{numbered('{n}) {t}')}", ABC),
    "preamble in another language": (f"Voici trois messages :\n{numbered('{n}. {t}')}", ABC),
    "preamble, bold": (f"**Texts for Jane Doe:**\n\n{numbered('{n}. {t}')}", ABC),
    "closing": (f"{numbered('{n}. {t}')}\n\nLet me know if you want changes!", ABC),
    "preamble and closing": (f"Certainly!\n\n{numbered('- {t}')}\n\nWould you like more?", ABC),
    "counts": (numbered("{n}. {t} (9 characters)"), ABC),
    "counts, square": (numbered("{n}. {t} [~20 chars]"), ABC),
    "counts, dash": (numbered("{n}. {t} - 14 characters"), ABC),
    "counts below": (numbered('{n}. "{t}"\n(12 characters)', gap="\n\n"), ABC),
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
    "two digits": (numbered("{n}. {t}", TWELVE), TWELVE),
    "JSON": ('["Vote now.", "Chip in $5.", "Rush your name!"]', ABC),
    "JSON with a preamble": ('Here:\n["Vote now.",\n "Chip in $5.", "Rush your name!"]', ABC),
    "JSON of texts": ('{"texts": ["Vote now.", "Chip in $5.", "Rush your name!"]}', ABC),
    "JSON of objects": ('[{"n": 1, "text": "Vote now."}, {"n": 2, "text": "Chip in $5."}]', [A, B]),
    "JSON by number": ('{"1": "Vote now.", "2": "Chip in $5."}', [A, B]),
    "JSON in a fence": ('```json\n["Vote now.", "Chip in $5."]\n```', [A, B]),
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

UNSURE: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "in one line": (f"1. {A} 2. {B} 3. {C}", [(f"{A} 2. {B} 3. {C}", NUMBERS)]),
    "paragraphs": (f"{A}\n\n{B}\n\n{C}", [(A, AT_BLANKS), (B, AT_BLANKS), (C, AT_BLANKS)]),
    "rules": (f"{A}\n---\n{B}\n---\n{C}", [(A, AT_BLANKS), (B, AT_BLANKS), (C, AT_BLANKS)]),
    "lines": (f"{A}\n{B}\n{C}", [(A, AT_LINES), (B, AT_LINES), (C, AT_LINES)]),
    "letters": (
        f"A. {A}\nB. {B}\nC. {C}",
        [(f"A. {A}", AT_LINES), (f"B. {B}", AT_LINES), (f"C. {C}", AT_LINES)],
    ),
    "no list": (f"{A} {B}", [(f"{A} {B}", NO_LIST)]),
    "other paragraphs": (f"{A}\n\n{B}", [(f"{A}\n\n{B}", NO_LIST)]),
    "a number twice": (
        f"1. {A}\n1. early\n2. {B}\n3. {C}",
        [(f"{A}\n1. early", NUMBERS), (B, ""), (C, "")],
    ),
    "a line with a date": (
        f"1. {A}\n12. of May\n2. {B}\n3. {C}",
        [(f"{A}\n12. of May", NUMBERS), (B, ""), (C, "")],
    ),
    "a number left out": (f"1. {A}\n3. {C}", [(A, NUMBERS), (C, NUMBERS)]),
    "a number left out, all there": (
        f"1. {A}\n2. {B}\n4. {C}",
        [(A, ""), (B, NUMBERS), (C, NUMBERS)],
    ),
    "from two": (f"2. {A}\n3. {B}\n4. {C}", [(A, NUMBERS), (B, ""), (C, "")]),
    "beginning again": (f"1. {A}\n2. {B}\n1. {C}", [(A, ""), (f"{B}\n1. {C}", NUMBERS)]),
    "always one": (f"1. {A}\n1. {B}\n1. {C}", [(f"{A}\n1. {B}\n1. {C}", NUMBERS)]),
    "the first has none": (f"{A}\n\n2. {B}\n3. {C}", [(A, NUMBERS), (B, NUMBERS), (C, "")]),
    "a last paragraph": (
        f"1. {A}\n2. {B}\n3. {C}\n\nPaid for by Jane.",
        [(A, ""), (B, ""), (f"{C}\n\nPaid for by Jane.", LOOSE_END)],
    ),
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
    "JSON": ('{"text": "Vote now."}', [A]),
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

ONE_UNSURE: dict[str, tuple[str, str]] = {
    "may announce": (f"Here's what is at stake:\n\n{A}", LOOSE_START),
    "may close": (f"{A}\n\nLet me know that you are in.", LOOSE_END),
}


@pytest.mark.parametrize("name", ONE_UNSURE)
def test_what_may_be_a_remark_stays_and_is_marked(name: str) -> None:
    reply, mark = ONE_UNSURE[name]
    assert [(part.text, part.mark) for part in split_reply(reply).parts] == [(reply, mark)]


@pytest.mark.parametrize("name", SURE)
def test_lists(name: str) -> None:
    reply, texts = SURE[name]
    split = split_reply(reply, 12 if name == "two digits" else 3)
    assert [part.text for part in split.parts] == texts
    assert [part.mark for part in split.parts] == [""] * len(texts)
    assert not split.refused


@pytest.mark.parametrize("name", UNSURE)
def test_what_is_open_is_marked(name: str) -> None:
    reply, texts = UNSURE[name]
    assert [(part.text, part.mark) for part in split_reply(reply, 3).parts] == texts


@pytest.mark.parametrize("name", ONE)
def test_single_texts(name: str) -> None:
    reply, texts = ONE[name]
    assert [(part.text, part.mark) for part in split_reply(reply).parts] == [(t, "") for t in texts]


@pytest.mark.parametrize("wanted", [1, 3])
@pytest.mark.parametrize("reply", REFUSED)
def test_refusals(reply: str, wanted: int) -> None:
    split = split_reply(reply, wanted)
    assert split.refused
    assert not split.parts


def test_a_list_is_no_refusal() -> None:
    split = split_reply("I can't draft it all, so:\n1. Vote.\n2. Chip in.", 2)
    assert [part.text for part in split.parts] == ["Vote.", "Chip in."]


WORD = st.text("abcdefgh", min_size=1, max_size=8)
TEXT = st.lists(WORD, min_size=2, max_size=8).map(" ".join)
FORM = st.sampled_from(
    ["{n}. {t}", "{n}) {t}", "({n}) {t}", "**{n}.** {t}", "Text {n}: {t}", "- {t}"]
)


@given(st.lists(TEXT, min_size=2, max_size=9), FORM, st.sampled_from(["\n", "\n\n"]))
def test_every_list_comes_back(texts: list[str], form: str, gap: str) -> None:
    split = split_reply(numbered(form, texts, gap), len(texts))
    assert [part.text for part in split.parts] == texts


@given(st.text(max_size=200), st.integers(1, 6))
def test_any_reply_is_taken_apart(reply: str, wanted: int) -> None:
    for part in split_reply(reply, wanted).parts:
        assert part.text.strip() == part.text != ""


@pytest.mark.slow
@given(
    st.lists(TEXT, min_size=2, max_size=9),
    st.lists(st.integers(1, 4), min_size=8, max_size=8),
    st.sampled_from([0, 1]),
    st.sampled_from(["{n}. {t}", "({n}) {t}", "**{n}.** {t}", "Text {n}: {t}"]),
)
def test_every_list_with_gaps_comes_back_marked(
    texts: list[str], steps: list[int], first: int, form: str
) -> None:
    steps = steps[: len(texts) - 1]
    numbers = [first, *(first + sum(steps[: at + 1]) for at in range(len(steps)))]
    reply = "\n".join(form.format(n=n, t=t) for n, t in zip(numbers, texts, strict=True))
    split = split_reply(reply, len(texts))
    assert [part.text for part in split.parts] == texts
    gaps = [1, *steps, 1]
    assert [part.mark for part in split.parts] == [
        NUMBERS if max(gaps[at : at + 2]) > 1 else "" for at in range(len(texts))
    ]


@pytest.mark.slow
@given(st.lists(st.lists(TEXT, min_size=1, max_size=4), min_size=2, max_size=4))
def test_texts_of_lists_that_begin_again_are_never_joined_without_a_mark(
    runs: list[list[str]],
) -> None:
    texts = [text for run in runs for text in run]
    split = split_reply("\n".join(numbered("{n}. {t}", run) for run in runs), len(texts))
    for part in split.parts:
        assert part.mark or part.text in texts
