"""A GitHub workflow that gates pull requests."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from ..core import ConfigError

_TEMPLATE = """\
# Written by `ragwright action`; change it as you like.
name: ragwright

on:
  pull_request:

permissions:
  contents: read
  pull-requests: write

concurrency:
  group: ragwright-${{{{ github.ref }}}}
  cancel-in-progress: true

jobs:
  gate:
    runs-on: ubuntu-latest
    timeout-minutes: 60
{environment}    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
      - name: Install
        run: |
          pip install {package}
      - name: Read the documents
        run: |
          ragwright ingest --quiet{project}
      - name: Ask the test set
        run: |
          ragwright eval {evaluated} --quiet{project}
      - name: Gate
        run: |
          code=0
          ragwright gate latest {rules}{project} --markdown > ragwright-gate.md || code=$?
          cat ragwright-gate.md >> "$GITHUB_STEP_SUMMARY"
          exit "$code"
      # A fork's token may not write comments; its result is on the page of the run.
      - name: Comment
        if: >-
          !cancelled() && hashFiles('ragwright-gate.md') != ''
          && github.event.pull_request.head.repo.full_name == github.repository
        run: |
          place="repos/$GITHUB_REPOSITORY/issues"
          mark='.[] | select(.body | startswith("<!-- ragwright gate -->")) | .id'
          id=$(gh api --paginate "$place/$NUMBER/comments" --jq "$mark" | tail -n 1)
          if [ -n "$id" ]; then
            gh api -X PATCH "$place/comments/$id" -F body=@ragwright-gate.md > /dev/null
          else
            gh pr comment "$NUMBER" --body-file ragwright-gate.md
          fi
        env:
          GH_TOKEN: ${{{{ github.token }}}}
          NUMBER: ${{{{ github.event.pull_request.number }}}}
"""


@dataclass(frozen=True, slots=True)
class GateWorkflow:
    """What a workflow asks and requires.

    Attributes:
        testset: The test set, as ``eval`` takes it.
        rules: Rules of the gate.
        measures: Measures; those that suit the rows where empty.
        max_cost: Most money of one run; None: no limit.
        project: Folder of the project in the repository; empty: its root.
        keys: Environment variables of model keys; each is read from a secret of the same name.
        package: The requirement that pip installs.
    """

    testset: str
    rules: tuple[str, ...]
    measures: str = ""
    max_cost: float | None = None
    project: str = ""
    keys: tuple[str, ...] = ()
    package: str = "ragwright"

    def text(self) -> str:
        """The workflow as YAML.

        Raises:
            ConfigError: A value holds what GitHub would read as an expression, or a line break; or
                a key is not the name of an environment variable.
        """
        evaluated = ["--testset", self.testset]
        if self.measures:
            evaluated += ["--measures", self.measures]
        if self.max_cost is not None:
            evaluated += ["--max-cost", f"{self.max_cost:g}"]
        rules = [word for rule in self.rules for word in ("--rule", rule)]
        project = ["", "-C", self.project] if self.project else []
        return _TEMPLATE.format(
            environment=_environment(self.keys),
            package=_shell([self.package]),
            project=f" {_shell(project[1:])}" if project else "",
            evaluated=_shell(evaluated),
            rules=_shell(rules),
        )


def _environment(keys: Sequence[str]) -> str:
    if not keys:
        return ""
    for name in keys:
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise ConfigError(
                f"{name!r} cannot be the name of a secret",
                where="models.*.key_env",
                hint="use letters, digits and underscores",
            )
    lines = [f"      {name}: ${{{{ secrets.{name} }}}}\n" for name in keys]
    return "    env:\n" + "".join(lines)


def _shell(words: Sequence[str]) -> str:
    for word in words:
        # YAML also breaks lines at characters such as U+2028.
        if "${{" in word or not word.isprintable():
            raise ConfigError(
                f"{word!r} cannot be written into a workflow",
                hint="leave out ${{, line breaks and other control characters",
            )
    return shlex.join(words)
