"""Silver rows are those of plain Python, row for row."""

from __future__ import annotations

import csv
import json
import pickle
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from benchmarks.data_sets import DATA
from hypothesis import given, settings, strategies as st
from records_rows import bronze_of, cleaning_of, plainly_cleaned, plainly_tagged, tags_of

from ragwright.core import PatternError, RecordsError
from ragwright.project import init_project
from ragwright.records import HASH, KEY, REASON
from ragwright.records.declared import Cleaning, Tags
from ragwright.records.stages import RetagStep, SilverStep

CLEANING = r"""
max_characters: 40
steps:
- unescape_html
- normalise_unicode
- quotes: {"[‘’]": "'", "[“”]": '"'}
- links: ['https?://\S+', '(?i)\bre:\s*']
- by hand: [{'\s+': ' '}]
- {money: [{'\$(\d+)\b': '$1 dollars$$'}]}
- max_repeat: 3
- squeeze_spaces
- odd: ['(?<=a)b', '\u200b$']
- strip
"""
TAGS = r"""
tags:
  donate ask: '(?i)\b(chip in|donate)\b'
  petition ask: '(?i)petition'
  health_hook: '(?i)\bhealth(care)?\b'
  repeat hook: '(\w+) \1\b'
  angry tone: '!!'
  calm tone: '(?<!not )calm$'
"""


def silver(
    texts: list[str | None], cleaning: str = CLEANING, tags: str = TAGS, **columns: Any
) -> list[dict[str, Any]]:
    step = SilverStep(cleaning_of(cleaning), tags_of(tags), "body")
    rows: list[dict[str, Any]] = step(bronze_of(texts, **columns)).to_pylist()
    return rows


SNIPPETS = (
    "donate Chip in petition health healthcare HEALTH ‘it’ “x” https://a.b/c?d re: Re:re: $5 $12x "
    "aaaa !!!!! 😀😀😀😀😀 \n\n \t &amp; &lt;b&gt; &#0; &nbsp; ﬁne é Save ab abb the the "
    "calm calm\n not\u2003calm \u200b \x00 \x1c é è ê Straße"
)
WORDS = st.sampled_from(SNIPPETS.split(" ")) | st.text("ab!😀é \n", max_size=6)
TEXTS = st.lists(st.none() | st.lists(WORDS, max_size=9).map(" ".join), max_size=8)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(TEXTS)
def test_rows_are_those_of_plain_python(texts: list[str | None]) -> None:
    assert_equal(texts, cleaning_of(CLEANING), tags_of(TAGS))


def assert_equal(texts: list[str | None], cleaning: Cleaning, tags: Tags) -> None:
    step = SilverStep(cleaning, tags, "body")
    limit = cleaning.max_characters
    for text, row in zip(texts, step(bronze_of(texts)).to_pylist(), strict=True):
        clean = None if text is None else plainly_cleaned(text, cleaning)
        assert row["text"] == clean
        if clean is None:
            assert row[REASON] == "no text"
        elif not clean:
            assert row[REASON] == "empty"
        elif len(clean) >= limit:
            assert row[REASON] == f"too long: {len(clean):,} characters (limit {limit:,})"
        else:
            assert row[REASON] is None
            assert row["tags"] == plainly_tagged(clean, tags)


@pytest.mark.slow
def test_columns_pass_and_the_text_is_replaced() -> None:
    (row,) = silver(["  Chip in &amp; donate, $5!!!!! "], party=["D"])
    assert row | {"text_hash": "", HASH: ""} == {
        KEY: "k000",
        "party": "D",
        "text": "Chip in & donate, 5 dollars$!!!",
        "text_hash": "",
        "tags": ["donate ask", "angry tone"],
        HASH: "",
        REASON: None,
    }


@pytest.mark.slow
def test_hashes_say_what_changed() -> None:
    a, b, c, d = silver(["one", " one ", "two", "one"], party=["D", "D", "D", "R"])
    assert a["text_hash"] == b["text_hash"] == d["text_hash"] != c["text_hash"]
    assert a[HASH] == b[HASH] != d[HASH]
    (other,) = silver(["one"], tags="tags: {one hook: one}", party=["D"])
    assert other["text_hash"] == a["text_hash"]
    assert other[HASH] != a[HASH]


