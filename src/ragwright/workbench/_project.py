"""The project folder: where everything of a project lies on disk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..core import ConfigError

PROJECT_FILE = "ragwright.yaml"

_TEMPLATE = """\
# A ragwright project. Only `sources` is needed; every other key has a default.
# All keys: ragwright doctor --keys

sources:
{sources}
# embed:
#   model: onnx:path/to/model-folder   # vectors beside keyword search

# answer:
#   model: openai:gpt-4o-mini          # the key comes from OPENAI_API_KEY

# models:
#   openai:gpt-4o-mini:
#     price_in: 0.15                   # per million tokens; --max-cost needs prices
#     price_out: 0.60
"""

_PERSONA = """\
# A reader to write for. Rename the file and the name, then: ragwright ask "…" --personas support
name: support
audience: people on a help desk who must answer while the customer waits
technical_density: product names and error codes yes, internals no
language_complexity: plain
answer_length: two or three sentences
writing_style: friendly and direct
max_words: 60
"""

_PROMPT = """\
# Own wording for parts of the prompt: every part named here replaces the shipped one.
# Use it with    prompt: {template: prompts/own.yaml}    in ragwright.yaml
# All parts: role, tailor, ignore_debris, only_context, key_information, insufficient,
# readable_sentences, persona_length, persona_style, no_extraneous, context, question, …
# To leave a part out, say    prompt: {without: [key_information]}    there.
parts:
  no_extraneous: Say nothing that was not asked for.
"""


@dataclass(frozen=True, slots=True)
class ProjectFolder:
    """Paths of a project; nothing is made before it is needed.

    ``cache`` may be deleted at the cost of time and money alone; ``data`` must be kept.
    """

    root: Path

    @property
    def file(self) -> Path:
        """The project file."""
        return self.root / PROJECT_FILE

    @property
    def personas(self) -> Path:
        """Folder of persona files."""
        return self.root / "personas"

    @property
    def prompts(self) -> Path:
        """Folder of prompt files."""
        return self.root / "prompts"

    @property
    def testsets(self) -> Path:
        """Folder of testsets."""
        return self.root / "testsets"

    @property
    def data(self) -> Path:
        """Store, runs and outputs."""
        return self.root / ".ragwright" / "data"

    @property
    def cache(self) -> Path:
        """Replies, views and file stamps."""
        return self.root / ".ragwright" / "cache"

    def require(self) -> ProjectFolder:
        """The folder itself, if it holds a project.

        Raises:
            ConfigError: There is no project file.
        """
        if not self.file.is_file():
            raise ConfigError(
                f"there is no {PROJECT_FILE} here",
                where=str(self.root.resolve()),
                hint="run: ragwright init   (or change to the folder of a project)",
            )
        return self


def init_project(root: Path, sources: tuple[str, ...] = ()) -> list[Path]:
    """Write a new project; returns the files written.

    Raises:
        ConfigError: There is a project already; nothing is touched.
    """
    folder = ProjectFolder(root)
    if folder.file.exists():
        raise ConfigError(
            f"there is a {PROJECT_FILE} already; nothing was changed",
            where=str(folder.file),
            hint="edit it, or choose another folder",
        )
    listed = "".join(f"  - {_quoted(source)}\n" for source in sources) or "  - docs/\n"
    written = {
        folder.file: _TEMPLATE.format(sources=listed),
        folder.personas / "support.yaml": _PERSONA,
        folder.prompts / "own.yaml": _PROMPT,
        folder.testsets / "README.md": (
            "Testsets live here: JSONL rows, or BEIR folders.\n\n"
            "    ragwright synth -o testsets/mine.jsonl      # questions made of your documents\n"
            "    ragwright review testsets/mine.jsonl        # accept, edit, reject\n"
            "    ragwright eval --testset testsets/mine.jsonl\n\n"
            "openings.jsonl, once it is there, says who opened a confirm split and what for: keep "
            "it under version control.\n"
        ),
        root / ".gitignore": ".ragwright/\n",
    }
    made = []
    for path, text in written.items():
        if path.exists():
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        made.append(path)
    return made


def _quoted(source: str) -> str:
    safe = all(c.isalnum() or c in "/._-" for c in source)
    return source if safe else '"' + source.replace("\\", "\\\\").replace('"', '\\"') + '"'
