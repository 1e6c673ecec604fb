"""Provenance: plain values, with the commit of the checkout or of the upload."""

import json
import subprocess
import sys
from pathlib import Path

import sweep
from sweep import provenance as provenance_module
from sweep.provenance import provenance
from sweep.seeds import NUMBERS_VERSION


def test_provenance_is_plain_and_needs_no_git(monkeypatch, tmp_path):
    record = provenance()
    assert json.loads(json.dumps(record)) == record
    assert record["numbers_version"] == NUMBERS_VERSION
    assert record["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert provenance_module._commit(tmp_path) == (None, None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance_module._commit(Path(sweep.__file__).parents[1]) == (None, None)
    monkeypatch.setattr(provenance_module, "DISTRIBUTIONS", ("no such distribution",))
    provenance_module._fixed.cache_clear()
    assert provenance()["versions"]["no such distribution"] is None
    provenance_module._fixed.cache_clear()


def test_uploaded_code_knows_the_commit_it_came_from(monkeypatch, tmp_path):
    assert provenance_module._uploaded() is None
    (tmp_path / "origin.json").write_text('{"commit": "abc", "modified": true}')
    monkeypatch.setattr(provenance_module, "_PACKAGE", tmp_path)
    assert provenance_module._uploaded() == ("abc", True)


def test_the_commit_is_that_of_the_checkout_itself(tmp_path):
    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        command = ["git", *identity, "-C", str(tmp_path), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-m", "first")
    commit = git("rev-parse", "HEAD")
    assert provenance_module._commit(tmp_path) == (commit, False)
    (tmp_path / "file").write_text("two")
    assert provenance_module._commit(tmp_path) == (commit, True)
    (tmp_path / "inside").mkdir()
    assert provenance_module._commit(tmp_path / "inside") == (None, None)