@pytest.mark.slow
def test_rows_are_the_same_in_any_batch() -> None:
    texts: list[str | None] = ["❤️Save ab\n", None, "calm", "plain ascii", "", "x\u0301 donate"] * 3
    step = SilverStep(cleaning_of(CLEANING), tags_of(TAGS), "body")
    again = pickle.loads(pickle.dumps(step))
    assert again == step
    batch = bronze_of(texts)
    whole = step(batch).to_pylist()
    assert [
        row for at in range(len(texts)) for row in again(batch.slice(at, 1)).to_pylist()
    ] == whole
    assert step(batch.slice(0, 0)).num_rows == 0
    chunked = pa.concat_tables([batch.slice(0, 5), batch.slice(5)])
    assert step(chunked).to_pylist() == whole


def test_a_length_limit_counts_characters_of_the_clean_text() -> None:
    found = silver(["😀" * 39, "😀" * 40, "x" * 2_314, "  " + "é" * 39], "max_characters: 40")
    assert [row[REASON] for row in found] == [
        None,
        "too long: 40 characters (limit 40)",
        "too long: 2,314 characters (limit 40)",
        "too long: 41 characters (limit 40)",
    ]


def test_a_missing_text_column_is_named() -> None:
    step = SilverStep(cleaning_of("steps: []"), tags_of("tags: {}"), "bodi")
    with pytest.raises(RecordsError, match="'bodi'") as caught:
        step(bronze_of(["x"]))
    assert "body" in str(caught.value.hint)


@pytest.mark.parametrize("name", ["text", "tags", "text_hash"])
def test_a_column_that_silver_makes_itself_is_refused(name: str) -> None:
    step = SilverStep(cleaning_of("steps: []"), tags_of("tags: {}"), "body")
    batch = bronze_of(["x"]).append_column(name, pa.array(["y"]))
    with pytest.raises(RecordsError, match=f"'{name}'") as caught:
        step(batch)
    assert "rename" in str(caught.value.hint)


def test_a_text_that_is_no_text_column_is_read_as_text() -> None:
    step = SilverStep(cleaning_of("steps: [strip]"), tags_of("tags: {}"), "body")
    batch = bronze_of(["1", "2"]).drop_columns(["body"]).append_column("body", pa.array([7, None]))
    assert [row["text"] for row in step(batch).to_pylist()] == ["7", None]


def test_a_row_that_backtracks_is_named() -> None:
    cleaning = "pattern_seconds: 0.1\nsteps:\n- slow: ['(a|aa)+$']"
    with pytest.raises(PatternError, match="'k001'") as caught:
        silver(["a", "a" * 60 + "!"], cleaning)
    assert caught.value.where == "file.yaml:3"


@pytest.mark.slow
def test_ten_megabytes_take_no_minutes() -> None:
    text = "Chip in ❤️ now!!!!!! &amp; https://a.b/c " * 250_000
    long, short = silver([text, "donate"])
    assert str(long[REASON]).startswith("too long: ")
    assert short["tags"] == ["donate ask"]


