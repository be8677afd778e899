"""`sweep`, `confirm`, `ablate`, `diagnose` and `baseline`, as a user types them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright
from served import served
from small_project import MakeProject
from story_tools import (
    lacking,
    make_project,
    playing,
    read_json,
    run,
    settings,
    write_files,
    write_rows,
)

from ragwright import Workbench
from ragwright.experiment import distance_shift, load_baseline
from ragwright.report import baseline_json
from ragwright.testing import Reply, ScriptedServer, ServerRequest

pytestmark = pytest.mark.slow

# -- sweeps and confirmations ----------------------------------------------------------------

STAGE = """
from ragwright.retrieve import Stage

class Broken(Stage):
    name = "broken"

    def apply(self, question, hits, target):
        yield from ()
        raise ValueError("no such column")
"""


def test_trials_without_a_score_give_the_reason_of_their_rows(tmp_path: Path) -> None:
    study = "study: {testset: rows.jsonl, measures: nDCG@5, objective: nDCG@5}\n"
    study += 'retrieve: {stages: [["stages_of_sweep:Broken"]], top_k: [3, 4]}\n'
    texts = {"a.md": "# Oil\n\nThe oil is changed every two years.\n"}
    make_project(tmp_path, texts, stages_of_sweep=STAGE)
    (tmp_path / "study.yaml").write_text(study)
    row = {"user_input": "When is the oil changed?", "reference_context_ids": ["docs/a.md"]}
    write_rows(tmp_path / "rows.jsonl", [row])
    shown = run(tmp_path, "sweep study.yaml -q")
    assert "2 unscored: no row has a score for nDCG@5: " in shown
    assert "the stage 'broken' failed: ValueError: no such column" in shown


def test_settings_of_the_sweeps_command_line_are_those_of_the_confirmation(tmp_path: Path) -> None:
    def answer(request: ServerRequest) -> str:
        """Better with the plain role in the prompt."""
        system = str(request.body["messages"][0]["content"])
        return "every two years [1]" if "PLAIN" in system else "I think it is soon or so [1]"

    with ScriptedServer(answer) as server:
        folder = MakeProject(tmp_path)("judge: {model: 'http://127.0.0.1:9/v1#gone'}\n")
        rows = [
            {"id": f"q{n}", "user_input": f"How often must the brake fluid be changed, {n}?"}
            | {"reference": "every two years", "split": "tune" if n % 2 else "confirm"}
            for n in range(40)
        ]
        write_rows(folder / "set.jsonl", rows)
        (folder / "s.yaml").write_text(
            f"study: {{testset: '{folder / 'set.jsonl'}', measures: TokenF1}}\n"
            "prompt: {replace: [{}, {role: PLAIN words only.}]}\n"
        )
        given = settings(answer__model=f"{server.url}#m", judge__repeat=2)
        run(folder, "ingest")
        run(folder, "sweep s.yaml", *given)
        ahead = ragwright(folder, "confirm", "--dry-run").stderr
        assert "least provable gain: about 0." in ahead
        done = ragwright(folder, "confirm")  # reads them from the sweep
        assert f"as in the sweep: --set answer.model={server.url}#m" in done.stderr
        assert "T002 is better" in done.stdout or "T001 is better" in done.stdout
        shown = ragwright(folder, "confirm", *given)  # takes them
        assert "already confirmed" in shown.stderr
        assert "as in the sweep" not in shown.stderr
        told = read_json(folder, "confirm")
        for name in (told["run"], "latest"):
            run(folder, f"report {name} -o page.html -q")
            page = (folder / "page.html").read_text("utf-8")
            assert "is better than the current settings" in page
        other = settings(answer__model=f"{server.url}#n")
        refused = ragwright(folder, "confirm", *other, code=1).stderr
        assert "the values of --set that the sweep was run with" in refused


NAMES = [f"{first}{second}" for first in ("alder", "birch", "cedar") for second in "abcdefgh"]
ORIGIN = "These 12 questions were made from the passages (8 cloze, 4 heading)."
LIMIT = "A difference here is not shown for people's questions."
ADVICE = "Put 30 to 50 of those into the confirm split."


def made_questions(*, generated: bool) -> list[dict[str, Any]]:
    """Questions whose gold is the second hit of each: top_k 2 is better than 1."""
    rows = []
    for n, name in enumerate(NAMES):
        marks: dict[str, object] = {"split": "tune" if n % 2 else "confirm"}
        if generated:
            marks |= {"generated": True, "kind": "heading" if n % 6 < 2 else "cloze"}
        span = {"document_id": f"docs/second-{name}.md", "start": 9, "end": 40}
        row: dict[str, Any] = {"id": f"q{n}", "user_input": f"{name} pump?", "metadata": marks}
        rows.append(row | {"reference_spans": [span]})
    return rows


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    other = "what it does among many other things.\n"
    files = {f"first-{name}.md": f"# {name} pump\n\nThe {name} pump.\n" for name in NAMES}
    files |= {f"second-{n}.md": f"# Notes\n\nSomething about the {n} and {other}" for n in NAMES}
    folder = make_project(tmp_path_factory.mktemp("g"), files, "retrieve: {top_k: 1}\n")
    write_rows(folder / "made.jsonl", made_questions(generated=True))
    write_rows(folder / "asked.jsonl", made_questions(generated=False))
    for study, rows, depths in (
        ("made", "made", "[2]"),
        ("asked", "asked", "[2]"),
        ("lead", "asked", "[1, 2]"),
        ("ceiling", "made", "[1]"),
    ):
        text = f"study: {{testset: {rows}.jsonl, measures: HitRate@2}}\n"
        (folder / f"{study}.yaml").write_text(f"{text}retrieve: {{top_k: {depths}}}\n")
    return folder


def joined(text: str) -> str:
    return " ".join(text.split())


def test_verdicts_say_that_questions_were_made_by_a_program(trees: Path) -> None:
    swept = joined(run(trees, "sweep made.yaml"))
    chosen = "on the 12 generated questions of the tune split that chose it"
    assert not lacking(swept, chosen, ORIGIN, LIMIT, ADVICE)
    better = "is better on generated questions than the current settings"
    assert f"T001 {better}" in run(trees, "confirm")
    told = read_json(trees, "confirm")
    assert "better on generated questions" in told["text"]
    assert any(ORIGIN in note for note in told["notes"]), "stored with the verdict"
    run(trees, "report -o made.html")
    assert not lacking((trees / "made.html").read_text("utf-8"), better, ORIGIN)
    common = "eval --measures HitRate@2 -q --testset"
    run(trees, f"{common} made.jsonl --name one")
    run(trees, f"{common} made.jsonl --name two --set retrieve.top_k=2")
    shown = joined(run(trees, "compare one two"))
    assert not lacking(shown, "HitRate@2: better on generated questions, +1.0000", ORIGIN)
    told = read_json(trees, "compare one two")
    assert told["measures"]["HitRate@2"]["verdict"] == "better"
    assert told["measures"]["HitRate@2"]["questions"] == "generated questions"
    assert any(LIMIT in note for note in told["notes"])
    gate = "gate two --rule HitRate@2>=baseline --baseline one"
    assert ORIGIN in joined(run(trees, gate))
    assert "These 12 questions were made from the passages" in run(trees, f"{gate} --markdown")
    told = joined(run(trees, "sweep ceiling.yaml --set retrieve.top_k=2"))
    assert "The current settings have HitRate@2 1.0000 already, and 1 is the best" in told
    assert "hardly show what is better" in told
    mixed = made_questions(generated=True)[1::2] + made_questions(generated=False)[1::2]
    for n, row in enumerate(mixed):
        row |= {"id": f"m{n}", "user_input": row["user_input"] + "?" * (n // 12)}
    write_rows(trees / "mixed.jsonl", mixed)
    run(trees, f"{common} mixed.jsonl --name m1")
    run(trees, f"{common} mixed.jsonl --name m2 --set retrieve.top_k=2")
    shown = joined(run(trees, "compare m1 m2"))
    assert "better on partly generated questions" in shown
    assert "12 of these 24 questions were made from the passages (8 cloze, 4 heading)." in shown


def test_questions_of_people_have_no_such_limit_and_one_lead_is_told(trees: Path) -> None:
    swept = run(trees, "sweep asked.yaml")
    confirmed = run(trees, "confirm")
    assert "T001 is better than the current settings" in confirmed
    assert "calls: 0" in run(trees, "confirm --dry-run")
    for text in (swept, confirmed):
        assert "generated" not in text
        assert "made from the passages" not in text
    run(trees, "sweep lead.yaml -q")
    run(trees, "report -o lead.json")
    sentences = json.dumps(json.loads((trees / "lead.json").read_text("utf-8"))["verdict"])
    assert sentences.count("leads") == 1
    assert "by 1.0000" in sentences
    assert "best of 1:" in sentences, "top_k 1 is the current setting"


def test_a_sweep_of_the_chunks_shows_what_is_current_and_its_forecast_a_sample(
    tmp_path: Path,
) -> None:
    parts = "".join(f"## Part {n}\n\nThe part {n} is changed yearly.\n\n" for n in range(8))
    make_project(tmp_path, {"parts.md": parts})
    rows = [{"user_input": f"When is part {n} changed?", "split": "tune"} for n in range(40)]
    gold = {"reference": "yearly"}
    write_rows(
        tmp_path / "few.jsonl", [row | gold if n == 7 else row for n, row in enumerate(rows)]
    )
    write_rows(tmp_path / "main.jsonl", [row | gold for row in rows[:8]])
    chunks = "chunk: {size: [60, 80]}\nretrieve: {top_k: [1, 2]}\nkeyword: {language: [en, fr]}\n"
    for name in ("main", "few"):
        text = f"study: {{testset: {name}.jsonl, measures: TokenF1}}\n{chunks}"
        (tmp_path / f"{name}.yaml").write_text(text)
    forecast = run(tmp_path, "sweep few.yaml --dry-run")
    assert "trials: 9 on 40 rows" in forecast, "a sample needs no gold in it"
    shown = run(tmp_path, "sweep main.yaml")
    current = next(line for line in shown.splitlines() if "T000" in line)
    assert not lacking(current, "current", " 400 ")
    board = read_json(tmp_path, "report latest")
    own = next(entry for entry in board["entries"] if entry["id"] == "T000")
    expected = {"chunk.size": 400, "retrieve.top_k": 5}
    assert {name: own["current"][name] for name in expected} == expected


# -- ablations and diagnoses -----------------------------------------------------------------


def test_an_ablation_tells_its_price_first_and_its_verdict_next(tmp_path: Path) -> None:
    def reply(request: ServerRequest) -> str:
        """Right only where it is told to keep to the passages."""
        rules = str(request.body["messages"][0]["content"])
        return "Every 3 weeks [1]." if "nowhere else" in rules else "Never."

    rows = [
        {"id": f"q{n}", "user_input": f"How often is pump {n} checked?", "reference": "3 weeks"}
        | {"split": "tune"}
        for n in range(12)
    ]
    with ScriptedServer(reply) as server:
        name = f"{server.url}#m"
        chosen = f"answer: {{model: '{name}', max_tokens: 20}}\n"
        chosen += f"models: {{'{name}': {{price_in: 1.0, price_out: 1.0}}}}\n"
        texts = {"pump.txt": "The pump is checked every 3 weeks by the plumber."}
        folder = make_project(tmp_path, texts, chosen)
        write_rows(folder / "set.jsonl", rows)
        asked = "ablate --testset set.jsonl --measures Contains --parts"
        words = (*asked.split(), "no_extraneous", "--max-cost", "0.0001")
        done = ragwright(folder, *words, code=101)
        assert "error:" in done.stderr
        assert "parts or presets are left out" in done.stdout
        dry = read_json(folder, f"{asked} only_context,role --dry-run")
        assert (dry["trials"], dry["forecast"]["calls"]["expected"]) == (3, 36)
        shown = run(folder, f"{asked} only_context,role --name parts")
        assert shown.startswith("Proven on 12 rows: only_context helps (Contains +1.0000")
        assert "No effect proven, and not proven safe to delete: role." in shown
        assert "Such a proof takes at least 72 independent rows; there are 12." in shown
        run(folder, f"{asked} only_context,role -o out/ablation.json")
    told = json.loads((folder / "out" / "ablation.json").read_text())
    assert (told["rows"], told["parts"][0]["tokens"] > 0) == (12, True)
    verdicts = [(one["part"], one["safe"]) for one in told["parts"]]
    assert verdicts == [("only_context", False), ("role", False)]
    assert told["run"] in shown
    run(folder, "report parts -o out/report.html --quiet")
    assert "only_context" in (folder / "out" / "report.html").read_text()


PLUMBED = ("pump", "valve", "tank", "filter", "boiler", "meter", "hose", "clamp", "sieve", "gauge")


@pytest.fixture(scope="module")
def plumbing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows: list[dict[str, Any]] = []
    texts = {}
    for n, name in enumerate(PLUMBED):
        texts[f"{name}.txt"] = text = f"The {name} is checked every {n + 3} weeks by the plumber."
        span = {"document_id": f"docs/{name}.txt", "start": 0, "end": len(text)}
        gold: dict[str, Any] = {"reference": f"every {n + 3} weeks", "reference_spans": [span]}
        rows.append({"id": name, "user_input": f"How often is the {name} checked?", **gold})
    folder = make_project(tmp_path_factory.mktemp("plumbing"), texts)
    write_rows(folder / "set.jsonl", rows)
    return write_files(folder, {"personas/fitter.yaml": "audience: fitters\n"})


def test_a_wrong_filter_is_said_first_and_in_plain_words(plumbing: Path) -> None:
    wrong = settings(retrieve__filters="[{field: document_id, values: [docs/pump.txt]}]")
    asked = "diagnose --testset set.jsonl --measures Recall@5,Contains"
    shown = run(plumbing, asked, *wrong)
    assert shown.startswith("Work on filter first: hard filters exclude gold.")
    assert not lacking(shown, "excluded by filters")
    run(plumbing, f"{asked} -o out/diagnosis.json", *wrong)
    written = json.loads((plumbing / "out" / "diagnosis.json").read_text())
    assert (written["stage"], written["losses"]) == ("filter", {"filter": 9, "none": 1})
    assert {row["id"] for row in written["rows"]} == set(PLUMBED)
    told = read_json(plumbing, "diagnose --testset set.jsonl --dry-run")
    assert told["cost"] is not None, "offline, no model is called"
    facts = "diagnose --testset set.jsonl --measures TokenF1 --personas engineer,marketing"
    shown = run(plumbing, facts)
    assert not lacking(shown, "FactsKept", "No loss of facts is proven for any persona")


@pytest.mark.parametrize(("names", "best"), [("bad good", "good"), ("bad good down", "")])
def test_no_generator_is_the_best_while_another_gave_no_answer(
    plumbing: Path, names: str, best: str
) -> None:
    def speaks(request: ServerRequest) -> str | Reply:
        if request.body["model"] == "down":
            return Reply(status=400)
        weeks = re.search(r"checked every (\d+) weeks", request.prompt)
        told = f"every {weeks[1]} weeks [1]." if weeks else "who knows"
        return told if request.body["model"] == "good" else "now and then [1]."

    asked = "diagnose --testset set.jsonl --measures Contains --personas fitter --compare-models"
    with ScriptedServer(speaks) as server:
        models = ",".join(f"{server.url}#{name}" for name in names.split())
        told = read_json(plumbing, f"{asked} {models}")
    assert told["best"] == ({"fitter": f"{server.url}#{best}"} if best else {})
    silent = f"Not compared: {server.url}#down gave no answer"
    assert (silent in told["verdict"][0]) is ("down" in names)


# -- baselines -------------------------------------------------------------------------------

FACTS = {
    "pump": "oil the pump every spring before the frost leaves",
    "valve": "close the valve slowly until the red mark shows",
    "rotor": "balance the rotor on the bench with two weights",
    "flange": "tighten the flange bolts crosswise by hand first",
    "gasket": "replace the gasket whenever the cover was removed",
    "piston": "clean the piston with paraffin and a soft brush",
    "bearing": "grease the bearing after four hundred running hours",
    "nozzle": "rinse the nozzle in warm water for ten minutes",
}


def question(word: str) -> str:
    return f"What must be done with the {word}?"


def reader(request: ServerRequest) -> str | Reply:
    """Answers from the passages it is shown; without them, or by its name, something else."""
    if "messages" not in request.body:
        return Reply()
    text = "\n".join(str(message["content"]) for message in request.body["messages"])
    asked = re.findall(r"with the (\w+)\?", text)[-1]
    if request.body["model"] == "echo":
        return f"What must be done with the {asked} [1]."
    if request.body["model"] == "partly" and asked in ("pump", "valve", "rotor"):
        return "The passages do not answer this question."
    if request.body["model"] == "doubting" and text.count("You must ") > 1:
        return "The passages do not answer this question."
    said = re.findall(rf"You must ([^.]*\b{asked}\b[^.]*)\.", text)
    return f"{said[0]} [1]." if said else "Nobody ever knows such secret matters."


read_server = playing(reader)


@pytest.fixture(scope="module")
def pairs(read_server: ScriptedServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project about parts, with a pair on each."""
    text = "".join(f"## The {word}\n\nYou must {fact}.\n\n" for word, fact in FACTS.items())
    chosen = (
        f"models: {{scripted: {{base: '{read_server.url}'}}}}\n"
        "chunk: {by: headings, size: 60}\nretrieve: {top_k: 2, search: keyword}\n"
        "embed: {model: 'scripted:words', dimensions: 512}\nanswer: {model: 'scripted:reader'}\n"
    )
    folder = make_project(tmp_path_factory.mktemp("pairs"), {"manual.md": text}, chosen)
    rows = [
        {"id": word, "user_input": question(word), "reference": f"{fact}."}
        | {"reference_contexts": [f"You must {fact}."]}
        for word, fact in FACTS.items()
    ]
    write_rows(folder / "pairs.jsonl", rows)
    return folder


