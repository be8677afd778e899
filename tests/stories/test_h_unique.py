"""SPEC H: what nobody has. H1, the passport of a judge, is read with the gate of F10."""

from __future__ import annotations

import json
from pathlib import Path

from command_line import ragwright
from served import served
from story_tools import make_project, read_json, read_rows, settings, write_rows

from ragwright.testing import ScriptedServer, ServerRequest

COLOURS = ("amber", "birch", "cedar", "garnet", "ivory", "jade", "olive", "rose")
THINGS = ("lamp", "kettle", "radio", "camera", "heater", "drill")
LAMPS = [f"{colour} {thing}" for colour in COLOURS for thing in THINGS]


def reads(request: ServerRequest) -> str:
    """Watts, where the passages tell them; else it makes something up."""
    prompt = "\n".join(str(turn["content"]) for turn in request.body["messages"])
    asked = next((lamp for lamp in LAMPS if f"does the {lamp} need" in prompt), "")
    watts = f"The {asked} needs {100 + LAMPS.index(asked)} watts" if asked else ""
    return f"{watts} [1]." if watts and watts in prompt else "It was Ada Long [1]."


def test_h2_a_promise_is_certified_and_suspended_by_a_change(tmp_path: Path) -> None:
    texts = {
        f"{n}.md": f"# Part {n}\n\nThe {lamp} needs {100 + n} watts.\n"
        for n, lamp in enumerate(LAMPS)
    }
    rows: list[dict[str, object]] = []
    for n, lamp in enumerate(LAMPS):
        split = "tune" if n % 2 else "confirm"
        known = {"user_input": f"How many watts does the {lamp} need?", "split": split}
        rows.append({"id": f"k{n}", **known, "reference": f"{100 + n} watts"})
        if not n % 3:
            unknown = f"Who designed the {lamp}?"
            rows.append({"id": f"u{n}", "user_input": unknown, "answerable": False, "split": split})
    with ScriptedServer(reads) as server:
        folder = make_project(tmp_path, texts, f"answer: {{model: '{server.url}#m'}}\n")
        write_rows(folder / "set.jsonl", rows)
        how = "--testset set.jsonl --risk 0.2 --scores KPrecision(content+bigrams) -q"
        told = read_json(folder, f"promise {how} --measure Contains>=1")
        certificate = told["certificate"]
        assert told["certified"] is True
        assert certificate["errors"] == 0
        assert 0 < certificate["bound"] <= 0.2
        assert told["line"].startswith("At most 20 % of answers wrong, certified on ")
        assert "chance" in json.dumps(told) or certificate["confidence"] == 0.95
        question = f"How many watts does the {LAMPS[0]} need?"
        answer = read_json(folder, "ask", question)["answers"][0]
        assert answer["promise"]["holds"] is True
        withheld = read_json(folder, "ask", f"Who designed the {LAMPS[1]}?")["answers"][0]
        assert withheld["abstained"] is True
        (folder / "docs" / "new.md").write_text("# New\n\nSomething else.\n")
        ragwright(folder, "ingest", "-q")
        after = read_json(folder, "ask", question)["answers"][0]
        assert after["abstained"] is False
        assert "100 watts" in after["text"]
        assert after["promise"]["holds"] is False
        assert "is suspended: the documents changed" in after["promise"]["line"]
        assert after["promise"]["line"] in ragwright(folder, "ask", question).stdout


