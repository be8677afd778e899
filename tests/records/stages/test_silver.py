"""Silver rows are those of plain Python, row for row; gold rows those of a plain loop over them."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from benchmarks.data_sets import DATA
from hypothesis import given, strategies as st
from records_rows import bronze_of, cleaning_of, plainly_cleaned, plainly_tagged, tags_of

from ragwright.core import RecordsError, parse_yaml
from ragwright.project import init_project
from ragwright.records import HASH, KEY, REASON, Rollups, Rules, load_shipped_format
from ragwright.records.declared import Cleaning, Tags, read_rollups, read_rules
from ragwright.records.stages import GoldStep, RetagStep, SilverStep

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
NO_STEPS, NO_TAGS = "steps: []", "tags: {}"
Row = dict[str, Any]


def step_of(cleaning: str = CLEANING, tags: str = TAGS, column: str = "body") -> SilverStep:
    return SilverStep(cleaning_of(cleaning), tags_of(tags), column)


def silver(
    texts: list[str | None], cleaning: str = CLEANING, tags: str = TAGS, **columns: Any
) -> list[Row]:
    rows: list[Row] = step_of(cleaning, tags)(bronze_of(texts, **columns)).to_pylist()
    return rows


SNIPPETS = (
    "donate Chip in petition health healthcare HEALTH ‘it’ “x” https://a.b/c?d re: Re:re: $5 $12x "
    "aaaa !!!!! 😀😀😀😀😀 \n\n \t &amp; &lt;b&gt; &#0; &nbsp; ﬁne é Save ab abb the the "
    "calm calm\n not\u2003calm \u200b \x00 \x1c é è ê Straße"
)
WORDS = st.sampled_from(SNIPPETS.split(" ")) | st.text("ab!😀é \n", max_size=6)


@pytest.mark.slow
@given(st.lists(st.none() | st.lists(WORDS, max_size=9).map(" ".join), max_size=8))
def test_rows_are_those_of_plain_python(texts: list[str | None]) -> None:
    assert_equal(texts, cleaning_of(CLEANING), tags_of(TAGS))


def assert_equal(texts: list[str | None], cleaning: Cleaning, tags: Tags) -> None:
    limit, step = cleaning.max_characters, SilverStep(cleaning, tags, "body")
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
@pytest.mark.needs_data
def test_real_messages_are_those_of_plain_python() -> None:
    lines = (DATA / "sms_spam" / "SMSSpamCollection").read_text("utf-8", "replace").splitlines()
    texts: list[str | None] = [line.partition("\t")[2] for line in lines[1:]]
    assert len(texts) > 5000
    words = ["price", "free", "call", "urgent", "winner", "text", "mobile"]
    tags = [rf"  {word} hook: '(?i)\b{word}(s|ed|ing)?\b'" for word in words]
    tags += [r"  sum ask: '[£$]\d+'", r"  loud tone: '(?<!\w)[A-Z]{4,}\b'"]
    assert_equal(
        texts, cleaning_of(CLEANING.replace("40", "160")), tags_of("\n".join(["tags:", *tags]))
    )


@pytest.mark.slow
def test_columns_pass_the_text_is_replaced_and_hashes_say_what_changed() -> None:
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
    a, b, c, d = silver(["one", " one ", "two", "one"], party=["D", "D", "D", "R"])
    assert a["text_hash"] == b["text_hash"] == d["text_hash"] != c["text_hash"]
    assert a[HASH] == b[HASH] != d[HASH]
    (other,) = silver(["one"], tags="tags: {one hook: one}", party=["D"])
    assert other["text_hash"] == a["text_hash"]
    assert other[HASH] != a[HASH]


@pytest.mark.slow
def test_rows_are_the_same_in_any_batch() -> None:
    texts: list[str | None] = ["❤️Save ab\n", None, "calm", "plain ascii", "", "x\u0301 donate"] * 3
    step = step_of()
    again = pickle.loads(pickle.dumps(step))
    assert again == step
    batch = bronze_of(texts)
    whole = step(batch).to_pylist()
    single = [again(batch.slice(at, 1)).to_pylist() for at in range(len(texts))]
    assert [row for rows in single for row in rows] == whole
    assert step(batch.slice(0, 0)).num_rows == 0
    chunked = pa.concat_tables([batch.slice(0, 5), batch.slice(5)])
    assert step(chunked).to_pylist() == whole


def test_texts_and_why_they_are_left_out() -> None:
    long: list[str | None] = ["😀" * 39, "😀" * 40, "x" * 2_314, "  " + "é" * 39]
    told = [f"too long: {n} characters (limit 40)" for n in ("40", "2,314", "41")]
    assert [row[REASON] for row in silver(long, "max_characters: 40")] == [None, *told]
    rows = silver(["gi\x00ve", "\x00", "a\x07b"], NO_STEPS, "tags: {give ask: '^give$'}")
    assert [row["text"] for row in rows] == ["give", "", "a\x07b"]
    assert [row[REASON] for row in rows] == [None, "empty", None]
    assert rows[0]["tags"] == ["give ask"]


def test_a_text_that_is_no_text_column_is_read_as_text_or_refused() -> None:
    bare = bronze_of(["1", "2"]).drop_columns(["body"])
    step = step_of("steps: [strip]", NO_TAGS)
    made = step(bare.append_column("body", pa.array([7, None]))).to_pylist()
    assert [row["text"] for row in made] == ["7", None]
    for kind in (pa.array([["a"], ["b"]]), pa.array([b"\xff", b"a"])):
        with pytest.raises(RecordsError, match="'body' is not text but"):
            step(bare.append_column("body", kind))
    with pytest.raises(RecordsError, match=r"(?s)'bodi'.*body"):
        step_of(NO_STEPS, NO_TAGS, "bodi")(bronze_of(["x"]))
    # a lone surrogate cannot stand in a batch at all: sources see to it
    with pytest.raises(UnicodeEncodeError):
        pa.array([json.loads('"\\ud83d!"')])


NAMES = [f"{word} hook" for word in "abcdef"]


@pytest.mark.slow
@given(
    st.lists(st.text("abcdef", min_size=1, max_size=4), min_size=1, max_size=6),
    st.lists(st.sampled_from(NAMES), unique=True),
    st.permutations(NAMES).flatmap(lambda n: st.sets(st.sampled_from(n)).map(lambda s: (n, s))),
)
def test_tagging_again_equals_tagging_afresh(
    texts: list[str | None], before: list[str], after: tuple[list[str], set[str]]
) -> None:
    order, changed = after
    order = order[: max(1, len(order) - len(changed) // 2)]
    old = "\n".join(["tags:", *(f"  {n}: '{n[0]}'" for n in before)])
    new = "\n".join(["tags:", *(f"  {n}: '{n[0] * (1 + (n in changed))}'" for n in order)])
    held = step_of(NO_STEPS, old)(bronze_of(texts)).drop_columns([REASON])
    tags, known = tags_of(new), dict(tags_of(old).fingerprints)
    stale = tuple(n for n in tags.names if tags.fingerprints[n] != known.get(n))
    afresh = step_of(NO_STEPS, new)(bronze_of(texts))
    assert RetagStep(tags, stale)(held).to_pylist() == afresh.to_pylist()


def test_the_template_drops_control_characters_and_keeps_joiners(tmp_path: Path) -> None:
    init_project(tmp_path, template="records")
    written = (tmp_path / "records" / "cleaning.yaml").read_text("utf-8")
    family, persian = "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u0645\u06cc\u200c\u062e"
    made = silver([family, persian, "a\u200bb\u200e\x07\x1b\x9f", "a\tb\r\nc"], written, NO_TAGS)
    assert [row["text"] for row in made] == [family, persian, "ab", "a b c"]


# -- gold ----------------------------------------------------------------------------------------

GOLD_TAGS = r"""
tags:
  gift ask: '(?i)chip in|donate'
  petition ask: '(?i)petition'
  health_hook: '(?i)health'
  doctors_hook: {pattern: doctor, display: health}
  tax_hook: tax
  angry tone: '!!'
  calm tone: calm
