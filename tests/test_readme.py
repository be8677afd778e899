"""The outputs that the README shows are those of its commands."""

from __future__ import annotations

import re
from pathlib import Path

from command_line import ragwright

README = (Path(__file__).resolve().parents[1] / "README.md").read_text("utf-8")
SHOWN: list[str] = re.findall(r"^```text\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def write_files(folder: Path) -> None:
    """Write the files that the README writes with printf and with a here document."""
    for line, name in re.findall(r"^printf '(# .*)' > (\S+)$", README, re.MULTILINE):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(line.replace("\\n", "\n"))
    [(name, text)] = re.findall(r"^cat > (\S+) <<'END'\n(.*?)^END", README, re.M | re.S)
    (folder / name).write_text(text)
    [rows] = re.findall(r"^printf '%s\\n' (.*?) > questions.csv$", README, re.M | re.S)
    (folder / "questions.csv").write_text("\n".join(re.findall(r"'([^']*)'", rows)))


def test_the_shown_answer_and_the_shown_scores(tmp_path: Path) -> None:
    write_files(tmp_path)
    answer, scores = SHOWN
    ragwright(tmp_path, "init", "-q", "--source", "manuals/")
    ragwright(tmp_path, "ingest", "-q")
    question = "How often must the brake fluid be changed?"
    assert f'ragwright ask "{question}"' in README
    assert ragwright(tmp_path, "ask", question).stdout.strip() == answer.strip()
    evaluated = ("eval", "--system", "mine:answer", "--testset", "questions.csv")
    assert f"ragwright {' '.join(evaluated)}\n" in README
    assert scores in ragwright(tmp_path, *evaluated).stdout