def compared(folder: Path, more: str = "") -> Any:
    return read_json(folder, f"baseline --testset pairs.jsonl {more}")


@pytest.fixture(scope="module")
def measured(pairs: Path) -> tuple[Path, list[Any]]:
    """Three baselines: as it is, closed book, and with another embedding model."""
    closed = "--name no-context --set answer.closed_book=true"
    others = "--set embed.model=scripted:others"
    return pairs, [compared(pairs, more) for more in ("", closed, others)]


def test_echoes_are_smaller_and_both_sets_are_over_the_pairs_that_were_answered(
    measured: tuple[Path, list[Any]], read_server: ScriptedServer
) -> None:
    folder, (same, closed, _) = measured
    assert (same["outcome"], same["n"], closed["outcome"]) == ("about equal", 8, "larger")
    shown = run(folder, "baseline --testset pairs.jsonl --set answer.closed_book=true")
    assert not lacking(shown, "S_e against S_b: larger.", "farther from their questions")
    echoed = compared(folder, "--set answer.model=scripted:echo")
    assert echoed["outcome"] == "smaller"
    experiment = echoed["sets"]["experiment"]
    assert experiment["mean"] == pytest.approx(experiment["echoed"], abs=0.05)
    assert any("the answers repeat the questions' words" in note for note in echoed["notes"])
    partly = "--set answer.model=scripted:partly --set judge.embedder=scripted:words"
    found = compared(folder, partly)
    assert [found["n"], *(numbers["n"] for numbers in found["sets"].values())] == [5, 5, 5]
    assert any("both over the 5 of 8 pairs" in note for note in found["notes"])
    changes = ["chunk.by=tokens", "chunk.size=20", "chunk.overlap=0", "prompt.without=[role]"]
    changed = compared(folder, " ".join(f"--set {change}" for change in changes))
    assert changed["changed"] == changes
    again = read_json(folder, "retrieve", question("pump"))
    assert again["hits"][0]["text"].count("You must") == 1, "its own index is as it was"
    before = len(read_server.requests)
    unbuilt = "--set chunk.by=sentences --set answer.model=scripted:unasked"
    ahead = compared(folder, f"--context --dry-run {unbuilt}")
    assert (ahead["calls"]["expected"], len(read_server.requests)) == (24, before)
    context = compared(folder, "--context")
    with Workbench.open(folder) as bench:
        stored = baseline_json(load_baseline(bench.project.runs, context["run"]))
    assert json.loads(json.dumps(stored)) == context