def test_h3_faults_of_documents_that_can_be_proved(tmp_path: Path) -> None:
    copied = (
        "The boiler is drained in autumn, when the pressure has fallen below one bar. Open the "
        "lower valve first, wait until no water comes, and close the upper one afterwards. Keep "
        "the sieve in a dry place until spring, and write the day into the book of the house."
    )
    texts = {
        "a.md": f"# Boiler\n\n{copied}\n\nSee [the plan](missing.md) and section 9.9.\n",
        "b.md": f"# Kettle\n\n{copied}\n",
        "c.md": "# Codes\n\n" + "".join(f"## E10{n}\n\nPart {n} is stuck.\n\n" for n in range(6)),
        "d.md": "# Help\n\nAfter E101, E199 may be shown. Where it is, see E102.\n",
    }
    folder = make_project(tmp_path, texts)
    told = read_json(folder, "audit", "--kinds", "copies,references,codes,damage,reach")
    found = told["findings"]
    places = {(f["kind"], place["source"]) for f in found for place in f["places"]}
    assert {("copies", "docs/a.md"), ("copies", "docs/b.md")} <= places
    dead = [f for f in found if f["kind"] == "references"]
    assert any("missing.md" in json.dumps(f) for f in dead)
    assert ("codes", "docs/d.md") in places
    assert any("E199 is used once and defined nowhere" in f["why"] for f in found)
    for finding in found:
        for place in finding["places"]:
            text = texts[Path(place["source"]).name]
            assert text[place["start"] : place["end"]] == place["text"]
    ragwright(folder, "audit", "--gate", "copies=0", "-q", code=100)


def test_h4_questions_that_were_served_are_a_test_set(tmp_path: Path) -> None:
    texts = {"a.md": "# A\n\nThe fan is changed in May.\n", "b.md": "# B\n\nThe belt is old.\n"}
    with ScriptedServer("In May [1].") as server:
        folder = make_project(tmp_path, texts, f"answer: {{model: '{server.url}#m'}}\n")
        with served(folder) as running:
            for question in ("When is the fan changed?", "What is old?"):
                assert running.ask(question).status_code == 200
        ragwright(folder, "outputs", "export", "-o", "asked.jsonl", "-q")
        rows = read_rows(folder / "asked.jsonl")
        assert {r["user_input"] for r in rows} == {"When is the fan changed?", "What is old?"}
        assert all(r["response"] == "In May [1]." for r in rows)
        asked = ("eval", "--testset", "asked.jsonl", "--measures", "KPrecision", "-q")
        first = read_json(folder, *asked)["run"]
        server.play("It is old [1].")
        second = read_json(folder, *asked, *settings(prompt__company="Fjord"))["run"]
        told = read_json(folder, "compare", first, second)
    assert told["measures"]["KPrecision"]["n"] == 2


def test_h5_a_question_of_a_conversation_is_condensed_and_measured_by_turn(tmp_path: Path) -> None:
    texts = {"a.md": "# Fan\n\nThe fan is changed in May.", "b.md": "# Belt\n\nThe belt is old."}

    def model(request: ServerRequest) -> str:
        if "Question: When is the fan changed?" in request.prompt:
            return "In May [1]."
        alone = "Question: Is the belt old?" in request.prompt
        return "Yes. [1]" if alone else "When is the fan changed?"

    turns = ["Is the belt old?", "Yes.", "And the fan, when?", "In May"]
    roles = ("user", "assistant") * 2
    talk = [{"role": role, "content": text} for role, text in zip(roles, turns, strict=True)]
    with ScriptedServer(model) as server:
        folder = make_project(tmp_path, texts, f"answer: {{model: '{server.url}#m'}}\n")
        write_rows(folder / "talk.jsonl", [{"id": "c", "messages": talk}])
        asked = ("--testset", "talk.jsonl", "--measures", "Contains", "--by", "turn", "--rows")
        told = read_json(folder, "eval", *asked, "-q")
    slices = told["slices"]["turn"]
    assert {turn: one["Contains"]["n"] for turn, one in slices.items()} == {"1": 1, "2": 1}
    assert told["measures"]["Contains"]["mean"] == 1.0
    condensing = next(r for r in server.requests if "And the fan, when?" in r.prompt)
    assert "Is the belt old?" in json.dumps(condensing.body), "the turns before it are shown"
    assert [row["turn"] for row in told["rows"]] == [1, 2]
