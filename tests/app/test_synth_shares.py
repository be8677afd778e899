"""`synth` balances questions over folders, formats, languages and kinds, and prints the shares."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from command_line import ragwright

PAGES = 60
ANIMALS = ("heron", "otter", "badger", "lynx", "marten", "stoat", "plover", "curlew")


def mixed(folder: Path) -> Path:
    """A large folder of one form beside small ones of other forms, formats and languages."""
    for name in ("codes", "guide", "notes", "wissen"):
        (folder / "docs" / name).mkdir(parents=True)
    for n in range(PAGES):
        page = (
            f"# Compiler Error C{2100 + n}\n\nThe operand number {n} of the expression has a type "
            f"that operator {n} does not accept in table {n * 7}.\n"
        )
        (folder / f"docs/codes/c{n}.md").write_text(page, "utf-8")
    for n, animal in enumerate(ANIMALS):
        how = (
            f"# How to feed the {animal} keepers\n\nThe {animal} keepers are fed at {n + 6} in the "
            f"morning, with bread from the {animal} bakery and with {n + 2} kinds of cheese.\n"
        )
        (folder / f"docs/guide/{animal}.md").write_text(how, "utf-8")
        said = (
            f"The Marlow {animal} is a bird watchers' society of the northern marshes. "
            f"Its {n + 3} members meet on Fridays and count what they see in the reeds.\n"
        )
        (folder / f"docs/notes/{animal}.txt").write_text(said, "utf-8")
        german = (
            f"Der Kearney {animal.title()} ist ein Verein an der Küste, der von den Fischern und "
            f"ihren Kindern für die {n + 3} Dörfer im Norden der Insel geleitet wird.\n"
        )
        (folder / f"docs/wissen/{animal}.txt").write_text(german, "utf-8")
    (folder / "ragwright.yaml").write_text("sources: [docs]\n")
    return folder


def test_a_large_folder_does_not_take_all_questions(tmp_path: Path) -> None:
    folder = mixed(tmp_path)
    assert ragwright(folder, "ingest", "-q").returncode == 0
    made = ragwright(folder, "synth", "-n", "24", "-o", "testsets/t.jsonl", "--json")
    told = json.loads(made.stdout)
    assert told["questions"] == 24
    shares = told["shares"]
    assert set(shares) == {"folder", "format", "language", "kind"}
    assert all(sum(counts.values()) == 24 for counts in shares.values())
    assert set(shares["folder"]) == {"docs/codes", "docs/guide", "docs/notes", "docs/wissen"}
    assert max(shares["folder"].values()) <= 12
    assert min(shares["folder"].values()) >= 3
    assert set(shares["language"]) >= {"en", "de"}
    assert set(shares["format"]) == {"md", "txt"}
    assert max(shares["kind"].values()) <= 12
    rows = [json.loads(line) for line in (folder / "testsets/t.jsonl").read_text().splitlines()]
    folders = Counter(row["reference_spans"][0]["document_id"].rsplit("/", 1)[0] for row in rows)
    assert folders == shares["folder"]


def test_the_shares_are_printed_and_a_shortage_is_explained(tmp_path: Path) -> None:
    folder = mixed(tmp_path)
    ragwright(folder, "ingest", "-q")
    few = ragwright(folder, "synth", "-n", "12", "-o", "testsets/a.jsonl").stdout
    assert "by folder: docs/codes " in few
    assert "by format: " in few
    assert "by language: " in few
    many = ragwright(folder, "synth", "-n", "400", "-o", "testsets/b.jsonl").stdout
    (note,) = [line for line in many.splitlines() if "of 400 questions" in line]
    documents = PAGES + 3 * len(ANIMALS)
    assert f"{documents} documents gave no more valid ones" in note
    assert "--weak adds sentences with a gap, and headings" in note