def test_stored_baselines_are_reported_compared_and_shown_on_pages(
    measured: tuple[Path, list[Any]],
) -> None:
    folder, found = measured
    runs = [str(each["run"]) for each in found]
    report = read_json(folder, f"report {runs[1]}")
    assert report["verdict"]["headline"] == "S_e against S_b: larger."
    assert report["verdict"]["state"] == "worse"
    pairs = report["charts"]["distances"]
    drawn = [layer["data"]["values"] for layer in pairs["spec"]["layer"]]
    assert {band["group"] for band in drawn[0]} == {"shuffled answers", "question echoed"}
    assert [sum(p["group"] == group for p in drawn[2]) for group in ("S_b", "S_e")] == [8, 8]
    means = {entry["label"]: entry["measures"]["QADistance"]["mean"] for entry in report["entries"]}
    assert means["S_b: the pairs"] < means["S_e: the experiment"]
    said = ragwright(folder, "report", runs[1], "-o", "baseline.html").stderr
    assert "S_e against S_b: larger." in said
    beside = "S_b against S_e, pair by pair"
    page = (folder / "baseline.html").read_text("utf-8")
    assert not lacking(page, beside, *runs, "different embedding models are not comparable")
    told = read_json(folder, f"compare {runs[0]} {runs[1]}")
    distance = told["measures"]["QADistance"]
    assert distance["n"] == 8
    assert distance["difference"] > 0.3
    assert distance["p"] < 0.05
    assert [one["run"] for one in told["baselines"]] == runs[:2]
    assert [one["outcome"] for one in told["baselines"]] == ["about equal", "larger"]
    assert [change["key"] for change in told["settings"]] == ["answer.closed_book"]
    both = read_json(folder, f"report {runs[0]} {runs[1]}")
    assert both["kind"] == "pair"
    labels = [entry["label"] for entry in both["entries"]]
    assert labels == ["S_e of the project as it is", "S_e of no-context"]
    assert "judge.embedder" in run(folder, f"compare {runs[0]} {runs[2]}")
    other = read_json(folder, f"report {runs[0]} {runs[2]}")
    assert "different embedding models" in other["verdict"]["headline"]
    assert other["comparison"] is None
    refused = ragwright(folder, "score", runs[0], "--measures", "ExactMatch", code=1).stderr
    assert "is of `ragwright baseline`" in refused
    with served(folder) as running:
        page = running.http.get("/experiments").text
        changes = running.http.get(f"/compare?baseline={runs[0]}&run={runs[1]}").text
        shown = running.http.get(f"/experiments/{runs[1]}").text
    assert not lacking(page, *(f'value="{each}"' for each in runs))
    assert "answer.closed_book" in changes
    assert beside in shown


