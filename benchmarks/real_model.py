"""Every command that asks a chat model, against a small real one: calls, tokens, limits, stops.

    python -m benchmarks.peers.install model     # once
    python -m benchmarks.real_model [--publish]  # a quarter of an hour and more

The model (see `benchmarks.real_server`) is far too small to answer, judge or write questions well,
so the quality of replies is not measured. Counted are requests that reached the server beside
those that the step needs, the most frequent of equal requests, tokens as ragwright counts them
beside the server's own count, and the share of judgments that were invalid.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from benchmarks.publish import RESULTS, Cell, Section, Table, publish, section_lines
from benchmarks.real_server import MissingModelError, RealModel, real_model
from ragwright import Workbench
from ragwright.flow import Message
from ragwright.workbench import Asking

PAGES = {
    "brakes": "The brake fluid is changed every two years. The reservoir holds 0.4 litres of DOT 4 "
    "fluid, and a lamp on the panel lights when less than half of it is left.",
    "battery": "The battery is under the rear seat. Its warranty ends after eight years or 160,000 "
    "kilometres, whichever comes first, and covers a loss of more than 30 percent.",
    "tyres": "The tyres need a pressure of 2.4 bar, measured when they are cold. Winter tyres are "
    "required from November to March in all countries of the list on page nine.",
    "key": "The key takes a battery of type CR2032. A new key costs 180 euros, and a workshop "
    "needs half an hour and both old keys to make the car accept it.",
    "lights": "The headlights switch on at dusk. A bulb of the rear light has 21 watts and can be "
    "changed without tools: open the flap in the boot and turn the socket to the left.",
}
QUESTIONS = {
    "brakes": ("How often is the brake fluid changed?", "Every two years."),
    "battery": ("Where is the battery?", "Under the rear seat."),
    "tyres": ("Which pressure do the tyres need?", "2.4 bar."),
    "key": ("Which battery does the key take?", "CR2032."),
    "lights": ("How many watts has a bulb of the rear light?", "21 watts."),
}


@dataclass(frozen=True)
class Step:
    """What a step needed and what was sent.

    Attributes:
        name: The command, or what was done.
        fewest, most: Calls that the step may need: what depends on replies lies between them.
        calls: Requests that reached the server.
        repeats: How often the most frequent of equal requests was sent.
        seconds: Wall time.
        tokens: Prompt and completion tokens, by the server.
        counted: The same by ragwright; None where the step does not report them.
        note: What else came of it.
    """

    name: str
    fewest: int
    most: int
    calls: int = 0
    repeats: int = 0
    seconds: float = 0.0
    tokens: tuple[int, int] = (0, 0)
    counted: tuple[int, int] | None = None
    note: str = ""

    def row(self) -> dict[str, Cell]:
        """As a row of the table."""
        wanted = f"{self.fewest}" if self.fewest == self.most else f"{self.fewest} to {self.most}"
        counted = self.counted and f"{self.counted[0]} + {self.counted[1]}"
        return {
            "step": self.name,
            "calls needed": wanted,
            "calls sent": self.calls,
            "most equal ones": self.repeats,
            "seconds": round(self.seconds),
            "tokens, by the server": f"{self.tokens[0]} + {self.tokens[1]}",
            "tokens, by ragwright": counted or "not reported",
            "outcome": self.note,
        }


class Trial:
    """A project of five pages that asks the model, and the steps tried with it.

    Args:
        folder: Where the project is made.
        model: The running model.
        questions: How many of the questions are rows of the testset.
    """

    def __init__(self, folder: Path, model: RealModel, questions: int = len(QUESTIONS)) -> None:
        self.folder, self.model, self.questions = folder, model, questions
        self.steps: list[Step] = []
        self.judged: dict[str, dict[str, int]] = {}
        (folder / "docs").mkdir(parents=True)
        for name, text in PAGES.items():
            page = f"# {name.capitalize()}\n\n{text}\n"
            (folder / "docs" / f"{name}.md").write_text(page, "utf-8")
        rows = [
            {"user_input": question, "reference": answer, "split": "tune"}
            | {"reference_ids": [f"docs/{name}.md"]}
            for name, (question, answer) in list(QUESTIONS.items())[:questions]
        ]
        lines = "\n".join(map(json.dumps, rows))
        (folder / "rows.jsonl").write_text(lines, "utf-8")
        price = {"price_in": 1.0, "price_out": 2.0, "context_window": 8192}
        settings = {
            "sources": ["docs/"],
            "retrieve": {"top_k": 2},
            "answer": {"model": model.name, "max_tokens": 40},
            "judge": {"model": model.name, "max_tokens": 80},
            "models": {model.name: price},
        }
        (folder / "ragwright.yaml").write_text(yaml.safe_dump(settings), "utf-8")
        study = {"retrieve": {"top_k": [1, 2]}, "answer": {"max_tokens": 32}}
        study["study"] = {"testset": "rows.jsonl", "measures": "TokenF1"}
        (folder / "study.yaml").write_text(yaml.safe_dump(study), "utf-8")

    def run(self, *words: str, codes: Sequence[int] = (0,), folder: Path | None = None) -> Any:
        """The JSON document of a command (`init` prints none); other exit codes are an error."""
        shape = () if words[0] == "init" else ("--json",)
        done = subprocess.run(
            [sys.executable, "-m", "ragwright", *words, *shape],
            cwd=folder or self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in codes:
            raise AssertionError(f"{words}: {done.returncode}\n{done.stdout}{done.stderr}")
        return json.loads(done.stdout) if shape and done.stdout.strip() else {"stderr": done.stderr}

    def start(self, *words: str) -> subprocess.Popen[str]:
        """A command under way."""
        return subprocess.Popen(
            [sys.executable, "-m", "ragwright", *words],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def count(self, step: Step, mark: int, began: float) -> None:
        """Fill in what was sent since ``mark``, and keep the step."""
        sent = self.model.since(mark)
        used = [exchange.usage for exchange in sent]
        filled = replace(
            step,
            calls=len(sent),
            repeats=self.model.most_equal(mark),
            seconds=time.monotonic() - began,
            tokens=(sum(prompt for prompt, _ in used), sum(reply for _, reply in used)),
        )
        self.steps.append(filled)
        print(filled.row(), flush=True)


def asked(trial: Trial) -> None:
    """One question, as JSON."""
    mark, began = len(trial.model.exchanges), time.monotonic()
    answer = trial.run("ask", QUESTIONS["battery"][0])["answers"][0]
    used = _counted(answer)
    note = f"finish: {'; '.join(answer['notes']) or 'whole'}"
    trial.count(Step("`ask`", 1, 1, counted=used, note=note), mark, began)


def streamed(trial: Trial) -> None:
    """Pieces as they are written; Ctrl-C in the middle; then the same question again."""
    question = "Where is the battery, and when does its warranty end?"
    mark, began = len(trial.model.exchanges), time.monotonic()
    with Workbench.open(trial.folder) as bench:
        pieces: list[str] = []
        answer = bench.ask_all("How many watts has it?", [], Asking(sink=pieces.append))[0]
    used = answer.usage.prompt_tokens, answer.usage.completion_tokens
    assert "".join(pieces), "nothing was streamed"
    step = Step("`ask`, streamed", 1, 1, counted=used, note=f"{len(pieces)} pieces")
    trial.count(step, mark, began)

    mark, began = len(trial.model.exchanges), time.monotonic()
    process = trial.start("ask", question)
    assert process.stdout is not None
    first = process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=300)
    assert process.returncode == 130, (process.returncode, first, rest, errors)
    note = "the reply in flight was waited for"
    trial.count(Step("`ask`, Ctrl-C in the stream", 1, 1, note=note), mark, began)

    mark, began = len(trial.model.exchanges), time.monotonic()
    again = trial.run("ask", question)["answers"][0]
    cut = any("was cut" in text for text in again["notes"])
    assert cut or again["cached"], "a whole reply was paid for and not kept"
    note = "asked again, since the limit on tokens cut it" if cut else "from the store"
    used = _counted(again) if cut else (0, 0)
    trial.count(
        Step("the same question again", int(cut), int(cut), counted=used, note=note), mark, began
    )


def _counted(answer: Mapping[str, Any]) -> tuple[int, int]:
    return answer["usage"]["prompt_tokens"], answer["usage"]["completion_tokens"]


def talked(trial: Trial) -> None:
    """A follow-up question: it is made to stand alone first."""
    history = (
        Message("user", QUESTIONS["tyres"][0]),
        Message("assistant", "The tyres need 2.4 bar [1]."),
    )
    mark, began = len(trial.model.exchanges), time.monotonic()
    with Workbench.open(trial.folder) as bench:
        answer = bench.ask_all("And when are winter ones required?", [], Asking(history=history))[0]
    trial.count(Step("a second turn", 2, 2, note=answer.route), mark, began)


def resumed(trial: Trial) -> None:
    """Answers of a testset, stopped by Ctrl-C after the first one and resumed."""
    words = ("eval", "--testset", "rows.jsonl", "--measures", "TokenF1", "-j", "1")
    mark, began = len(trial.model.exchanges), time.monotonic()
    process = trial.start(*words, "--json")
    while (
        not any(exchange.whole for exchange in trial.model.since(mark)) and process.poll() is None
    ):
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 130, errors
    report = trial.run(*words, "--resume")
    note = f"{report['measures']['TokenF1']['n']} of {trial.questions} rows"
    needed = trial.questions
    # A reply that its limit cut is not kept: those of both rows under way are asked for again.
    step = Step("`eval`, Ctrl-C after the first row, `--resume`", needed, needed + 2, note=note)
    trial.count(step, mark, began)


def judged(trial: Trial, *wanted: tuple[str, int]) -> None:
    """The stored answers, judged; ``wanted`` are measures with the calls of a row."""
    for measures, per_row in wanted or (("Faithfulness", 1), ("AnswerRelevance", 1)):
        mark, began = len(trial.model.exchanges), time.monotonic()
        report = trial.run("score", "latest", "--measures", measures, codes=(0, 101))
        states = {name: figures["states"] for name, figures in report["measures"].items()}
        trial.judged |= states
        note = "; ".join(f"{name}: {_states(counts)}" for name, counts in states.items())
        fewest, most = len(states) * trial.questions, 2 * per_row * trial.questions
        trial.count(Step(f"`score`, {measures}", fewest, most, note=note), mark, began)


def _states(states: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in states.items() if number)


def swept(trial: Trial) -> None:
    """Two settings and five questions; the project as it is shares the replies of one of them."""
    mark, began = len(trial.model.exchanges), time.monotonic()
    report = trial.run("sweep", "study.yaml")
    note = (
        f"{len(report['trials'])} trials, {sum(entry['rows'] for entry in report['trials'])} rows"
    )
    trial.count(
        Step("`sweep`, 2 x 5", 2 * trial.questions, 3 * trial.questions, note=note), mark, began
    )


def diagnosed(trial: Trial) -> None:
    """Each stage replaced by a perfect one in turn."""
    mark, began = len(trial.model.exchanges), time.monotonic()
    words = ("--measures", "TokenF1", "--stages", "retrieve,generate")
    report = trial.run("diagnose", "--testset", "rows.jsonl", *words, codes=(0, 101))
    trial.count(Step("`diagnose`", 1, 3 * trial.questions, note=f"keys {len(report)}"), mark, began)


def written(trial: Trial) -> None:
    """Questions from the pages, and texts from records."""
    mark, began = len(trial.model.exchanges), time.monotonic()
    words = ("-n", "3", "--kinds", "model", "--levels", "fact", "-o", "made.jsonl")
    report = trial.run("synth", *words, codes=(0, 1))
    note = f"{report.get('rows', 0)} questions" if "stderr" not in report else report["stderr"]
    trial.count(Step("`synth -n 3`", 1, 20, note=note.split("\n")[0]), mark, began)

    folder = trial.folder / "records"
    folder.mkdir()
    trial.run("init", "--template", "records", folder=folder)
    trial.run("records", "refresh", folder=folder)
    mark, began = len(trial.model.exchanges), time.monotonic()
    words = ("--client", "Maya Delgado", "--ask", "donation", "-n", "2", "--examples", "2")
    limits = ("--set", "answer.draft.max_tokens=80", "--model", trial.model.name)
    report = trial.run("draft", *words, *limits, folder=folder, codes=(0, 1))
    note = f"{len(report.get('outputs', report.get('texts', ())))} texts"
    trial.count(Step("`draft -n 2`", 1, 4, note=note), mark, began)


def limited(trial: Trial) -> None:
    """A limit that no reply can meet: one repeat and an error that names the key."""
    mark, began = len(trial.model.exchanges), time.monotonic()
    over = ("--set", "budget.first_piece_timeout=1")
    report = trial.run(
        "eval",
        "--testset",
        "rows.jsonl",
        "--measures",
        "TokenF1",
        "--set",
        "answer.max_tokens=36",
        *over,
        codes=(1, 101),
    )
    note = "; ".join(report.get("notes", ())) or report.get("stderr", "").split("\n")[0]
    trial.count(
        Step("`eval`, limit of 1 s", trial.questions, 2 * trial.questions, note=note[:200]),
        mark,
        began,
    )


TRIALS = (asked, streamed, talked, resumed, judged, swept, diagnosed, written, limited)


def section(trial: Trial, kept: Mapping[str, Any]) -> Section:
    """What was counted, as a section of a page; steps that were not run keep stored figures."""
    rows = {row["step"]: row for row in kept.get("rows", ())}
    rows |= {step.name: step.row() for step in trial.steps}
    judged = {**kept.get("judged", {}), **trial.judged}
    judgments = sum(sum(states.values()) for states in judged.values())
    invalid = sum(states.get("judge_invalid", 0) for states in judged.values())
    calls = sum(row["calls sent"] for row in rows.values())
    seconds = sum(row["seconds"] for row in rows.values())
    return Section(
        "Commands against a real chat model of 135 million parameters",
        (Table(list(rows.values())),),
        notes=(
            f"{calls} calls in {seconds} s; {invalid} of {judgments} judgments were invalid and "
            "are counted as such: no score was made of them. A judge is asked a second time where "
            "a reply cannot be used, and never a third time.",
            "The model is SmolLM2-135M-Instruct, four-bit weights read as float32, on one thread, "
            "temperature 0, `transformers serve`. It is too small to answer, judge or write "
            "questions. The table is about calls, tokens and stops, not about quality.",
            "Requests and tokens by the server were counted at a proxy in front of it. A request "
            "that was broken off has no tokens there.",
            "A reply that its limit on tokens cut is not kept for another run. So after Ctrl-C the "
            "rows under way may be asked again.",
            f"Load average at the end: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; seconds "
            "depend on what else ran.",
        ),
        command="python -m benchmarks.peers.install model   # once\n"
        "python -m benchmarks.real_model --publish",
        page="real-model",
        data={"judged": judged, "rows": list(rows.values())},
    )


def main() -> None:
    """Run the steps, print, and store where asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--publish", action="store_true", help="store the figures and the page")
    parser.add_argument("--only", default="", help="names of steps; the others keep figures")
    given = parser.parse_args()
    wanted = [name for name in given.only.split(",") if name]
    # A job in the background of a shell ignores Ctrl-C, and so would the commands it starts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with tempfile.TemporaryDirectory() as folder, real_model() as model:
            trial = Trial(Path(folder) / "project", model)
            trial.run("ingest")
            for step in TRIALS:
                if not wanted or step.__name__ in wanted:
                    step(trial)
            stored = RESULTS / "real-model.json"
            known = json.loads(stored.read_text("utf-8"))["data"] if stored.is_file() else {}
            report = section(trial, known if wanted else {})
    except MissingModelError as error:
        raise SystemExit(f"skipped: {error}") from None
    print("\n".join(section_lines(report)))
    if given.publish:
        print(publish("real-model", report))


if __name__ == "__main__":
    main()
