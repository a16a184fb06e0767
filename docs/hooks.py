"""What the site shows and `docs/` does not hold: the reference of the commands, and figures.

MkDocs calls the functions below while it builds; see `hooks` in `mkdocs.yml`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
COMMANDS = "reference/commands.md"

# Figures lie beside the records they are drawn from. Pages link to them as `../results/...`, right
# where the repository is browsed; the site holds a copy.
OUTSIDE = re.compile(r"\]\(\.\./((?:benchmarks|results)/[^)#\s]+\.(?:png|svg))\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the reference of the commands, and each figure that a page shows from elsewhere."""
    files.append(File.generated(config, COMMANDS, content=command_reference()))
    figures = {
        figure
        for page in files.documentation_pages()
        for figure in OUTSIDE.findall(page.content_string)
    }
    for figure in sorted(figures):
        files.append(File.generated(config, figure, abs_src_path=str(ROOT / figure)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point to the site's copy of such figures."""
    return OUTSIDE.sub(r"](\1)", markdown)


def command_reference() -> str:
    """Every verb with its arguments and options, as typer itself writes it down."""
    words = ["-m", "typer", "bacoun.cli", "utils", "docs", "--name", "bacoun"]
    run = subprocess.run(
        [sys.executable, *words, "--title", "Command line"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return _with_whole_sentences(run.stdout.replace("```console\n$ ", "```sh\n"))


def _with_whole_sentences(text: str) -> str:
    """Where typer lists the commands it cuts their first sentence short; put it back, and link."""
    sentences = dict(re.findall(r"^#+ `bacoun ([^`]+)`\n\n(.+)$", text, re.MULTILINE))
    lines, group = [], ""
    for line in text.splitlines():
        if heading := re.match(r"#+ `bacoun ([^`]+)`", line):
            group = f"{heading[1]} "
        entry = re.match(r"\* `(\w+)`:", line)
        if entry and (verb := f"{group}{entry[1]}") in sentences:
            line = f"* [`{entry[1]}`](#bacoun-{verb.replace(' ', '-')}): {sentences[verb]}"
        lines.append(line)
    return "\n".join(lines) + "\n"
