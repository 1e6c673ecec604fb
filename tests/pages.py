"""What README and the cookbook show, and a shell in which it is tried."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COOKBOOK = (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8")
#: The cluster of the cookbook.
BOOK = "http://127.0.0.1:8265"

#: Runs a command and returns what it prints.
Shell = Callable[[str], str]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.S)


def commands(text: str) -> list[tuple[str, list[str]]]:
    """Every command of the console blocks, with the lines it is said to print."""
    found: list[tuple[str, list[str]]] = []
    for line in "".join(blocks(text, "console")).splitlines():
        if line.startswith("$ "):
            found.append((line[2:].split("  #")[0].strip(), []))
        else:
            found[-1][1].append(line.strip())
    return found


def starting(text: str, *words: str) -> list[tuple[str, list[str]]]:
    return [(command, shown) for command, shown in commands(text) if command.startswith(words)]


def write_specs(text: str, folder: Path) -> None:
    """Write the TOML blocks to the files that their first lines name."""
    for block in blocks(text, "toml"):
        (folder / block.split()[1]).write_text(block)


def timeless(text: str) -> str:
    return re.sub(r" in [\d.]+ s\b", " in some seconds", text)


def check(shell: Shell, wanted: list[tuple[str, list[str]]]) -> None:
    assert wanted
    for command, shown in wanted:
        printed = timeless(shell(command))
        for line in shown:
            assert timeless(line) in printed, f"{command} printed\n{printed}"


def shell_in(folder: Path) -> Shell:
    """Return what runs a command in a folder; it must succeed. Ours run in this process, which is warm."""

    def shell(command: str) -> str:
        words, printed, code = shlex.split(command), io.StringIO(), 0
        if words[0] == "sweep":
            words = ["python", "-m", "sweep.cli", *words[1:]]
        with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(printed):
            patch.chdir(folder)
            patch.setenv("MPLBACKEND", "agg")
            patch.setenv("COLUMNS", "100")
            if words[:2] == ["python", "-m"]:
                patch.setattr(sys, "argv", words[2:])
                name = words[2] if words[2].count(".") else f"{words[2]}.__main__"
                patch.delitem(sys.modules, name, raising=False)  # or runpy warns that it is there
                try:
                    runpy.run_module(words[2], run_name="__main__")
                except SystemExit as ended:
                    code = int(ended.code or 0)
            else:
                code = subprocess.run(words, check=False).returncode
        assert code == 0, f"{command}\n{printed.getvalue()}"
        return printed.getvalue()

    return shell