"""
RULES = r"""
length_groups: {short: 20, medium: 40, long: null}
refine:
- {if: {ask_type: gift, text: '(?i)match'}, set: {fundraising_type: match}}
- {if: {ask_type: [gift, petition], party: '^D$'}, set: {fundraising_type: plain}}
- {if: {fundraising_type: match}, set: {ask_type: matched gift}}
- {if: {ask_type: matched gift, length: long}, set: {ask_type: never, tone: [calm, long]}}
- {if: {client: Jane Doe, topic: health}, set: {topic: []}}
contradictions:
- {name: mood, tags: [angry tone, calm tone]}
- {name: all, tags: [gift ask, petition ask, angry tone]}
"""
ROLLUPS = 'client: {column: sender, names: {Jane Doe: ["DOE, JANE", "Jane Doe for Congress"]}}'
FORMAT = load_shipped_format()
ROW: Row = {"text": "donate", "sender": "Sam", "party": "D"}


def gold_step(rules: str = RULES, keep: tuple[str, ...] = ("party",)) -> GoldStep:
    tags = tags_of(GOLD_TAGS)
    rollups = read_rollups(parse_yaml(ROLLUPS, "rollups.yaml"), Path())
    made = read_rules(parse_yaml(rules, "rules.yaml"), tags)
    return GoldStep(tags, rollups, made, FORMAT, keep)


def silver_of(*rows: Row) -> Any:
    others = {n: pa.array([row[n] for row in rows], pa.string()) for n in ("sender", "party")}
    batch = bronze_of([row["text"] for row in rows], **others)
    return step_of(NO_STEPS, GOLD_TAGS)(batch).drop_columns([REASON])


def plainly(row: Row) -> Row:
    text, tags = row["text"], tags_of(GOLD_TAGS).tags
    carried = [tag for tag in tags if re.search(tag.pattern.find, text)]
    made: Row = {
        kind: list(dict.fromkeys(tag.display for tag in carried if tag.kind == kind))
        for kind in ("ask_type", "topic", "tone")
    }
    known = {"doe, jane", "jane doe", "jane doe for congress"}
    sender = row["sender"]
    made["client"] = "Jane Doe" if sender and sender.strip(" .").lower() in known else sender
    made["length"] = "short" if len(text) < 20 else "medium" if len(text) < 40 else "long"
    made["fundraising_type"] = None
    done: set[str] = set()

    def put(name: str, value: Any) -> None:
        if name not in done:
            made[name] = value
            done.add(name)

    if "gift" in made["ask_type"] and re.search("(?i)match", text):
        put("fundraising_type", "match")
    if {"gift", "petition"} & set(made["ask_type"]) and row["party"] == "D":
        put("fundraising_type", "plain")
    if made["fundraising_type"] == "match":
        put("ask_type", ["matched gift"])
    if made["ask_type"] == ["matched gift"] and made["length"] == "long":
        put("ask_type", ["never"])
        put("tone", ["calm", "long"])
    if made["client"] == "Jane Doe" and "health" in made["topic"]:
        put("topic", [])
    names = {tag.name for tag in carried}
    made[REASON] = None
    if {"gift ask", "petition ask", "angry tone"} <= names:
        made[REASON] = "contradiction: all"
    if {"angry tone", "calm tone"} <= names:
        made[REASON] = "contradiction: mood"
    made |= {"text": text, "party": row["party"]}
    return made | {"document": FORMAT.fill(made), "message_at": FORMAT.message_at(made)}


SAID = ["donate", "Petition", "health", "doctor", "tax", "!!", "calm", "match", "word", "❤️"]
ROWS = st.fixed_dictionaries(
    {
        "text": st.lists(st.sampled_from(SAID), min_size=1, max_size=9).map(" ".join),
        "sender": st.sampled_from(["DOE, jane. ", "Jane Doe", "Sam", None]),
        "party": st.sampled_from(["D", "R", "", None]),
    }
)


@pytest.mark.slow
@given(st.lists(ROWS, max_size=6))
def test_records_are_those_of_a_plain_loop(rows: list[Row]) -> None:
    made = gold_step()(silver_of(*rows)).to_pylist()
    for row, found in zip(rows, made, strict=True):
        assert {n: v for n, v in found.items() if n not in (KEY, HASH)} == plainly(row)


def test_the_assembled_text_and_what_its_hash_follows() -> None:
    said = "Chip in now, match ends!!"
    [row] = gold_step()(silver_of({"text": said, "sender": "doe, jane", "party": "D"})).to_pylist()
    head = "A medium matched gift text message from Jane Doe written with an emphasis on angry"
    assert row["document"] == f"{head}:\n\n{said}"
    assert row["document"][row["message_at"] :] == said
    step, bare = gold_step(), gold_step("refine: []", keep=())
    assert pickle.loads(pickle.dumps(step)) == step

    def printed(step: GoldStep, **changed: str) -> str:
        return str(step(silver_of({**ROW, **changed}))[HASH].to_pylist())

    groups = gold_step(RULES.replace("short: 20", "brief: 20"))
    before = printed(step)
    assert before not in (printed(step, party="R"), printed(step, sender="Tom"), printed(groups))
    # a column that documents do not carry changes nothing
    assert printed(bare, party="D") == printed(bare, party="R")


def test_a_client_column_needs_no_rollups() -> None:
    batch = silver_of(ROW)
    step = GoldStep(tags_of(GOLD_TAGS), Rollups(), Rules(), FORMAT)
    assert step(batch)["client"].to_pylist() == [None]
    renamed = batch.rename_columns([n.replace("sender", "client") for n in batch.column_names])
    assert step(renamed)["client"].to_pylist() == ["Sam"]
    # a record may say something of its own column names
    assert gold_step(keep=("party", "client"))(batch).column_names.count("client") == 1
