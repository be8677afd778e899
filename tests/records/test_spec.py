"""What a folder declares: read whole, and every fault told with its file and line."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from story_tools import write_files

from ragwright import records
from ragwright.core import RagwrightError, RecordsError

FILES = {
    "source.yaml": """\
source: rows.csv
key: id
text: body
keep: [party]
rename: {Body: body}
on_duplicate: last
""",
    "cleaning.yaml": """\
max_characters: 600
steps:
  - odd unicode:
      - "[‘’]": "'"
      - '\\u200b'
  - links: ['https?://\\S+', {'(\\w+)@\\S+': '$1 at …'}]
  - max_repeat: 3
  - unescape_html
  - strip
""",
    "tags.yaml": """\
tags:
  fundraising ask: '(?i)chip in|donate'
  petition_ask_online: petition
  health_care_hook: {pattern: '(?i)health', definition: Doctors and what they cost}
  very-urgent-tone: {pattern: 'now!', display: urgent}
""",
    "rollups.yaml": """\
client:
  column: sender
  names: {Jane Doe: ["DOE, JANE", "Jane Doe for Congress"], Sam Roe: [Roe]}
biographies: biographies.csv
""",
    "biographies.csv": 'name,biography\nJane Doe,"A nurse, and a mother."\n',
    "rules.yaml": """\
length_groups: {brief: 100, full: null}
refine:
  - if: {ask_type: fundraising, text: '(?i)match'}
    set: {fundraising_type: match}
  - if: {fundraising_type: match, party: D}
    set: {ask_type: matched gift}
contradictions:
  - {name: calm urgency, tags: [petition_ask_online, very-urgent-tone]}
duplicates_by: [sender]
""",
    "text_formats/plain.yaml": """\