def test_distances_of_rows_stand_beside_their_baselines_in_a_project_and_without(
    pairs: Path, read_server: ScriptedServer, tmp_path: Path
) -> None:
    rows = [
        {"user_input": question(word), "response": fact, "retrieved_contexts": [f"You must {fact}"]}
        for word, fact in FACTS.items()
    ]
    write_rows(pairs / "rows.jsonl", rows)
    table = run(pairs, "score rows.jsonl --measures QADistance")
    assert not lacking(table, "QADistance, question echoed (0-2", "rank of the own answer of 8")
    document = read_json(pairs, "score rows.jsonl --measures QADistance")
    assert list(document["measures"]) == ["QADistance"]
    assert document["baselines"]["QADistance, answers shuffled"]["n"] == 8
    (tmp_path / "pairs.jsonl").write_bytes((pairs / "pairs.jsonl").read_bytes())
    model = settings(embed__model=f"{read_server.url}#words")
    for project in (False, True):
        if project:
            (tmp_path / "ragwright.yaml").write_text("sources: []\n")
        found = read_json(tmp_path, "score pairs.jsonl --measures QADistance", *model)
        assert found["measures"]["QADistance"]["n"] == 8
        assert found["baselines"]["QADistance, answers shuffled"]["n"] == 8
        assert any("those of the reference answers" in note for note in found["notes"])
    both = ("--measures", "QADistance, ExactMatch")
    found = read_json(tmp_path, "score pairs.jsonl", *both, *model, code=101)
    for numbers in found["measures"].values():  # no reference is taken for the answer
        assert (numbers["n"], numbers["states"]["not_applicable"]) == (0, 8)


