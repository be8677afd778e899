"""Messages that people wrote, by path: the files of a team's own shape, from rows to a prompt."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from benchmarks.data_sets import DATA
from story_tools import write_files

from ragwright import Session, Workbench
from ragwright.drafting import Drafting, DraftRequest

MAIL, SMS = DATA / "political_emails" / "tests.csv", DATA / "sms_spam" / "SMSSpamCollection"
MAILS = {
    "source": f"source: {MAIL}\nkey: subject\ntext: body\nkeep: [party, domain, date]\n"
    "on_duplicate: first\n",
    "cleaning": r"""max_characters: 6000
steps:
- normalise_unicode
- preview padding: ['[\u00ad\u034f\u200b-\u200f\u2007\ufeff]']
- links: ['\[https?://[^\]]*\]', 'https?://\S+']
- max_repeat: 3
- squeeze_spaces
- strip
""",
    "tags": r"""tags:
  donation ask: '(?i)\bdonat(?:e|ion)|\bchip in\b|\bcontribut(?:e|ion)\b'
  event ask: '(?i)\brsvp\b|\bjoin (?:me|us) (?:in|at)\b'
  volunteer ask: '(?i)\bphone bank|\bdoor knock|\bvolunteer\b|\bknock on doors\b'
  endorse ask: '(?i)\bendorse (?:my|our)\b'
  grateful tone: '(?i)\bgrateful\b|\bgratitude\b'
  urgent tone: '(?i)\bmidnight\b|\bdays left\b|\brush\b|\burgent\b|\basap\b'
  get out the vote hook: '(?i)\bget out the vote\b|\bgotv\b'
  poll hook: '(?i)\bpolls?\b|\bpolling\b'
""",
    "rollups": "client: {column: name, names: {Ted Cruz: [This is Ted Cruz], "
    "Hung Cao: [CAPT Hung Cao], Sherrod Brown: [SB, Sherrod (personal)]}}\n",
    "rules": r"""refine:
- {if: {ask_type: donation, text: '(?i)\b\d+x\b|\bmatch'}, set: {fundraising_type: match}}
- {if: {ask_type: donation}, set: {fundraising_type: plain}}
""",
}
PREVIEW = Drafting(models=("openai:none",), preview=True)


def project(folder: Path, declared: dict[str, str]) -> Path:
    """A project whose records are read where the data set lies."""
    files = {f"records/{name}.yaml": text for name, text in declared.items()}
    return write_files(folder, {**files, "ragwright.yaml": "sources: []\n"})


def gold(bench: Workbench) -> dict[str, dict[str, Any]]:
    return {row["record_key"]: row for row in bench.records.rows("gold", 10_000)}


@pytest.mark.slow
@pytest.mark.needs_data
def test_fundraising_mails_from_rows_to_a_prompt(tmp_path: Path) -> None:
    folder = project(tmp_path, MAILS)
    with Workbench.open(folder) as bench:
        checked = bench.records.check()
        assert not checked.faults
        assert (checked.scanned, checked.rows) == (100, 99)
        assert not checked.never
        done = bench.records.refresh()
        counts = {name: count.inserted for name, count in done.tables.counts.items()}
        assert counts["bronze"] == counts["silver"] == 99
        # two subjects differ in nothing but the subject: one mail stays
        assert counts["gold"] + done.tables.left_out.get("duplicate", 0) == 99
        again = bench.records.refresh()
        assert {name: c.as_dict() for name, c in again.tables.counts.items()} == {
            name: {"inserted": 0, "updated": 0, "unchanged": count}
            for name, count in counts.items()
        }
        assert again.index is not None
        assert again.index.embedded == again.index.written == 0
        rows = gold(bench)

    # read by hand, before a pattern was tried on them
    assert "donation" in rows["Will you rush a $10 donation?"]["ask_type"]
    assert "urgent" in rows["Will you rush a $10 donation?"]["tone"]
    assert "get out the vote" in rows["Will you rush a $10 donation?"]["topic"]
    socorro = rows["TOMORROW: Join us in Socorro to help get out the vote!"]
    assert {"event", "volunteer"} <= set(socorro["ask_type"])
    assert "event" in rows["REMINDER! INGOP Election Night Party!"]["ask_type"]
    assert "grateful" in rows["I’m so grateful for you"]["tone"]
    assert rows["I’m so grateful for you"]["client"] == "Hung Cao"
    assert "endorse" in rows["Can I count on your endorsement, Peter?"]["ask_type"]
    assert rows["Anything you can do…"]["length"] == "long"
    assert rows["I just reviewed our latest report..."]["length"] == "short"
    assert Counter(row["client"] for row in rows.values())["Ted Cruz"] == 4
    assert not any("http" in row["text"] for row in rows.values())
    assert not any("\u034f" in row["text"] for row in rows.values())
    # mails of the asked party come first, and go into a prompt
    for party, others in (("R", "D"), ("D", "R")):
        soft = Session(soft=(f"party={party}^5", "ask_type=event^2"))
        with Workbench.open(folder, soft) as bench:
            hits = bench.retrieve("join us to get out the vote", k=60).hits
        parties = [str(hit.metadata.get("party", "")) for hit in hits]
        own = parties.count(party)
        assert own > 20
        assert set(parties[:own]) == {party}, "the asked party first, then the others"
        assert others in parties[own:]
        rungs = [hit.rung.weight for hit in hits if hit.rung is not None]
        assert rungs == sorted(rungs, reverse=True)
    with Workbench.open(folder) as bench:
        request = DraftRequest("this is ted cruz", "donation", ("poll",), ("urgent",), "short", 2)
        batch = bench.draft(request, PREVIEW)
    assert batch.request.client == "Ted Cruz"
    assert batch.hits[0].metadata["client"] == "Ted Cruz"
    [prompt] = batch.prompts
    assert len(prompt.examples) == 15
    asked = prompt.messages[-1][1]
    message = "A short donation text message from Ted Cruz about poll"
    assert asked.startswith(f"{message} written with an emphasis on urgent")
    assert [role for role, _ in prompt.messages[1:3]] == ["user", "assistant"]