prompt_variables: [fundraising_type, party, text]
prompt_structure: "%s, %s: %s"
""",
}


PLAIN = "prompt_variables: [text]\nprompt_structure: '%s'\n"


def written(folder: Path, **changed: str) -> Path:
    """A records folder with the files above, some of them replaced (``tags="…"``)."""
    texts = {name: changed.pop(Path(name).stem, text) for name, text in FILES.items()}
    assert not changed
    return write_files(folder / "records", texts)


def only_fault(folder: Path, **changed: str) -> RagwrightError:
    with pytest.raises(RecordsError) as caught:
        records.load_spec(written(folder, **changed), "plain")
    return caught.value


def test_a_whole_folder(tmp_path: Path) -> None:
    folder = written(tmp_path)
    spec = records.load_spec(folder, "plain")
    assert (spec.source.key, spec.source.text, spec.source.keep) == ("id", "body", ("party",))
    assert (len(spec.cleaning.steps), spec.cleaning.max_characters) == (7, 600)
    assert [(tag.kind, tag.display) for tag in spec.tags.tags] == [
        ("ask_type", "fundraising"),
        ("ask_type", "petition online"),
        ("topic", "health care"),
        ("tone", "urgent"),
    ]
    assert spec.tags.definitions() == {"health care": "Doctors and what they cost"}
    assert spec.rollups.canonical("  doe, JANE. ") == "Jane Doe"
    assert spec.rollups.column_place == "records/rollups.yaml:2"
    assert spec.rollups.biography("Jane Doe for Congress") == "A nurse, and a mother."
    assert spec.rules.fields == ("fundraising_type",)
    assert spec.rules.bounds("brief") == (0, 100)
    assert spec.rules.bounds("nothing") == (0, None)
    for characters in range(1000):
        [name] = spec.rules.lengths_of(np.array([characters]))
        assert name == ("brief" if characters < 100 else "full")
        least, under = spec.rules.bounds(str(name))
        assert least <= characters < (under or 1000)
    assert spec.format.variables == ("fundraising_type", "party", "text")
    again = pickle.loads(pickle.dumps(spec))  # specs cross process borders
    assert (again, prints(again)) == (spec, prints(spec))
    # what drafts depend on is read without the rest
    for name in ("source", "cleaning", "tags"):
        (folder / f"{name}.yaml").unlink()
    with pytest.raises(RecordsError):
        records.load_spec(folder, "plain")
    draft = records.load_draft_spec(folder, "plain")
    assert (draft.rollups, draft.rules, draft.format) == (spec.rollups, spec.rules, spec.format)
    (folder / "rules.yaml").write_text("length_groups: {short: 9, long: 5}\n")
    with pytest.raises(RecordsError, match="must increase"):
        records.load_draft_spec(folder, "plain")


def test_an_empty_folder_means_defaults(tmp_path: Path) -> None:
    spec = records.load_spec(tmp_path)
    assert (spec.cleaning.max_characters, spec.tags.tags) == (1100, ())
    assert [g.name for g in spec.rules.length_groups] == ["short", "medium", "long"]
    assert spec.format.variables[-1] == "text"
    with pytest.raises(RecordsError, match="source"):
        spec.source.complete()


def prints(spec: records.RecordsSpec) -> list[str]:
    parts = (spec.source, spec.cleaning, spec.tags, spec.rollups, spec.rules, spec.format)
    return [part.fingerprint for part in parts]


@pytest.mark.parametrize(
    ("name", "old", "new", "part"),
    [
        ("source", "rows.csv", "other.csv", 0),
        ("cleaning", "max_repeat: 3", "max_repeat: 4", 1),
        ("cleaning", "max_repeat: 3", "max_repeat: {times: 3, except: digits}", 1),
        ("tags", "petition\n", "petitions?\n", 2),
        ("rollups", "DOE, JANE", "JANE D", 3),
        ("rules", "brief: 100", "brief: 99", 4),
        ("plain", "%s, %s: %s", "%s, %s; %s", 5),
    ],
)
def test_a_change_shows_in_the_fingerprint_of_its_part_alone(
    tmp_path: Path, name: str, old: str, new: str, part: int
) -> None:
    before = records.load_spec(written(tmp_path / "a"), "plain")
    text = next(text for file, text in FILES.items() if Path(file).stem == name)
    changed = {name: f"# moved down a line\n{text.replace(old, new)}"}
    after = records.load_spec(written(tmp_path / "b", **changed), "plain")
    pairs = zip(prints(before), prints(after), strict=True)
    assert [i for i, (a, b) in enumerate(pairs) if a != b] == [part]
    one, other = before.tags.fingerprints, after.tags.fingerprints
    told = {"petition_ask_online"} if name == "tags" else set()
    assert {tag for tag in one if one[tag] != other[tag]} == told


TAGS, BOOK = FILES["tags.yaml"], "name,biography\na,b\n"
SET = "refine:\n- {if: {text: a}, set: {%s: x}}\n"
UNKNOWN = "the tag %r is of an unknown kind"
FAULTS: list[tuple[str, str, int, str]] = [
    ("source", "sourc: x\n", 1, "unknown key 'sourc'"),
    ("source", "keep: [party]\non_duplicate: frist\n", 2, "on_duplicate"),
    ("source", "keep: [party, topic]\n", 1, "'topic'"),
    ("cleaning", "steps:\n- strip\n- strap\n", 3, "'strap'"),
    ("cleaning", "steps:\n- x: ['a', '(b']\n", 2, "does not compile"),
    ("cleaning", "steps:\n- x:\n  - a: '$2'\n", 3, "$2"),
    ("cleaning", "steps:\n- max_repeat: no\n", 2, "max_repeat"),
    ("cleaning", "steps:\n- max_repeat: {tims: 3, times: 3}\n", 2, "max_repeat"),
    ("cleaning", "steps:\n- max_repeat: {times: 0}\n", 2, "max_repeat"),
    ("cleaning", "steps:\n- max_repeat: {times: 3, except: a}\n", 2, "except"),
    ("cleaning", "steps:\n- x: [12]\n", 2, "must be a text, not 12"),
    ("cleaning", 'steps:\n- x: ["\\ud83d"]\n', 2, "half a character"),
    ("cleaning", 'steps:\n- x: ["\\bno\\b"]\n', 2, r"'\x08no\x08' contains a"),
    ("cleaning", 'steps:\n- x: [{a: "\\x1b"}]\n', 2, r"'\x1b' contains a"),
    ("cleaning", 'steps:\n- x: ["\\d"]\n', 2, "unknown escape"),
    ("cleaning", "steps:\n- x: ['\\d(']\n", 2, r"pattern '\d(' does not"),
    ("cleaning", "max_characters: -1\n", 1, "max_characters"),
    ("rules", "length_groups: {a: 9, b: 9}\n", 1, "must increase"),
    ("rules", "length_groups: {a: null, b: 9}\n", 1, "without a bound"),
    ("rules", "contradictions:\n- {name: x}\n", 2, "needs the key 'tags'"),
    ("rollups", "client: {names: {A: [x, y], B: [' X.']}}\n", 1, "' X.'"),
    ("rollups", "biographies: none.csv\n", 1, "none.csv"),
    ("biographies", "name,bio\n", 1, "columns name and biography"),
    ("biographies", f"{BOOK}A.,c\n", 3, "already"),
    ("biographies", f"{BOOK}c,\n", 3, "no biography"),
    # rules name only what there is
    ("rules", "contradictions:\n- {name: x, tags: [petition_ask_online, nope]}\n", 2, "'nope'"),
    ("rules", "contradictions:\n- {name: x, tags: [petition_ask_online]}\n", 2, "tags"),
    ("rules", "refine:\n- {if: {topic: helth care}, set: {topic: x}}\n", 2, "'helth care'"),
    ("rules", SET % "client", 2, "'client'"),
    ("rules", SET % "party", 2, "'party', which is a column"),
    ("rules", SET % "kind", 2, "cannot set 'kind'"),
    ("rules", "refine:\n- {if: {text: '(a'}, set: {tone: x}}\n", 2, "does not compile"),
    ("rules", "refine:\n- {if: {text: a}}\n", 2, "both if: and set:"),
    ("tags", TAGS.replace("petition\n", "'(petition'\n"), 3, "does not compile"),
    ("tags", TAGS.replace("fundraising ask", "fundraising"), 2, UNKNOWN % "fundraising"),
    ("tags", TAGS.replace("'now!'", ""), 5, "pattern"),
    ("tags", "tags:\n\tx: y\n", 2, "tab"),
    ("tags", f"{TAGS}  rent hook: ''\n", 6, "must be a text, not an empty text"),
    *(("tags", f"{TAGS}  {name}: x\n", 6, UNKNOWN % name)
        for name in ("fundraising", "ask", "gift basket", "asks for", "limestone")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "line", "told"), FAULTS)
def test_a_fault_is_told_with_file_and_line(
    tmp_path: Path, name: str, text: str, line: int, told: str
) -> None:
    changed = {"plain": PLAIN, name: text}
    if name == "tags":
        changed["rules"] = FILES["rules.yaml"].replace("ask_type: fundraising, ", "")
    fault = only_fault(tmp_path, **changed)
    assert fault.where == f"records/{name}.{'csv' if name == 'biographies' else 'yaml'}:{line}"
    assert told in fault.what
    if "unknown kind" in told:
        assert fault.what == told
        assert "second word is ask" in str(fault.hint)
    if '["\\' in text and "ud83d" not in text:  # what double quotes make of a backslash
        assert "use single quotes" in str(fault.hint)
    assert fault.hint is None or "empty text" not in told


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("cleaning", "cleanings.yaml"),
        ("tags", "tag.yaml"),
        ("tags", "Tags.yml"),
        ("rules", "rule.yaml"),
    ],
)
def test_a_misnamed_file_is_the_only_fault(tmp_path: Path, name: str, called: str) -> None:
    folder = written(tmp_path)
    (folder / f"{name}.yaml").rename(folder / called)
    (folder / "text_formats" / "plain.yaml").unlink()
    with pytest.raises(RecordsError, match=f"{name}.yaml is missing") as caught:
        records.load_spec(folder)
    told = (caught.value.where, caught.value.hint)
    assert told == (f"records/{called}", f"rename it to {name}.yaml")


def test_text_formats_none_of_which_is_the_one_chosen(tmp_path: Path) -> None:
    """The shipped one would be used, and whoever wrote a format would never know."""
    folder = written(tmp_path)
    for load in (records.load_spec, records.load_draft_spec):
        with pytest.raises(RecordsError, match="plain") as caught:
            load(folder)
        assert caught.value.where == "records/text_formats"
        assert "records.format" in str(caught.value.hint)
    (folder / "text_formats" / "plain.yaml").unlink()
    assert records.load_spec(folder).format.name == "message"
