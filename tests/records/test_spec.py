"""What a folder declares: read whole, and every fault told with its file and line."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from ragwright.core import PatternError, RagwrightError, RecordsError
from ragwright.records import (
    RecordsSpec,
    find_unused_format_faults,
    load_draft_spec,
    load_spec,
    spec_faults,
    unread_files,
)

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


def written(folder: Path, **changed: str) -> Path:
    """A records folder with the files above, some of them replaced (``tags="…"``)."""
    for name, text in FILES.items():
        file = folder / "records" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(changed.pop(file.stem, text), "utf-8")
    assert not changed
    return folder / "records"


def only_fault(folder: Path, **changed: str) -> RagwrightError:
    faults = spec_faults(written(folder, **changed), "plain")
    assert len(faults) == 1, faults
    with pytest.raises(RecordsError) as caught:
        load_spec(folder / "records", "plain")
    assert str(caught.value) == str(faults[0])
    return faults[0]


def test_a_whole_folder(tmp_path: Path) -> None:
    folder = written(tmp_path)
    assert spec_faults(folder, "plain") == []
    spec = load_spec(folder, "plain")
    assert (spec.source.key, spec.source.text, spec.source.keep) == ("id", "body", ("party",))
    assert len(spec.cleaning.steps) == 7
    assert spec.cleaning.max_characters == 600
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
    assert spec.rules.lengths_of(np.array([99])) == ["brief"]
    assert spec.rules.bounds("brief") == (0, 100)
    assert spec.rules.bounds("nothing") == (0, None)
    for characters in range(1000):
        least, under = spec.rules.bounds(str(spec.rules.lengths_of(np.array([characters]))[0]))
        assert least <= characters
        assert under is None or characters < under
    assert spec.format.variables == ("fundraising_type", "party", "text")


def test_what_drafts_depend_on_is_read_without_the_rest(tmp_path: Path) -> None:
    folder = written(tmp_path)
    whole = load_spec(folder, "plain")
    for name in ("source", "cleaning", "tags"):
        (folder / f"{name}.yaml").unlink()
    with pytest.raises(RecordsError):
        load_spec(folder, "plain")
    spec = load_draft_spec(folder, "plain")
    assert (spec.rollups, spec.rules, spec.format) == (whole.rollups, whole.rules, whole.format)
    (folder / "rules.yaml").write_text("length_groups: {short: 9, long: 5}\n")
    with pytest.raises(RecordsError, match="must increase"):
        load_draft_spec(folder, "plain")


def test_an_empty_folder_means_defaults(tmp_path: Path) -> None:
    spec = load_spec(tmp_path)
    assert spec.cleaning.max_characters == 1100
    assert [g.name for g in spec.rules.length_groups] == ["short", "medium", "long"]
    assert spec.tags.tags == ()
    assert spec.format.variables[-1] == "text"
    with pytest.raises(RecordsError, match="source"):
        spec.source.complete()


def test_specs_are_values_and_cross_process_borders(tmp_path: Path) -> None:
    spec = load_spec(written(tmp_path), "plain")
    again = pickle.loads(pickle.dumps(spec))
    assert again == spec
    assert prints(again) == prints(spec)


def prints(spec: RecordsSpec) -> list[str]:
    parts = (spec.source, spec.cleaning, spec.tags, spec.rollups, spec.rules, spec.format)
    return [part.fingerprint for part in parts]


@pytest.mark.parametrize(
    ("name", "old", "new", "part"),
    [
        ("source", "rows.csv", "other.csv", 0),
        ("cleaning", "max_repeat: 3", "max_repeat: 4", 1),
        ("cleaning", "max_repeat: 3", "max_repeat: {times: 3, except: digits}", 1),
        ("tags", "donate", "donation", 2),
        ("rollups", "DOE, JANE", "JANE D", 3),
        ("rules", "brief: 100", "brief: 99", 4),
        ("plain", "%s, %s: %s", "%s, %s; %s", 5),
    ],
)
def test_a_change_shows_in_the_fingerprint_of_its_part_alone(
    tmp_path: Path, name: str, old: str, new: str, part: int
) -> None:
    before = prints(load_spec(written(tmp_path / "a"), "plain"))
    text = next(text for file, text in FILES.items() if Path(file).stem == name)
    changed = {name: f"# moved down a line\n{text.replace(old, new)}"}
    after = prints(load_spec(written(tmp_path / "b", **changed), "plain"))
    assert [i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b] == [part]


def test_each_tag_has_a_fingerprint_of_its_own(tmp_path: Path) -> None:
    before = load_spec(written(tmp_path / "a"), "plain").tags.fingerprints
    text = FILES["tags.yaml"].replace("petition\n", "petitions?\n")
    after = load_spec(written(tmp_path / "b", tags=text), "plain").tags.fingerprints
    assert {name for name in before if before[name] != after[name]} == {"petition_ask_online"}


@pytest.mark.parametrize(
    ("changed", "where", "told"),
    [
        ({"source": "sourc: x\n"}, "source.yaml:1", "unknown key 'sourc'"),
        ({"source": "keep: [party]\non_duplicate: frist\n"}, "source.yaml:2", "on_duplicate"),
        ({"source": "keep: [party, topic]\n"}, "source.yaml:1", "'topic'"),
        ({"cleaning": "steps:\n- strip\n- strap\n"}, "cleaning.yaml:3", "'strap'"),
        ({"cleaning": "steps:\n- x: ['a', '(b']\n"}, "cleaning.yaml:2", "does not compile"),
        ({"cleaning": "steps:\n- x:\n  - a: '$2'\n"}, "cleaning.yaml:3", "$2"),
        ({"cleaning": "steps:\n- max_repeat: no\n"}, "cleaning.yaml:2", "max_repeat"),
        (
            {"cleaning": "steps:\n- max_repeat: {tims: 3, times: 3}\n"},
            "cleaning.yaml:2",
            "max_repeat.tims",
        ),
        ({"cleaning": "steps:\n- max_repeat: {times: 0}\n"}, "cleaning.yaml:2", "max_repeat"),
        ({"cleaning": "steps:\n- max_repeat: {times: 3, except: a}\n"}, "cleaning.yaml:2", "'a'"),
        ({"cleaning": "steps:\n- x: [12]\n"}, "cleaning.yaml:2", "must be a text, not 12"),
        ({"cleaning": 'steps:\n- x: ["\\ud83d"]\n'}, "cleaning.yaml:2", "half a character"),
        (
            {"cleaning": 'steps:\n- x: ["\\bno\\b"]\n'},
            "cleaning.yaml:2",
            r"'\x08no\x08' contains a",
        ),
        ({"cleaning": 'steps:\n- x: [{a: "\\x1b"}]\n'}, "cleaning.yaml:2", r"'\x1b' contains a"),
        ({"cleaning": 'steps:\n- x: ["\\d"]\n'}, "cleaning.yaml:2", "unknown escape"),
        ({"cleaning": "steps:\n- x: ['\\d(']\n"}, "cleaning.yaml:2", r"pattern '\d(' does not"),
        ({"cleaning": "max_characters: -1\n"}, "cleaning.yaml:1", "max_characters"),
        ({"rules": "length_groups: {a: 9, b: 9}\n"}, "rules.yaml:1", "must increase"),
        ({"rules": "length_groups: {a: null, b: 9}\n"}, "rules.yaml:1", "without a bound"),
        ({"rollups": "client: {names: {A: [x, y], B: [' X.']}}\n"}, "rollups.yaml:1", "' X.'"),
        ({"rollups": "biographies: none.csv\n"}, "rollups.yaml:1", "none.csv"),
        ({"biographies": "name,bio\n"}, "biographies.csv:1", "'biography'"),
        ({"biographies": "name,biography\na,b\nA.,c\n"}, "biographies.csv:3", "already"),
        ({"biographies": "name,biography\na,b\nc,\n"}, "biographies.csv:3", "no biography"),
    ],
)
def test_a_fault_is_told_with_file_and_line(
    tmp_path: Path, changed: dict[str, str], where: str, told: str
) -> None:
    changed = {"plain": "prompt_variables: [text]\nprompt_structure: '%s'\n", **changed}
    fault = only_fault(tmp_path, **changed)
    assert fault.where == f"records/{where}"
    assert told in fault.what


@pytest.mark.parametrize(
    ("rules", "line", "told"),
    [
        ("contradictions:\n- {name: x, tags: [petition_ask_online, nope]}\n", 2, "'nope'"),
        ("contradictions:\n- {name: x, tags: [petition_ask_online]}\n", 2, "two tags"),
        ("refine:\n- {if: {topic: helth care}, set: {topic: x}}\n", 2, "'helth care'"),
        ("refine:\n- {if: {text: a}, set: {client: x}}\n", 2, "'client'"),
        (
            "refine:\n- {if: {sort: a}, set: {tone: x}}\n- {if: {text: a}, set: {sort: b}}\n",
            2,
            "'sort'",
        ),
        ("refine:\n- {if: {text: a}, set: {party: x}}\n", 2, "'party', which is a column"),
        ("refine:\n- {if: {text: a}, set: {kind: x}}\n", 2, "cannot set 'kind'"),
        ("refine:\n- {if: {text: '(a'}, set: {tone: x}}\n", 2, "does not compile"),
        ("refine:\n- {if: {text: a}}\n", 2, "both if: and set:"),
    ],
)
def test_rules_name_only_what_there_is(tmp_path: Path, rules: str, line: int, told: str) -> None:
    plain = "prompt_variables: [text]\nprompt_structure: '%s'\n"
    fault = only_fault(tmp_path, rules=rules, plain=plain)
    assert fault.where == f"records/rules.yaml:{line}"
    assert told in fault.what


@pytest.mark.parametrize("name", ["fundraising", "ask", "gift basket", "asks for", "limestone"])
def test_a_tag_of_no_known_kind_says_so(tmp_path: Path, name: str) -> None:
    text = f"{FILES['tags.yaml']}  {name}: x\n"
    fault = only_fault(tmp_path, tags=text)
    assert fault.where == "records/tags.yaml:6"
    assert fault.what == f"the tag {name!r} is of an unknown kind"
    assert "second word is ask" in str(fault.hint)


@pytest.mark.parametrize("cleaning", ['steps:\n- x: ["\\bno\\b"]\n', 'steps:\n- x: ["\\d"]\n'])
def test_what_double_quotes_make_of_a_backslash_has_a_hint(tmp_path: Path, cleaning: str) -> None:
    faults = spec_faults(written(tmp_path, cleaning=cleaning), "plain")
    assert ["use single quotes" in str(fault.hint) for fault in faults] == [True]


def test_an_empty_pattern_is_not_told_to_stand_in_quotes(tmp_path: Path) -> None:
    fault = only_fault(tmp_path, tags=f"{FILES['tags.yaml']}  rent hook: ''\n")
    assert fault.what.endswith("must be a text, not an empty text")
    assert fault.hint is None


@pytest.mark.parametrize(
    ("tags", "line"),
    [
        (FILES["tags.yaml"].replace("petition\n", "'(petition'\n"), 3),
        (FILES["tags.yaml"].replace("fundraising ask", "fundraising"), 2),
        (FILES["tags.yaml"].replace("'now!'", ""), 5),
        ("tags:\n\tx: y\n", 2),
    ],
)
def test_a_tag_at_fault_is_told_once_though_rules_name_it(
    tmp_path: Path, tags: str, line: int
) -> None:
    text = FILES["rules.yaml"].replace("ask_type: fundraising, ", "")
    assert only_fault(tmp_path, tags=tags, rules=text).where == f"records/tags.yaml:{line}"


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
    [fault] = spec_faults(folder)
    assert (fault.where, fault.hint) == (f"records/{called}", f"rename it to {name}.yaml")
    assert unread_files(folder) == {called: f"{name}.yaml"}
    with pytest.raises(RecordsError, match=f"{name}.yaml is missing"):
        load_spec(folder)


def test_files_beside_the_declarations_are_no_faults(tmp_path: Path) -> None:
    folder = written(tmp_path)
    (folder / "notes.yaml").write_text("a: b\n", "utf-8")
    (folder / "tags.old.yaml").write_text("tags: {}\n", "utf-8")
    (folder / "data").mkdir()
    assert spec_faults(folder, "plain") == []
    assert unread_files(folder) == {"notes.yaml": "", "tags.old.yaml": "tags.yaml"}


def test_every_fault_of_a_folder_is_told(tmp_path: Path) -> None:
    folder = written(
        tmp_path,
        source="keys: id\n",
        cleaning="steps: [strap, {x: ['(a', '[b']}]\n",
        tags="tags: {nothing: x, a tone: '(', b hook: x}\n",
        rules="length_group: {}\ncontradictions: [{name: x, tags: [a, b]}]\n",
        plain="prompt_variables: [txt]\nprompt_structure: '%s %s'\n",
    )
    (folder / "rollups.yaml").write_text("client:\n\tcolumn: x\n", "utf-8")
    faults = spec_faults(folder, "plain")
    files = [str(fault.where).split("/")[-1].split(":")[0] for fault in faults]
    counts = {name: files.count(name) for name in dict.fromkeys(files)}
    assert counts == {
        "source.yaml": 1,
        "cleaning.yaml": 3,
        "tags.yaml": 2,
        "rollups.yaml": 1,
        "rules.yaml": 3,
        "plain.yaml": 3,
    }
    assert sum(isinstance(fault, PatternError) for fault in faults) == 3
    assert all(fault.where and ":" in fault.where for fault in faults)


def test_text_formats_none_of_which_is_the_one_chosen(tmp_path: Path) -> None:
    """The shipped one would be used, and whoever wrote a format would never know."""
    folder = written(tmp_path)
    for load in (load_spec, load_draft_spec):
        with pytest.raises(RecordsError, match="plain") as caught:
            load(folder)
        assert caught.value.where == "records/text_formats"
        assert "records.format" in str(caught.value.hint)
    assert [str(fault) for fault in spec_faults(folder)] == [str(caught.value)]
    (folder / "text_formats" / "plain.yaml").unlink()
    assert load_spec(folder).format.name == "message"


def test_a_format_that_is_not_in_use_stops_nothing(tmp_path: Path) -> None:
    folder = written(tmp_path)
    (folder / "text_formats" / "other.yaml").write_text("prompt_variables: [text]\n", "utf-8")
    assert spec_faults(folder, "plain") == []
    faults = find_unused_format_faults(folder, load_spec(folder, "plain"))
    assert faults
    assert {fault.where for fault in faults} == {"records/text_formats/other.yaml:1"}


def test_an_unknown_format_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(RecordsError, match="'plane'") as caught:
        load_spec(written(tmp_path), "plane")
    assert "plain" in str(caught.value.hint)