def test_an_experiment_that_declines_everything_is_not_compared(pairs: Path) -> None:
    """Answers from the chunk of each pair do not stand in for those of the experiment."""
    doubting = "--set answer.model=scripted:doubting"
    found = compared(pairs, f"--context {doubting} --name doubting")
    assert (found["outcome"], found["n"], found["context"]["outcome"]) == (
        "undecided",
        0,
        "smaller",
    )
    assert list(found["sets"]) == ["baseline", "experiment", "with_chunk", "without_chunk"]
    assert (found["sets"]["experiment"]["n"], found["sets"]["experiment"]["abstained"]) == (0, 8)
    shown = joined(run(pairs, f"baseline --testset pairs.jsonl {doubting}"))
    assert not lacking(
        shown, "undecided.", "No question has an answer in both.", "8 of 8 questions"
    )
    run(pairs, f"report {found['run']} -o none.html")
    with served(pairs) as running:
        assert "undecided" in running.http.get("/experiments").text


def test_forgetting_a_document_removes_its_pairs(measured: tuple[Path, list[Any]]) -> None:
    folder, _ = measured
    hit = read_json(folder, "retrieve pump")["hits"][0]
    run(folder, f"forget {hit['document_id']}")
    stored = b"".join(p.read_bytes() for p in (folder / ".ragwright" / "data").glob("runs*"))
    assert b"paraffin" not in stored


def test_outcomes_of_distances_follow_interval_and_margin() -> None:
    base = {str(n): 0.5 + n / 1000 for n in range(40)}
    same = {key: value + (0.001 if int(key) % 2 else -0.001) for key, value in base.items()}
    noisy = {key: value + (0.4 if int(key) % 2 else -0.39) for key, value in base.items()}
    assert distance_shift(base, same, 0.05).outcome == "about equal"
    assert distance_shift(base, {k: v + 0.2 for k, v in base.items()}, 0.05).outcome == "larger"
    assert distance_shift(base, {k: v - 0.2 for k, v in base.items()}, 0.05).outcome == "smaller"
    assert distance_shift(base, noisy, 0.05).outcome == "undecided"
    useless = distance_shift(base, same, 0.0)
    assert useless.outcome == "undecided"
    assert "another embedding model" in useless.reason
    assert distance_shift(base, {}, 0.05).difference is None
