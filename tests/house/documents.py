"""The documents as data: their links, code blocks and the names they mention."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_INLINE = re.compile(r"`([^`\n]+)`")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    document: Path
    language: str
    text: str
    line: int

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True, slots=True)
class Run:
    """A command of a console block, and the output shown under it."""

    block: Block
    command: str
    output: str

    def __str__(self) -> str:
        return f"{self.block}-{self.command[:40]}"


def blocks(*languages: str) -> list[Block]:
    """The code blocks of all documents, or of these languages."""
    found = []
    for document in DOCUMENTS:
        text = document.read_text()
        for match in _BLOCK.finditer(text):
            if not languages or match[1] in languages:
                line = text.count("\n", 0, match.start()) + 1
                found.append(Block(document, match[1], match[2], line))
    return found


def runs() -> list[Run]:
    found: list[Run] = []
    for block in blocks("console"):
        for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append(Run(block, command, output))
    return found


def prose(document: Path) -> str:
    """Without its code blocks."""
    return _BLOCK.sub("", document.read_text())


def links(document: Path) -> list[str]:
    return _LINK.findall(prose(document))


def inline_codes(document: Path) -> list[str]:
    return _INLINE.findall(prose(document))


def anchors(document: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = _HEADING.findall(prose(document))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands_of(program: str) -> list[tuple[str, str]]:
    """Where, and the arguments of each call of a program: in code blocks and in the prose."""
    call = re.compile(rf"(?:^|[|;&] *){program} ([^|;&>#]*)")
    found = []
    for block in blocks("console"):
        # Output is passed over; a block without prompts is all commands, with remarks beside them.
        prompt = "$ " if "$ " in block.text else ""
        for line in block.text.replace("\\\n", " ").splitlines():
            if line.startswith(prompt):
                found += [(str(block), match) for match in call.findall(line.removeprefix(prompt))]
    for document in DOCUMENTS:
        found += [
            (document.name, match)
            for code in inline_codes(document)
            for match in call.findall(code)
        ]
    return list(dict.fromkeys((where, arguments.strip()) for where, arguments in found))