NAMES = [f"{word} hook" for word in "abcdef"]


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.text("abcdef", min_size=1, max_size=4), min_size=1, max_size=6),
    st.lists(st.sampled_from(NAMES), unique=True),
    st.permutations(NAMES).flatmap(lambda n: st.sets(st.sampled_from(n)).map(lambda s: (n, s))),
)
def test_tagging_again_equals_tagging_afresh(
    texts: list[str], before: list[str], after: tuple[list[str], set[str]]
) -> None:
    """Tags added, removed, moved and changed, in one go."""
    order, changed = after
    order = order[: max(1, len(order) - len(changed) // 2)]
    old = tags_of("\n".join(["tags:", *(f"  {n}: '{n[0]}'" for n in before)]))
    lines = [f"  {n}: '{n[0]}{n[0] if n in changed else ''}'" for n in order]
    new = tags_of("\n".join(["tags:", *lines]))
    cleaning = cleaning_of("steps: []")
    held = SilverStep(cleaning, old, "body")(bronze_of(list(texts))).drop_columns([REASON])
    stale = tuple(n for n in new.names if new.fingerprints[n] != dict(old.fingerprints).get(n))
    afresh = SilverStep(cleaning, new, "body")(bronze_of(list(texts)))
    assert RetagStep(new, stale)(held).to_pylist() == afresh.to_pylist()


SYNTHETIC = r"""
steps:
- peers:
  - {'<[^>]{1,80}>': ' ', 'https?://\S+': ' ', '\S+@\S+\.\S+': ' ', '&nbsp;|&amp;': ' '}
  - {'\bFwd?:': ' ', '\bRe:': ' ', '\[image\]': ' ', '-{3,}': ' ', '_{3,}': ' ', '\*{2,}': ' '}
  - {"[‘’]": "'", '[“”]': '"', '!{2,}': '!', '\?{2,}': '?'}
- max_repeat: {times: 4, except: digits}
- squeeze_spaces
- strip
"""


def words_of(count: int) -> str:
    words = "price refund order delivery late broken free call urgent winner text mobile"
    lines = [rf"  {word} hook: '(?i)\b{word}(s|ed|ing)?\b'" for word in words.split()[:count]]
    return "\n".join(
        ["tags:", *lines, r"  sum ask: '[£$]\d+'", r"  loud tone: '(?<!\w)[A-Z]{4,}\b'"]
    )


@pytest.mark.slow
def test_synthetic_rows_are_those_of_plain_python() -> None:
    draw = random.Random(7)
    junk = [
        "<b>hi</b>",
        "http://e.x/y?z=1",
        "me@e.com",
        "!!!",
        "??",
        "-----",
        "Re:",
        "&nbsp;",
        "“q”",
    ]
    texts: list[str | None] = [
        " ".join(
            draw.choice([*junk, "refund", "orders", "LATE", "caf\u00e9", "£5", "❤️"])
            if draw.random() < 0.3
            else f"word{draw.randrange(3000)}"
            for _ in range(draw.choice([2, 8, 30, 220]))
        )
        for _ in range(3000)
    ]
    assert_equal(texts, cleaning_of(SYNTHETIC), tags_of(words_of(5)))


@pytest.mark.slow
@pytest.mark.needs_data
def test_short_messages_are_those_of_plain_python() -> None:
    file = DATA / "sms_spam" / "SMSSpamCollection"
    texts: list[str | None] = [
        line.partition("\t")[2] for line in file.read_text("utf-8", "replace").splitlines()[1:]
    ]
    assert len(texts) > 5000
    assert_equal(texts, cleaning_of(SYNTHETIC), tags_of(words_of(12)))


@pytest.mark.needs_data
def test_long_mails_are_those_of_plain_python() -> None:
    with (DATA / "political_emails" / "tests.csv").open(encoding="utf-8", newline="") as file:
        texts: list[str | None] = [max(row.values(), key=len) for row in csv.DictReader(file)]
    assert len(texts) == 100
    assert_equal(texts, cleaning_of(f"max_characters: 4000{SYNTHETIC}"), tags_of(words_of(12)))


def test_half_characters_of_json_come_no_further_than_arrow() -> None:
    """A lone surrogate cannot stand in a batch at all: sources see to it."""
    text = json.loads('"\\ud83d!"')
    with pytest.raises(UnicodeEncodeError):
        pa.array([text])


def test_a_column_of_lists_is_no_text() -> None:
    step = SilverStep(cleaning_of("steps: []"), tags_of("tags: {}"), "body")
    for kind in (pa.array([["a"]]), pa.array([b"\xff"])):
        batch = bronze_of(["x"]).drop_columns(["body"]).append_column("body", kind)
        with pytest.raises(RecordsError, match="'body' is not text but"):
            step(batch)


def test_no_text_of_silver_holds_a_nul() -> None:
    step = SilverStep(Cleaning(), tags_of("tags: {give ask: '^give$'}\n"), "body")
    made = step(bronze_of(["gi\x00ve", "\x00", "a\x07b"])).to_pylist()
    assert [row["text"] for row in made] == ["give", "", "a\x07b"]
    assert [row[REASON] for row in made] == [None, "empty", None]
    assert made[0]["tags"] == ["give ask"]


def test_the_template_drops_control_characters_and_keeps_joiners(tmp_path: Path) -> None:
    init_project(tmp_path, template="records")
    written = (tmp_path / "records" / "cleaning.yaml").read_text("utf-8")
    step = SilverStep(cleaning_of(written), Tags(), "body")
    family, persian = "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u0645\u06cc\u200c\u062e"
    texts = [family, persian, "a\u200bb\u200e\x07\x1b\x9f", "a\tb\r\nc"]
    made = step(bronze_of(texts)).column("text").to_pylist()
    assert made == [family, persian, "ab", "a b c"]
