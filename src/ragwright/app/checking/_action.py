"""`ragwright action`."""

from __future__ import annotations

from pathlib import PurePath

from typer import Option

from ... import __version__
from ...core import ConfigError
from ...jobs import GateWorkflow
from ...measure import parse_rule
from ...project import ProjectFolder, load_settings
from .._flags import Flags, takes


@takes("project measures max_cost output quiet")
def command(
    flags: Flags,
    testset: str = Option(..., help="Test set on which every pull request is measured."),
    rules: list[str] = Option(
        ..., "--rule", help="Rule of the gate, such as 'nDCG@10>=0.7'; repeatable."
    ),
) -> None:
    """Write a GitHub workflow that gates pull requests and posts one comment.

    Commit it below .github/workflows. Keys of models are read from secrets of the same names.
    """
    for rule in rules:
        parse_rule(rule)
    root = PurePath(flags.project)
    if root.is_absolute() or ".." in root.parts:
        raise ConfigError(
            "the workflow needs the folder of the project within the repository",
            where=f"-C {flags.project}",
            hint="run the command in the root of the repository and give a relative path",
        )
    folder = ProjectFolder(flags.project)
    settings = load_settings(folder.file)
    keys = sorted({model.key_env for model in settings.models.values() if model.key_env})
    extras = "docs,embed" if settings.embed.model else "docs"
    workflow = GateWorkflow(
        testset,
        tuple(rules),
        flags.measures,
        flags.max_cost,
        "" if root == PurePath() else root.as_posix(),
        tuple(keys),
        f"ragwright[{extras}]=={__version__}",
    )
    flags.console.result(workflow.text().rstrip("\n"))
